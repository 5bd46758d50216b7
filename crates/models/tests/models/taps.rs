//! Every value of a pass is observed under llama.cpp's name, and observing changes nothing.

use candor_gguf::Gguf;
use candor_models::{Decoder, Pass};
use candor_ops::{KvFormat, Prims, Recorder, Reference, Step, Tap};
use candor_testing::Tiny;

/// The logits of a pass over three tokens, all rows.
fn run<P: Tap<Reference>>(tap: &mut P) -> Vec<f32> {
    let gguf = Gguf::from_bytes(Tiny::default().bytes().into()).unwrap();
    let mut ops = Reference;
    let model = Decoder::load(&gguf, &mut ops).unwrap();
    let mut scratch = model.scratch(&mut ops, 3, 3);
    let mut kv = ops.kv(&model.config().kv_plan(3, 1, KvFormat::F32, KvFormat::F32));
    let step =
        Step { tokens: &[1, 270, 280], positions: &[0, 1, 2], sequences: &[0; 3], outputs: &[0, 1, 2], decoding: 0 };
    model.forward(&mut Pass { ops: &mut ops, s: &mut scratch, kv: &mut kv, step, tap });
    let snapshot = ops.snapshot(&scratch.logits);
    let mut logits = Vec::new();
    ops.download(&snapshot, &mut logits);
    logits
}

#[test]
fn names_come_in_the_order_of_computation() {
    let mut recorder = Recorder::<Reference>::default();
    let observed = run(&mut recorder);
    let names: Vec<String> = recorder
        .values
        .iter()
        .map(|tapped| match tapped.layer {
            Some(layer) => format!("{}-{layer}", tapped.name),
            None => tapped.name.into(),
        })
        .collect();
    let layer = [
        "attn_norm",
        "Qcur.mul_mat",
        "Kcur.mul_mat",
        "Qcur",
        "Kcur",
        "Vcur",
        "kqv_out",
        "attn_out",
        "ffn_inp",
        "ffn_norm",
        "ffn_gate",
        "ffn_up",
        "ffn_swiglu",
        "ffn_out",
        "l_out",
    ];
    let mut expected = vec!["inp_embd".to_string()];
    for i in 0..2 {
        expected.extend(layer.iter().map(|name| format!("{name}-{i}")));
    }
    expected.extend(["result_norm".into(), "result_output".into()]);
    assert_eq!(names, expected);

    let unobserved = run(&mut ());
    assert_eq!(observed.len(), 3 * Tiny::VOCAB);
    assert!(observed.iter().zip(&unobserved).all(|(a, b)| a.to_bits() == b.to_bits()));
    let mut last = Vec::new();
    Reference.download(&recorder.values.last().unwrap().value, &mut last);
    assert_eq!(last, observed);
}
