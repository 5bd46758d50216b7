//! Devices: which there are, which is taken, and how a model is laid out over them.

use candor_testing::has_gpu;

use crate::program::candor;

const GREEDY: [&str; 8] = ["-p", "Once upon a time", "-n", "6", "--temp", "0", "-c", "64"];

/// Names of the GPUs; empty without any, not even an emulated one.
pub fn gpus() -> Vec<String> {
    let devices: serde_json::Value = serde_json::from_str(&candor(["devices", "--json"]).text()).unwrap();
    let devices = devices.as_array().unwrap();
    assert_eq!(devices[0]["name"], "cpu");
    assert!(devices[0]["driver"].as_str().unwrap().ends_with(" kernels"), "{devices:?}");
    for device in &devices[1..] {
        let [total, free, budget] = ["memory", "free", "budget"].map(|key| device[key].as_u64());
        // Every driver of these days says how much memory there is.
        let (total, budget) = (total.unwrap(), budget.unwrap());
        assert!(0 < budget && budget < free.unwrap_or(total) && free.is_none_or(|free| free <= total), "{device}");
    }
    let names = devices[1..].iter().map(|device| device["name"].as_str().unwrap().to_owned());
    names.collect()
}

#[test]
fn devices_are_listed() {
    let table = candor(["devices"]).text();
    let mut lines = table.lines();
    let head = "name memory free for models device driver";
    assert_eq!(lines.next().unwrap().split_whitespace().collect::<Vec<_>>().join(" "), head);
    let names: Vec<&str> = lines.map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(names[0], "cpu");
    assert_eq!(names[1..], gpus());
}

#[test]
fn a_device_that_is_not_there_is_an_error() {
    let outcome = candor(["run", "-p", "a", "--device", "abacus"]).outcome();
    // A driver may say something of its own before.
    let said = outcome.stderr.trim_end();
    let problem = "error: device abacus: expected one of auto, cpu, gpu, reference";
    assert!(outcome.code == 1 && said.lines().any(|line| line.starts_with(problem)), "{said}");
    assert!(said.ends_with("\nhint: `candor devices` says what each of them is"), "{said}");
    for (flag, value, problem) in [
        ("-ngl", "some", "expected a number of layers, auto or all, got \"some\""),
        ("--gpu-memory", "much", "expected bytes such as 512M, 7.5G or 8Gi, got \"much\""),
        ("-ts", "1,x", "expected shares such as 3,1, got \"x\""),
    ] {
        let outcome = candor(["run", "-p", "a", flag, value]).outcome();
        assert_eq!(outcome.code, 2, "{outcome:?}");
        assert!(outcome.stderr.contains(problem), "{outcome:?}");
    }
}

#[test]
fn auto_is_the_processor_where_there_is_no_gpu_and_never_an_emulation() {
    let outcome = candor(["run", "-v", "--device", "auto"].iter().chain(&GREEDY)).outcome();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(!outcome.stderr.contains("llvmpipe"), "{outcome:?}");
}

#[test]
fn layers_on_a_gpu_give_the_same_text() {
    let gpus = gpus();
    if !has_gpu(gpus.len()) {
        return;
    }
    let gpu = &gpus[0];
    let expected = candor(["run"].iter().chain(&GREEDY)).text();
    for (flags, reason) in [
        (&["-ngl", "1"][..], "1 of "),
        (&["--gpu-memory", "2M"], "the budget of 2 MB holds no"),
        (&["-ngl", "0"], "0 of "),
        (&["-ngl", "all", "--gpu-memory", "2M"], "more than the budget of 2 MB\nhint: -ngl auto takes as many layers "),
    ] {
        let words = ["run", "--device", gpu, "--no-verify"].into_iter().chain(flags.iter().copied()).chain(GREEDY);
        let outcome = candor(words).outcome();
        assert_eq!((outcome.code, &outcome.stdout), (0, &expected), "{flags:?}: {outcome:?}");
        assert!(outcome.stderr.contains(reason), "{flags:?}: {outcome:?}");
    }
}

