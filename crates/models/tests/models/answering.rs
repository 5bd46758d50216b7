//! Encoders with decoders: what belongs together is taken, what does not is named, and values have names of their own.

use std::collections::HashSet;

use candor_gguf::{Format, Gguf, Value, Writer};
use candor_models::{Begin, Config, Decoder, End, Error, Part, Pass};
use candor_ops::{KvFormat, Prims, Recorder, Reference, Shapes, Step};
use candor_testing::{TinyT5, nmse};

/// A tiny T5 of which tensors are left out, others added and keys changed.
fn changed(without: &str, with: &[(&str, &[u64])], key: Option<(&str, Value)>) -> Gguf {
    let tiny = TinyT5::default();
    let whole = Gguf::from_bytes(tiny.bytes().into()).unwrap();
    let mut writer = Writer::new();
    for (key, value) in whole.metadata().iter() {
        writer.insert(key, value.clone());
    }
    if let Some((key, value)) = key {
        writer.insert(key, value);
    }
    for info in whole.tensors().iter().filter(|info| info.name != without) {
        writer.tensor(&info.name, info.format, &info.shape, whole.data(info).to_vec()).unwrap();
    }
    for (name, shape) in with {
        let bytes = vec![0u8; 4 * shape.iter().product::<u64>() as usize];
        writer.tensor(name, Format::F32, shape, bytes).unwrap();
    }
    Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()
}

fn load(gguf: &Gguf) -> Result<Decoder<Reference>, Error> {
    Decoder::load(gguf, &mut Reference)
}

#[test]
fn what_does_not_belong_is_named() {
    let whole = || changed("", &[], None);
    load(&whole()).unwrap();
    for (gguf, message) in [
        (changed("dec.blk.1.cross_attn_q.weight", &[], None), "tensor dec.blk.1.cross_attn_q.weight is missing"),
        (changed("dec.blk.2.cross_attn_norm.weight", &[], None), "tensor dec.blk.2.cross_attn_norm.weight is missing"),
        (changed("enc.blk.0.attn_rel_b.weight", &[], None), "tensor enc.blk.0.attn_rel_b.weight is missing"),
        (changed("enc.blk.1.ffn_down.weight", &[], None), "tensor enc.blk.1.ffn_down.weight is missing"),
        (changed("enc.output_norm.weight", &[], None), "tensor enc.output_norm.weight is missing"),
        (
            changed("", &[("enc.blk.1.cross_attn_q.weight", &[32, 32])], None),
            "tensor enc.blk.1.cross_attn_q.weight has no place in this architecture (1 such tensors): the result would be \
             wrong",
        ),
        (
            changed("", &[], Some(("t5.decoder_block_count", 4u32.into()))),
            "tensor dec.blk.3.attn_norm.weight is missing",
        ),
        (
            changed("", &[], Some(("t5.attention.relative_buckets_count", 9u32.into()))),
            "tensor enc.blk.0.attn_rel_b.weight: expected [4, 9], got [4, 8]",
        ),
        (
            changed("", &[], Some(("t5.decoder_start_token_id", 312u32.into()))),
            "metadata key t5.decoder_start_token_id: expected less than 312, got 312",
        ),
    ] {
        assert_eq!(load(&gguf).err().expect(message).to_string(), message);
    }
    // The first T5s have a tensor that Transformers ignores by its name.
    let unused = changed("", &[("dec.blk.0.cross_attn_rel_b.weight", &[4, 8])], None);
    assert_eq!(run(&unused, &[260, 2]).0, run(&whole(), &[260, 2]).0);
    // An answer cannot be divided over devices: each layer looks at the text.
    let part = Part { begin: Begin::Stream, layers: 1..3, end: End::Logits };
    let error = Decoder::load_part(&whole(), &mut Shapes::default(), &part).err().expect("a part").to_string();
    assert!(error.contains("cannot be divided over devices"), "{error}");
}

/// Logits of three tokens that answer a text, and what was seen on the way: of the text, and of the tokens.
fn run(gguf: &Gguf, text: &[u32]) -> (Vec<f32>, [Recorder<Reference>; 2]) {
    run_model(&load(gguf).unwrap(), text)
}

fn run_model(model: &Decoder<Reference>, text: &[u32]) -> (Vec<f32>, [Recorder<Reference>; 2]) {
    let mut ops = Reference;
    let mut s = model.scratch(&mut ops, text.len().max(3), 3);
    let mut kv = ops.kv(&model.config().kv_plan(text.len().max(3), 1, KvFormat::F32, KvFormat::F32));
    let mut taps = [Recorder::default(), Recorder::default()];
    let places: Vec<u32> = (0..text.len() as u32).collect();
    let step = Step { tokens: text, positions: &places, sequences: &vec![0; text.len()], outputs: &[], decoding: 0 };
    model.encode(&mut Pass { ops: &mut ops, s: &mut s, kv: &mut kv, step, tap: &mut taps[0] });
    let step =
        Step { tokens: &[0, 270, 280], positions: &[0, 1, 2], sequences: &[0; 3], outputs: &[0, 1, 2], decoding: 0 };
    model.forward(&mut Pass { ops: &mut ops, s: &mut s, kv: &mut kv, step, tap: &mut taps[1] });
    let (snapshot, mut logits) = (ops.snapshot(&s.logits), Vec::new());
    ops.download(&snapshot, &mut logits);
    (logits, taps)
}

