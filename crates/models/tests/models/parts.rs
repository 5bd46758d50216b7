//! Parts of a model hold what is theirs and nothing else.

use candor_gguf::Gguf;
use candor_models::{Begin, Config, Decoder, End, Error, Part, Pass};
use candor_ops::{KvFormat, Prims, Shapes, Step};
use candor_testing::Tiny;

const LAYERS: usize = 3;

fn file(head: bool) -> Gguf {
    Gguf::from_bytes(Tiny { layers: LAYERS, head, ..Tiny::default() }.bytes().into()).unwrap()
}

/// Every part of a model.
fn parts() -> Vec<Part> {
    let mut parts = Vec::new();
    for begin in [Begin::Tokens, Begin::Stream] {
        for end in [End::Stream, End::Logits] {
            for first in 0..=LAYERS {
                parts.extend((first..=LAYERS).map(|last| Part { begin, layers: first..last, end }));
            }
        }
    }
    parts
}

#[test]
fn bytes_of_parts_are_those_of_the_file() {
    for head in [true, false] {
        let gguf = file(head);
        let all: u64 = gguf.tensors().iter().map(|tensor| tensor.bytes).sum();
        let bytes = |begin, layers, end| Decoder::part_bytes(&gguf, &Part { begin, layers, end }).unwrap();
        assert_eq!(bytes(Begin::Tokens, 0..LAYERS, End::Logits), all);
        let embedding = bytes(Begin::Tokens, 0..0, End::Stream);
        assert_eq!(embedding, gguf.tensor("token_embd.weight").unwrap().bytes);
        let layers: u64 = (0..LAYERS).map(|i| bytes(Begin::Stream, i..i + 1, End::Stream)).sum();
        let ends = bytes(Begin::Stream, 0..0, End::Logits);
        // A tied head takes the embedding with it.
        assert_eq!(embedding + layers + ends, if head { all } else { all + embedding });
        assert_eq!(bytes(Begin::Tokens, 0..0, End::Logits) + layers, all);
    }
}

/// Gemma 3n's embeddings per layer and projections of its streams lie outside the layers; a check runs its first layers alone.
#[test]
fn what_extras_have_outside_of_layers_is_part_of_the_embedding() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../inspect/tests/goldens/architectures/gemma3n/model.gguf");
    let gguf = Gguf::open(path).unwrap();
    let all: u64 = gguf.tensors().iter().map(|tensor| tensor.bytes).sum();
    let count = Config::from_gguf(&gguf).unwrap().layers;
    let bytes = |begin, layers, end| Decoder::part_bytes(&gguf, &Part { begin, layers, end }).unwrap();
    let layers: u64 = (0..count).map(|i| bytes(Begin::Stream, i..i + 1, End::Stream)).sum();
    assert_eq!(bytes(Begin::Tokens, 0..0, End::Logits) + layers, bytes(Begin::Tokens, 0..count, End::Logits));
    let table = gguf.tensor("per_layer_token_embd.weight").unwrap().bytes;
    assert!(bytes(Begin::Tokens, 0..0, End::Stream) > table, "{table} of {all}");
}

#[test]
fn a_part_runs_on_a_cache_of_its_layers_alone() {
    let step = Step { tokens: &[1, 2, 3], positions: &[0, 1, 2], sequences: &[0; 3], outputs: &[2], decoding: 0 };
    for gguf in [file(true), file(false)] {
        for part in parts() {
            let mut ops = Shapes::default();
            let model = Decoder::load_part(&gguf, &mut ops, &part).unwrap();
            let mut scratch = model.scratch(&mut ops, 3, 1);
            let plan = model.config().kv_plan(3, 1, KvFormat::F32, KvFormat::F32);
            let mut kv = ops.kv(&plan.part(part.layers.clone()));
            if part.begin == Begin::Stream {
                ops.upload(&mut scratch.x, &vec![0.0; 3 * model.config().dim], &step);
            }
            model.forward(&mut Pass { ops: &mut ops, s: &mut scratch, kv: &mut kv, step, tap: &mut () });
            let (result, len) = match part.end {
                End::Stream => (&scratch.x, 3 * model.config().dim),
                End::Logits => (&scratch.logits, model.config().vocab),
            };
            let (snapshot, mut values) = (ops.snapshot(result), Vec::new());
            ops.download(&snapshot, &mut values);
            assert_eq!(values.len(), len, "{part:?}");
            ops.finish().unwrap_or_else(|error| panic!("{part:?}: {error}"));
        }
    }
}

#[test]
fn layers_that_are_not_there_are_refused() {
    let gguf = file(true);
    for layers in [0..4, 4..4, std::ops::Range { start: 2, end: 1 }] {
        let part = Part { begin: Begin::Tokens, layers: layers.clone(), end: End::Logits };
        match Decoder::load_part(&gguf, &mut Shapes::default(), &part) {
            Err(error @ Error::NoSuchLayers { .. }) => {
                assert_eq!(error.to_string(), format!("layers {}..{}: the model has 3", layers.start, layers.end));
            }
            _ => panic!("{layers:?} was taken"),
        }
    }
}
