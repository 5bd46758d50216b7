//! A GPU that is lost in the middle of an answer, and one that is asked for more than it has: errors that say so, no hang, and
//! the next model runs.

use std::time::{Duration, Instant};

use candor::{Device, Error, Gguf, LoadOptions, Model, Session, SessionOptions, Verify};
use candor_gpu::{AdapterChoice, Gpu, GpuOptions, ShaderEdit, Variant};
use candor_testing::Tiny;

const PROMPT: [u32; 7] = [1, 270, 280, 290, 300, 261, 262];

/// Options for a device that no other test has.
fn gpu(timeout: Duration) -> LoadOptions {
    let gpu = GpuOptions::default().adapter(AdapterChoice::Index(0)).timeout(timeout);
    LoadOptions::default().device(Device::Gpu).gpu(gpu).verify(Verify::Off).threads(1)
}

fn load(options: &LoadOptions) -> Model {
    Model::from_gguf(Gguf::from_bytes(Tiny::default().bytes().into()).unwrap(), options).unwrap()
}

fn session(model: &Model, context: usize) -> Session {
    model.session(&SessionOptions::default().context(context)).unwrap()
}

/// What the device said.
fn said(result: Result<(), Error>) -> String {
    match result {
        Err(Error::Model(candor_models::Error::Ops(candor_ops::Error::Device { device, what }))) => {
            assert!(device.starts_with("gpu "), "{device}");
            what
        }
        other => panic!("expected the device's error, got {other:?}"),
    }
}

#[test]
fn a_lost_device_is_an_error_and_the_next_model_runs() {
    let Some(_alone) = crate::alone() else { return };
    let options = gpu(Duration::from_secs(20));
    let model = load(&options);
    let (mut first, mut second) = (session(&model, 32), session(&model, 32));
    first.evaluate(&PROMPT).unwrap();
    second.evaluate(&PROMPT).unwrap();
    let expected = second.logits().to_vec();
    let mut file = Vec::new();
    second.save(&mut file).unwrap();

    Gpu::new(&options.gpu).unwrap().lose();
    let started = Instant::now();
    let what = said(first.evaluate(&[270]));
    assert!(what.contains("the device was lost"), "{what}");
    // All sessions of the device say the same, as often as they are asked; nothing panics, nothing hangs.
    assert_eq!(said(second.evaluate(&[270])), what);
    assert_eq!(said(first.evaluate(&[271])), what);
    assert_eq!(said(session(&model, 32).evaluate(&PROMPT)), what);
    let saved = first.save(&mut Vec::new());
    assert_eq!(said(saved), what);
    assert_eq!(said(first.load(&file).map(drop)), what);
    assert!(first.tokens().is_empty());
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());

    // A model that is loaded now gets a device of its own.
    let again = load(&options);
    let mut third = session(&again, 32);
    third.evaluate(&PROMPT).unwrap();
    assert_eq!(third.logits(), expected);
}

#[test]
fn a_probe_that_fails_fails_alone() {
    let Some(_alone) = crate::alone() else { return };
    let mut options = gpu(Duration::from_secs(22));
    // It does not compile: there is no such thing in its source.
    options.gpu.edits = vec![ShaderEdit { kernel: "Probe(", from: "nothing of the kind", to: "" }];
    options.gpu.variant = Some(Variant::default());
    let model = load(&options);
    let error = candor::gpu_ceilings(&model).expect_err("no probe compiles");
    assert!(error.to_string().contains("gpu "), "{error}");
    session(&model, 32).evaluate(&PROMPT).unwrap();
}

#[test]
fn more_than_there_is_is_an_error_of_that_session_alone() {
    let Some(_alone) = crate::alone() else { return };
    let options = gpu(Duration::from_secs(21));
    let model = load(&options);
    let mut small = session(&model, 32);
    small.evaluate(&PROMPT).unwrap();
    // A cache of 3.2 GB per layer, of which nothing is touched.
    let mut large = session(&model, 100_000_000);
    let what = said(large.evaluate(&PROMPT));
    assert!(what.starts_with("out of memory: "), "{what}");
    small.evaluate(&[270]).unwrap();
    drop(large);
    session(&model, 32).evaluate(&PROMPT).unwrap();
}