/// The quick check of a device runs a model's first layers with its head.
#[test]
fn first_layers_alone_see_the_text() {
    let part = Part { begin: Begin::Tokens, layers: 0..1, end: End::Logits };
    let first = Decoder::load_part(&changed("", &[], None), &mut Reference, &part).unwrap();
    let [one, other] = [&[260, 261, 2], &[262, 263, 2]].map(|text| run_model(&first, text).0);
    assert!(one != other && one.iter().all(|logit| logit.is_finite()));
}

#[test]
fn values_of_both_have_names_of_their_own() {
    let (_, taps) = run(&changed("", &[], None), &[260, 261, 262, 263, 2]);
    let names = |tap: &Recorder<Reference>| -> Vec<String> {
        let name = |(name, layer): (&str, Option<usize>)| layer.map_or(name.into(), |layer| format!("{name}-{layer}"));
        tap.values.iter().map(|tapped| name((tapped.name, tapped.layer))).collect()
    };
    let [text, tokens] = [&taps[0], &taps[1]].map(names);
    let layer = "attn_norm Qcur.mul_mat Kcur.mul_mat Qcur Kcur Vcur kqv_out attn_out ffn_inp ffn_norm ffn_gate ffn_up \
                 ffn_gate_par ffn_out l_out";
    let mut expected = vec!["enc_inp_embd".to_owned()];
    for i in 0..2 {
        expected.extend(layer.split(' ').map(|name| format!("enc_{name}-{i}")));
    }
    expected.push("enc_result_norm".into());
    expected.extend((0..3).flat_map(|i| [format!("Kcur_cross-{i}"), format!("Vcur_cross-{i}")]));
    assert_eq!(text, expected);
    let layer = layer.replace("ffn_inp", "cross_inp attn_norm_cross Qcur_cross kqv_out_cross cross_out ffn_inp");
    let mut expected = vec!["inp_embd".to_owned()];
    for i in 0..3 {
        expected.extend(layer.split(' ').map(|name| format!("{name}-{i}")));
    }
    expected.extend(["result_norm".into(), "result_output".into()]);
    assert_eq!(tokens, expected);
    let all: HashSet<&String> = text.iter().chain(&tokens).collect();
    assert_eq!(all.len(), text.len() + tokens.len());
}

/// A head of its own is not scaled; one that is the embedding is, but in version 1.1, whose feed-forward is gated.
#[test]
fn a_head_that_is_the_embedding_is_scaled() {
    let text = [260, 261, 2];
    let tied = changed("output.weight", &[], None);
    let own = changed("", &[("dec.blk.1.attn_rel_b.weight", &[4, 8])], None);
    let tied_own = {
        let whole = changed("output.weight", &[("dec.blk.1.attn_rel_b.weight", &[4, 8])], None);
        assert!(whole.tensor("output.weight").is_none());
        whole
    };
    let scale = |gguf: &Gguf| {
        let (logits, taps) = run(gguf, &text);
        let table = gguf.tensor("output.weight").or(gguf.tensor("token_embd.weight")).unwrap();
        let row: Vec<f32> = gguf.data(table).as_chunks::<4>().0[..32].iter().map(|&x| f32::from_le_bytes(x)).collect();
        let normed = taps[1].values.iter().find(|tapped| tapped.name == "result_norm").unwrap();
        let product: f32 = normed.value[..32].iter().zip(&row).map(|(a, b)| a * b).sum();
        logits[0] / product
    };
    let root = 1.0 / 32f32.sqrt();
    for (gguf, expected) in [(&tied, 1.0), (&own, 1.0), (&tied_own, root)] {
        assert!((scale(gguf) / expected - 1.0).abs() < 1e-4, "{} against {expected}", scale(gguf));
    }
    for said in [0.25, 1.0f32] {
        let own = [("dec.blk.1.attn_rel_b.weight", &[4, 8][..])];
        let gguf = changed("output.weight", &own, Some(("t5.logit_scale", said.into())));
        assert!((scale(&gguf) / said - 1.0).abs() < 1e-4, "{said}");
    }
    assert!(nmse(&run(&tied, &text).0, &run(&tied_own, &text).0) > 1e-3);
}

#[test]
fn a_cache_has_room_for_the_text_and_for_one_layer_of_the_encoder() {
    let config = Config::from_gguf(&changed("", &[], None)).unwrap();
    let plan = config.kv_plan(10, 2, KvFormat::F32, KvFormat::F32);
    assert_eq!(plan.layers.len(), 3 + 3 + 1);
    assert_eq!(plan.checked_bytes(), Some(7 * 2 * 10 * 2 * 32 * 4));
    assert_eq!((config.start, config.encoder_layers()), (Some(TinyT5::START), Some(2)));
}
