//! What goes wrong is reported, and does not hang or panic.

use candor_gpu::{AdapterChoice, Cooperative, Gpu, GpuOptions, Variant, adapters};
use candor_ops::Prims;
use candor_testing::backend::{read, upload};

use crate::options;

#[test]
fn a_buffer_that_no_device_holds_is_told_at_the_end_of_the_step() {
    let Some(options) = options() else { return };
    let mut gpu = Gpu::new(&options).expect("the adapter opens");
    let mut x = upload(&mut gpu, 4, &[1.0; 8]);
    gpu.finish().expect("nothing is wrong yet");
    let huge = gpu.buffer(1 << 24, 1 << 16);
    let message = gpu.finish().expect_err("4 TB").to_string();
    assert!(message.ends_with(" got 4398046511104"), "{message}");
    assert!(message.contains("out of memory: expected buffers of at most "), "{message}");
    // It stays, and nothing panics any more.
    gpu.add(&mut x, &huge);
    assert_eq!(read(&mut gpu, &x).len(), 8);
    assert_eq!(gpu.finish().expect_err("still").to_string(), message);
    gpu.clone().finish().expect("other sessions go on");
}

#[test]
fn cooperative_matrices_that_are_not_there_are_named() {
    let Some(options) = options() else { return };
    let variant = Variant { cooperative: Some(Cooperative { side: 32, subgroup: 1, memory: 0 }), ..Variant::default() };
    let with = options.variant(variant);
    let message = Gpu::new(&with).expect_err("not there").to_string();
    assert!(message.contains("cooperative matrices of that size"), "{message}");
    let gpu = Gpu::new(&with.cooperative(false)).expect("the adapter opens");
    assert_eq!(gpu.variant(), Variant::default());
}

/// Emulated GPUs are no quicker with them.
#[test]
fn an_emulated_gpu_takes_no_cooperative_matrices_by_itself() {
    let Some(options) = options() else { return };
    if adapters()[0].kind == "software" {
        assert_eq!(Gpu::new(&options).expect("the adapter opens").variant().cooperative, None);
    }
}

#[test]
fn an_adapter_that_is_not_there_is_named() {
    for (choice, wanted) in
        [(AdapterChoice::Name("no such card".into()), "no such card"), (AdapterChoice::Index(99), "99")]
    {
        let options = GpuOptions::default().adapter(choice);
        let message = Gpu::new(&options).expect_err("not there").to_string();
        assert!(message.starts_with(&format!("gpu: expected an adapter {wanted}, found ")), "{message}");
    }
}
