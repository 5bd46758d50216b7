//! A GPU whose shaders compute wrongly is refused or left out, unless it is taken at its word; verdicts are remembered. Skipped
//! where there is no adapter, a software one (lavapipe) included.

use std::fs;

use candor::{
    Device, Error, Gguf, LoadOptions, Model, Placement, Verify,
    trust::{Source, Trust},
};
use candor_gpu::{AdapterChoice, GpuOptions, ShaderEdit, adapters};
use candor_testing::{Tiny, argmax, has_gpu};

const PROMPT: [u32; 7] = [1, 270, 280, 290, 300, 261, 262];

/// All tokens of a prompt are turned by the first one's position.
const BROKEN: ShaderEdit = ShaderEdit { kernel: "Rope", from: "step[id.y + 1u].y", to: "step[1u].y" };

/// Options for the first adapter, with changes to its shaders. On a machine without adapters `None`, with a printed reason.
fn gpu(edits: &[ShaderEdit]) -> Option<LoadOptions> {
    if !has_gpu(adapters().len()) {
        return None;
    }
    let gpu = GpuOptions::default().adapter(AdapterChoice::Index(0)).edits(edits.to_vec());
    Some(LoadOptions::default().device(Device::Gpu).gpu(gpu).threads(1))
}

/// A model of a shape of its own.
fn load(ffn: usize, options: &LoadOptions) -> Result<Model, Error> {
    Model::from_gguf(Gguf::from_bytes(Tiny { ffn, ..Tiny::default() }.bytes().into()).unwrap(), options)
}

/// Greedy tokens after the prompt, and the logits after it.
fn run(model: &Model) -> (Vec<u32>, Vec<f32>) {
    let mut session = model.session(&Default::default()).unwrap();
    session.evaluate(&PROMPT).unwrap();
    let (logits, mut tokens) = (session.logits().to_vec(), Vec::new());
    for _ in 0..8 {
        tokens.push(argmax(session.logits()));
        session.evaluate(&tokens[tokens.len() - 1..]).unwrap();
    }
    (tokens, logits)
}

/// The first wrong operation of the only GPU.
fn failure(trust: &Trust) -> Option<&str> {
    let [verdict] = &trust.verdicts[..] else { panic!("{trust:?}") };
    assert!(verdict.device.name == "gpu0" && !trust.without_cooperative && trust.unverified.is_none(), "{trust:?}");
    verdict.failure.as_deref()
}

#[test]
fn a_gpu_that_computes_wrongly_is_refused_or_left_out() {
    let (Some(healthy), Some(broken)) = (gpu(&[]), gpu(&[BROKEN])) else { return };
    let on_cpu = run(&load(80, &broken.clone().device(Device::Cpu)).unwrap());

    let parts = Placement::Parts(vec![(Device::Cpu, 0..1), (Device::Gpu, 1..2)]);
    for placement in [Placement::Planned, parts] {
        let Err(error) = load(80, &broken.clone().placement(placement)) else { panic!("it was taken") };
        let Error::Untrusted { name, driver, failure, .. } = &error else { panic!("{error}") };
        assert!(name == "gpu0" && driver.contains("vulkan") && failure.starts_with("rope: error "), "{error}");
        assert!(error.to_string().contains(" computes wrongly: rope: error "), "{error}");
    }

    let auto = load(80, &broken.clone().device(Device::Auto)).unwrap();
    assert!(auto.device_label().starts_with("cpu, "), "{}", auto.device_label());
    assert!(failure(auto.trust()).is_some_and(|failure| failure.starts_with("rope: error ")), "{:?}", auto.trust());
    assert_eq!(run(&auto), on_cpu);

    let taken = load(80, &broken.verify(Verify::Off)).unwrap();
    assert!(taken.device_label().starts_with("gpu, "), "{}", taken.device_label());
    assert_eq!(taken.trust(), &Trust::default());
    let most = run(&taken).1.iter().zip(&on_cpu.1).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(most > 1e-2, "the fault changes logits by {most}");

    for device in [Device::Gpu, Device::Auto] {
        let model = load(80, &healthy.clone().device(device)).unwrap();
        assert!(model.device_label().starts_with("gpu, "), "{}", model.device_label());
        assert_eq!(failure(model.trust()), None);
        assert_eq!(run(&model).0, on_cpu.0);
    }
}

#[test]
fn a_gpu_that_cannot_be_verified_is_refused_or_left_out() {
    // It does not compile.
    let Some(broken) = gpu(&[ShaderEdit { kernel: "RmsNorm", from: "no such text", to: "" }]) else { return };
    let Err(error) = load(80, &broken) else { panic!("it was taken") };
    assert!(matches!(error, Error::Model(_)) && error.to_string().contains("no such text"), "{error}");
    let auto = load(80, &broken.device(Device::Auto)).unwrap();
    assert!(auto.device_label().starts_with("cpu, "), "{}", auto.device_label());
    assert_eq!(auto.trust().unverified.as_ref(), Some(&error.to_string()));
    assert!(auto.trust().verdicts.is_empty());
}

#[test]
fn a_verdict_is_found_out_once_and_again_when_something_changes() {
    let (Some(healthy), Some(broken)) = (gpu(&[]), gpu(&[BROKEN])) else { return };
    let source = |ffn, options: &LoadOptions| load(ffn, options).unwrap().trust().verdicts[0].source;
    assert_eq!(source(88, &healthy), Source::Verified);
    assert_eq!(source(88, &healthy), Source::Remembered);
    // Other shaders and other models have verdicts of their own.
    let Err(Error::Untrusted { .. }) = load(88, &broken) else { panic!("it was taken") };
    assert_eq!(source(96, &healthy), Source::Verified);

    // What this process knows is kept for others, whose word is taken.
    let folder = std::env::temp_dir().join(format!("candor-trust-{}", std::process::id()));
    let kept = healthy.verify(Verify::On { folder: Some(folder.join("not/there/yet")) });
    assert_eq!(source(88, &kept), Source::Remembered);
    let files: Vec<_> =
        fs::read_dir(folder.join("not/there/yet")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    let text = fs::read_to_string(file).unwrap();
    fs::write(file, text.replace("\"failure\": null", "\"failure\": \"norm: error 1, at most 0\"")).unwrap();
    let Err(error) = load(88, &kept) else { panic!("it was taken") };
    assert!(error.to_string().ends_with(" computes wrongly: norm: error 1, at most 0"), "{error}");
    fs::remove_dir_all(&folder).unwrap();

    // A file where the folder should be is no reason to fail.
    let nowhere = Verify::On { folder: Some(std::env::current_exe().unwrap()) };
    assert_eq!(source(104, &kept.verify(nowhere)), Source::Verified);
}
