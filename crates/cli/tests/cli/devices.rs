//! Devices: which there are, which is taken, and how a model is laid out over them.

use candor_testing::has_gpu;

use crate::program::candor;

const GREEDY: [&str; 8] = ["-p", "Once upon a time", "-n", "6", "--temp", "0", "-c", "64"];

/// Names of the GPUs; empty where there is none, not even an emulation.
pub fn gpus() -> Vec<String> {
    let devices: serde_json::Value = serde_json::from_str(&candor(["devices", "--json"]).text()).unwrap();
    let devices = devices.as_array().unwrap();
    assert_eq!(devices[0]["name"], "cpu");
    assert!(devices[0]["driver"].as_str().unwrap().ends_with(" kernels"), "{devices:?}");
    let names = devices[1..].iter().map(|device| device["name"].as_str().unwrap().to_owned());
    names.collect()
}

#[test]
fn devices_are_listed() {
    let table = candor(["devices"]).text();
    let mut lines = table.lines();
    assert_eq!(lines.next().unwrap().split_whitespace().collect::<Vec<_>>(), ["name", "memory", "device", "driver"]);
    let names: Vec<&str> = lines.map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(names[0], "cpu");
    assert_eq!(names[1..], gpus());
}

#[test]
fn a_device_that_is_not_there_is_an_error() {
    let outcome = candor(["run", "-p", "a", "--device", "abacus"]).outcome();
    // A driver may say something of its own before.
    let said = outcome.stderr.trim_end();
    assert!(
        outcome.code == 1 && said.contains("\nerror: device abacus: expected one of auto, cpu, gpu, reference"),
        "{said}"
    );
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
    ] {
        let words = ["run", "--device", gpu].into_iter().chain(flags.iter().copied()).chain(GREEDY);
        let outcome = candor(words).outcome();
        assert_eq!((outcome.code, &outcome.stdout), (0, &expected), "{flags:?}: {outcome:?}");
        assert!(outcome.stderr.contains(reason), "{flags:?}: {outcome:?}");
    }
}
