//! A file that is not exactly a supported model is refused by name, never run wrongly.

use candor_gguf::{Format, Gguf, Value, Writer};
use candor_models::{Decoder, Error};
use candor_ops::Reference;
use candor_testing::Tiny;

fn load(writer: Writer) -> Result<(), Error> {
    let gguf = Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap();
    Decoder::load(&gguf, &mut Reference).map(|_| ())
}

/// A tiny model with some tensors replaced (by another shape) or left out.
fn with_tensors(change: impl Fn(&str, Vec<u64>) -> Option<Vec<u64>>) -> Writer {
    let tiny = Tiny::default();
    let mut writer = Writer::new();
    for (key, value) in tiny.metadata() {
        writer.insert(key, value);
    }
    for (name, shape) in tiny.tensors() {
        if let Some(shape) = change(&name, shape) {
            let bytes = vec![0u8; 4 * shape.iter().product::<u64>() as usize];
            writer.tensor(&name, Format::F32, &shape, bytes).unwrap();
        }
    }
    writer
}

fn with_metadata(key: &str, value: impl Into<Value>) -> Writer {
    let mut writer = Tiny::default().writer();
    writer.insert(key, value);
    writer
}

#[test]
fn the_tiny_model_itself_loads() {
    load(Tiny::default().writer()).unwrap();
    load(Tiny { head: false, arch: "qwen2", ..Tiny::default() }.writer()).unwrap();
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    struct Case {
        writer: Writer,
        message: &'static str,
    }
    let mut extra = Tiny::default().writer();
    extra.tensor("blk.0.attn_mystery.weight", Format::F32, &[4], vec![0u8; 16]).unwrap();
    let cases = [
        Case {
            writer: with_tensors(|name, shape| (name != "blk.1.ffn_up.weight").then_some(shape)),
            message: "tensor blk.1.ffn_up.weight is missing",
        },
        Case {
            writer: with_tensors(|name, shape| Some(if name.contains("1.ffn_up") { vec![32, 49] } else { shape })),
            message: "tensor blk.1.ffn_up.weight: expected [32, 48], got [32, 49]",
        },
        Case {
            writer: with_tensors(|name, shape| Some(if name.contains("attn_q") { vec![16, 64] } else { shape })),
            message: "tensor blk.0.attn_q.weight: expected [32, 32], got [16, 64]",
        },
        Case {
            writer: extra,
            message: "tensor blk.0.attn_mystery.weight has no place in this architecture (1 such tensors): \
                      the result would be wrong",
        },
    ];
    for case in cases {
        assert_eq!(load(case.writer).unwrap_err().to_string(), case.message);
    }
}

#[test]
fn metadata_that_cannot_be_followed_is_named() {
    let cases = [
        (
            with_metadata("general.architecture", "mamba9000"),
            "architecture mamba9000 is not supported: it needs a row, and perhaps a wiring, of its own (86 others have them)",
        ),
        (
            with_metadata("llama.rope.scaling.type", "longrope"),
            "llama.rope.scaling.type: rope scaling longrope is not supported",
        ),
        (
            with_metadata("llama.block_count", 1u32),
            "tensor blk.1.attn_norm.weight has no place in this architecture (9 such tensors): the result would be wrong",
        ),
        (with_metadata("llama.expert_count", 8u32), "tensor blk.0.ffn_gate_inp.weight is missing"),
        (
            with_metadata("llama.attention.head_count_kv", 3u32),
            "metadata key llama.attention.head_count_kv: expected a divisor of 4, got 3",
        ),
        (
            with_metadata("llama.embedding_length", 0u32),
            "metadata key llama.embedding_length: expected a positive number, got 0",
        ),
        (
            with_metadata("llama.rope.dimension_count", 7u32),
            "metadata key llama.rope.dimension_count: expected even, at most 8, got 7",
        ),
        (
            with_metadata("llama.rope.freq_base", -1f32),
            "metadata key llama.rope.freq_base: expected a number above 1, got -1",
        ),
    ];
    for (writer, message) in cases {
        assert_eq!(load(writer).unwrap_err().to_string(), message);
    }
    let wrong_type = load(with_metadata("llama.block_count", "two")).unwrap_err().to_string();
    assert!(wrong_type.contains("llama.block_count"), "{wrong_type}");
    let huge = load(with_metadata("llama.block_count", u32::MAX)).unwrap_err().to_string();
    assert_eq!(huge, "tensor blk.2.attn_norm.weight is missing");
}

/// What llama.cpp has as constants is not guessed.
#[test]
fn a_gemma_3n_says_which_layers_share_and_which_are_sparse() {
    let tiny = || {
        let mut writer = Tiny { arch: "gemma3n", ..Tiny::default() }.writer();
        writer.insert("gemma3n.attention.sliding_window", 8u32);
        writer
    };
    let message = |writer: Writer| load(writer).expect_err("something is missing").to_string();
    let mut writer = tiny();
    writer.insert("gemma3n.altup.num_inputs", 4u32);
    assert_eq!(message(writer), "metadata key gemma3n.attention.shared_kv_layers is missing");
    let mut writer = tiny();
    writer.insert("gemma3n.altup.num_inputs", 4u32);
    writer.insert("gemma3n.attention.shared_kv_layers", 0u32);
    assert_eq!(message(writer), "metadata key gemma3n.activation_sparsity_scale is missing");
    let mut writer = tiny();
    writer.insert("gemma3n.attention.shared_kv_layers", 0u32);
    writer.insert("gemma3n.activation_sparsity_scale", Value::Array(candor_gguf::Array::F32(vec![1.6, f32::NAN])));
    assert_eq!(
        message(writer),
        "metadata key gemma3n.activation_sparsity_scale: expected numbers of deviations, got NaN"
    );
}
