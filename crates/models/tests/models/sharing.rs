//! Layers that read the keys and values of another layer keep none, and stay with it.

use candor_gguf::{Gguf, Value};
use candor_models::{Begin, Config, Decoder, End, Error, Part};
use candor_ops::{KvFormat, Shapes};
use candor_testing::Tiny;

const LAYERS: usize = 4;
const SHARED: &str = "llama.attention.shared_kv_layers";

fn file(keys: &[(&str, Value)]) -> Gguf {
    let mut writer = Tiny { layers: LAYERS, ..Tiny::default() }.writer();
    for (key, value) in keys {
        writer.insert(*key, value.clone());
    }
    Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()
}

fn refused(keys: &[(&str, Value)]) -> String {
    Config::from_gguf(&file(keys)).expect_err("it makes no sense").to_string()
}

#[test]
fn a_layer_without_keys_of_its_own_takes_no_memory() {
    let bytes = |shared: u32| {
        let config = Config::from_gguf(&file(&[(SHARED, Value::from(shared))])).unwrap();
        config.kv_plan(64, 2, KvFormat::F16, KvFormat::F16).checked_bytes().unwrap()
    };
    assert_eq!(bytes(0), 4 * 2 * 2 * 64 * 2 * 8 * 2);
    assert_eq!(bytes(3), bytes(0) / 4);
}

/// Matrices that would make keys and values may be there all the same, and count for nothing.
#[test]
fn what_is_not_read_is_not_loaded() {
    let bytes = |shared: u32| {
        let gguf = file(&[(SHARED, Value::from(shared))]);
        Decoder::load(&gguf, &mut Shapes::default()).unwrap().weight_bytes()
    };
    assert_eq!(bytes(0) - bytes(2), 2 * 2 * (2 * 8) * 32 * 4);
}

#[test]
fn a_layer_is_not_parted_from_the_one_it_reads() {
    let gguf = file(&[(SHARED, Value::from(1u32))]);
    for (begin, layers) in [(Begin::Stream, 2..LAYERS), (Begin::Stream, 0..LAYERS), (Begin::Tokens, 3..LAYERS)] {
        let part = Part { begin, layers, end: End::Logits };
        let result = Decoder::load_part(&gguf, &mut Shapes::default(), &part);
        assert!(matches!(result, Err(Error::Undivided)), "{part:?}");
    }
    let first = Part { begin: Begin::Tokens, layers: 0..LAYERS, end: End::Stream };
    Decoder::load_part(&gguf, &mut Shapes::default(), &first).unwrap();
}

#[test]
fn layers_that_cannot_share_are_named() {
    assert_eq!(
        refused(&[(SHARED, Value::from(4u32))]),
        "metadata key llama.attention.shared_kv_layers: expected a layer of each kind before them, got 4"
    );
    let window = |limited: &[bool]| {
        let pattern = Value::Array(candor_gguf::Array::Bool(limited.to_vec()));
        refused(&[
            (SHARED, Value::from(1u32)),
            ("llama.attention.sliding_window", Value::from(8u32)),
            ("llama.attention.sliding_window_pattern", pattern),
        ])
    };
    assert!(window(&[true, true, true, false]).contains("a layer of each kind before them"));
    let heads = Value::Array(candor_gguf::Array::U32(vec![2, 2, 2, 4]));
    assert_eq!(
        refused(&[(SHARED, Value::from(1u32)), ("llama.attention.head_count_kv", heads)]),
        "llama.attention.shared_kv_layers: layer 3 cannot read the keys and values of layer 2, which have other dimensions"
    );
}