#[test]
fn a_gpu_is_used_only_where_it_computes_rightly() {
    let Some(gpu) = gpus().into_iter().next() else {
        eprintln!("skipped: no GPU, and no software adapter (lavapipe) either");
        return;
    };
    let cache = tempfile::tempdir().unwrap();
    let run = |flags: &[&str]| {
        let words = ["run", "-v"].iter().chain(flags).chain(&GREEDY);
        // Named, an emulation is a GPU like any other.
        let program = candor(words).env("XDG_CACHE_HOME", cache.path().to_str().unwrap());
        program.env("CANDOR_GPU_SOFTWARE", "1").outcome()
    };
    let expected = run(&["--device", "cpu"]).stdout;
    let verdicts = cache.path().join("candor/gpus");
    assert!(!verdicts.exists(), "the processor is not verified");
    let outcome = run(&["--device", &gpu, "--no-verify"]);
    assert!(outcome.code == 0 && outcome.stdout == expected && !verdicts.exists(), "{outcome:?}");
    for device in [&gpu, "gpu", "auto"] {
        let outcome = run(&["--device", device]);
        assert_eq!((outcome.code, &outcome.stdout), (0, &expected), "{outcome:?}");
        assert!(outcome.stderr.contains("\ndevice: gpu, ") && !outcome.stderr.contains("warning: "), "{outcome:?}");
    }

    // What a broken driver's verdict does.
    let files: Vec<_> = std::fs::read_dir(&verdicts).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let healthy = std::fs::read_to_string(&files[0]).unwrap();
    let failed = healthy.replace("\"failure\": null", "\"failure\": \"rope: error 2.0e0, at most 1.0e-5, at layer 0\"");
    assert_ne!(failed, healthy);
    std::fs::write(&files[0], failed).unwrap();
    for device in [&gpu, "gpu"] {
        let outcome = run(&["--device", device]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""), "{outcome:?}");
        let problem = format!("error: device {gpu}: ");
        assert!(outcome.stderr.lines().any(|line| line.starts_with(&problem)), "{outcome:?}");
        assert!(outcome.stderr.contains(" computes wrongly: rope: error 2.0e0"), "{outcome:?}");
        assert!(
            outcome.stderr.contains("\nhint: --device cpu ") && outcome.stderr.contains("--no-verify"),
            "{outcome:?}"
        );
    }
    let outcome = run(&["--device", "auto"]);
    assert_eq!((outcome.code, &outcome.stdout), (0, &expected), "{outcome:?}");
    let lines: Vec<&str> = outcome.stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert!(lines.len() == 1 && lines[0].starts_with(&format!("warning: {gpu} (")), "{outcome:?}");
    assert!(lines[0].contains(" computes wrongly, using the processor: rope: error 2.0e0"), "{outcome:?}");
    assert!(outcome.stderr.contains("\ndevice: cpu, "), "{outcome:?}");
    let outcome = run(&["--device", &gpu, "--no-verify"]);
    assert!(outcome.code == 0 && outcome.stderr.contains("\ndevice: gpu, "), "{outcome:?}");
}

#[test]
fn a_gpu_without_memory_is_an_error_with_a_way_out() {
    let Some(gpu) = gpus().into_iter().next() else {
        eprintln!("skipped: no GPU, and no software adapter (lavapipe) either");
        return;
    };
    let flags = ["run", "-p", "a", "-n", "1", "--device", &gpu, "--no-verify", "-ngl", "all", "-c", "2000000"];
    let outcome = candor(flags).outcome();
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stderr.contains("out of memory: "), "{outcome:?}");
    let hint = outcome.stderr.lines().last().unwrap();
    assert!(hint.starts_with("hint: -ngl ") && hint.ends_with("--device cpu runs on the processor"), "{outcome:?}");
}
