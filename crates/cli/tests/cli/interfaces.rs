//! GPUs by the interface to them, llama.cpp's names of devices, and flags that ask for a GPU where there is none.

use candor_testing::has_gpu;

use crate::{devices::gpus, program::candor};

const GREEDY: [&str; 8] = ["-p", "Once upon a time", "-n", "6", "--temp", "0", "-c", "64"];

#[test]
fn devices_are_listed_wherever_the_flag_stands() {
    let expected = candor(["devices"]).text();
    for args in
        [&["--list-devices"][..], &["run", "--list-devices"], &["chat", "-m", "none.gguf", "--list-devices", "-x"]]
    {
        assert_eq!(candor(args).text(), expected, "{args:?}");
    }
    let outcome = candor(["run", "--raw", "-n", "0", "-p", "--list-devices"]).outcome();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, ""), "{outcome:?}");
    assert_eq!(candor(["chat", "--version"]).text(), candor(["--version"]).text());
    assert_eq!(candor(["run", "m.gguf", "--usage"]).text(), candor(["run", "--help"]).text());
    assert_eq!(candor(["run", "--completion-bash"]).text(), candor(["completions", "bash"]).text());
}

#[test]
#[cfg(feature = "gpu")]
fn an_interface_that_is_not_here_is_refused_by_name() {
    let (elsewhere, reason) = match cfg!(target_vendor = "apple") {
        true => ("dx12", "DirectX 12 is only on Windows"),
        false => ("metal", "Metal is only on Apple's systems"),
    };
    for (device, problem) in [
        (elsewhere, format!("device {elsewhere}: {reason}; there is ")),
        ("opengl", "device opengl: OpenGL is not used: GPUs compute by Vulkan, Metal or DirectX 12; there is ".into()),
        ("vulkan99", "device vulkan99: ".into()),
    ] {
        let outcome = candor(["run", "--backend", device].iter().chain(&GREEDY)).outcome();
        let said: Vec<&str> = outcome.stderr.lines().collect();
        assert_eq!(outcome.code, 1, "{outcome:?}");
        assert!(said.iter().any(|line| line.starts_with(&format!("error: {problem}"))), "{outcome:?}");
        assert!(said.last().unwrap().starts_with("hint: --device gpu takes what there is"), "{outcome:?}");
    }
}

#[test]
fn names_of_other_programs_have_a_hint() {
    for device in ["cuda", "CUDA0", "ROCm1", "hip"] {
        let outcome = candor(["run", "-dev", device].iter().chain(&GREEDY)).outcome();
        assert_eq!(outcome.code, 1, "{outcome:?}");
        assert!(outcome.stderr.contains(&format!("error: device {device}: expected one of ")), "{outcome:?}");
        assert!(outcome.stderr.contains("\nhint: GPUs of all makers compute by Vulkan"), "{outcome:?}");
    }
    let expected = candor(["run", "--device", "cpu"].iter().chain(&GREEDY)).text();
    assert_eq!(candor(["run", "-dev", "none"].iter().chain(&GREEDY)).text(), expected);
}

#[test]
fn an_emulation_is_taken_by_its_interface_only_where_that_is_allowed() {
    let gpus = gpus();
    if !has_gpu(gpus.len()) {
        return;
    }
    let expected = candor(["run", "-v", "--device", &gpus[0], "--no-verify"].iter().chain(&GREEDY)).outcome();
    let devices: serde_json::Value = serde_json::from_str(&candor(["devices", "--json"]).text()).unwrap();
    let driver = devices[1]["driver"].as_str().unwrap();
    let interface = driver.split(", ").nth(1).expect("an interface");
    let numbered = format!("{interface}0");
    let on = |device: &str| candor(["run", "-v", "--backend", device, "--no-verify"].iter().chain(&GREEDY));
    if driver.starts_with("software, ") {
        let outcome = on(interface).outcome();
        assert_eq!(outcome.code, 1, "{outcome:?}");
        let there = format!("{} ({interface}, emulated by the processor)", gpus[0]);
        assert!(outcome.stderr.contains(&format!("error: device {interface}: no GPU here is reached")), "{outcome:?}");
        assert!(outcome.stderr.contains(&there), "{outcome:?}");
    }
    for device in [interface, &numbered, &interface.to_uppercase()] {
        let outcome = on(device).env("CANDOR_GPU_SOFTWARE", "1").outcome();
        assert_eq!((outcome.code, &outcome.stdout), (0, &expected.stdout), "{outcome:?}");
        assert!(outcome.stderr.contains("\ndevice: gpu, "), "{outcome:?}");
    }
}

#[test]
fn layers_for_a_gpu_that_is_not_there_are_said_once() {
    let real = |outcome: &str| outcome.contains("device: gpu");
    for layers in ["99", "all", "-2"] {
        let outcome = candor(["run", "-v", "-ngl", layers].iter().chain(&GREEDY)).outcome();
        assert_eq!(outcome.code, 0, "{outcome:?}");
        let notes = outcome.stderr.matches(" changes nothing: there is no GPU, the processor computes").count();
        assert_eq!(notes, if real(&outcome.stderr) { 0 } else { 1 }, "{outcome:?}");
    }
    for layers in [&["-ngl", "auto"][..], &["-ngl", "-1"], &["-ngl", "0"], &["-ngl", "9", "--device", "cpu"]] {
        let outcome = candor(["run"].iter().chain(layers).chain(&GREEDY)).outcome();
        assert!(outcome.code == 0 && !outcome.stderr.contains("changes nothing"), "{outcome:?}");
    }
}
