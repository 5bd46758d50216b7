//! A model over several backends by ranges of layers: on one kind of backend the same bits as undivided.

use std::ops::Range;

use candor::{
    Device, Error, GenerateOptions, Gguf, KvFormat, LoadOptions, Logits, Model, Observed, Observer, Placement, Role,
    Sampling, SessionOptions,
};
use candor_testing::{Tiny, fixtures, nmse};

const LAYERS: usize = 4;
const TOKENS: [u32; 9] = [1, 270, 280, 290, 300, 261, 262, 263, 264];

/// Every layout of a model over up to three parts, the empty ones included.
fn layouts(devices: [Device; 3]) -> Vec<Vec<(Device, Range<usize>)>> {
    let [a, b, c] = devices;
    let mut all = Vec::new();
    for first in 0..=LAYERS {
        all.push(vec![(a, 0..first), (b, first..LAYERS)]);
        for second in first..=LAYERS {
            all.push(vec![(a, 0..first), (b, first..second), (c, second..LAYERS)]);
        }
    }
    all
}

fn load(tiny: &Tiny, placement: Placement) -> Result<Model, Error> {
    let gguf = Gguf::from_bytes(tiny.bytes().into()).unwrap();
    Model::from_gguf(gguf, &LoadOptions::default().threads(2).placement(placement))
}

/// A model with a head of its own, and one whose embedding is its head.
fn models() -> [Tiny; 2] {
    [true, false].map(|head| Tiny { layers: LAYERS, head, ..Tiny::default() })
}

fn options() -> SessionOptions {
    SessionOptions::default().context(24).batch(4).values(KvFormat::F32)
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Logits after a prompt in several steps, after more tokens, and after others in the place of some of them.
fn session(model: &Model) -> Vec<f32> {
    let mut session = model.session(&options()).unwrap();
    let mut all = Vec::new();
    session.evaluate(&TOKENS).unwrap();
    all.extend_from_slice(session.logits());
    session.evaluate(&[299]).unwrap();
    all.extend_from_slice(session.logits());
    session.truncate(5);
    session.evaluate(&[266, 267]).unwrap();
    all.extend_from_slice(session.logits());
    session.evaluate_each(&[268, 269, 271], |_, logits| all.extend_from_slice(logits)).unwrap();
    all
}

/// Logits of sequences that go on together.
fn sequences(model: &Model) -> Vec<f32> {
    let mut sequences = model.sequences(2, &options()).unwrap();
    sequences.evaluate(0, &TOKENS[..6]).unwrap();
    sequences.evaluate(1, &TOKENS[..2]).unwrap();
    let mut all = Vec::new();
    for tokens in [[280, 281], [282, 283]] {
        sequences.advance(&tokens).unwrap();
        all.extend_from_slice(sequences.logits());
    }
    all
}

/// Everything that is observed.
#[derive(Default, PartialEq)]
struct Seen(Vec<(String, usize, Vec<u32>)>);

impl Observer for Seen {
    fn wants(&mut self, _: &str, _: Option<usize>) -> bool {
        true
    }

    fn value(&mut self, value: &Observed<'_>) {
        self.0.push((format!("{} {:?}", value.name, value.layer), value.rows, bits(value.values)));
    }
}

fn observed(model: &Model) -> Seen {
    let mut seen = Seen::default();
    let mut session = model.session(&options()).unwrap();
    session.observe(&TOKENS, Role::Prefill, Logits::Last, &mut seen).unwrap();
    session.observe(&[299], Role::Decode, Logits::All, &mut seen).unwrap();
    seen
}

fn greedy(model: &Model) -> Vec<u32> {
    let sampling = Sampling::default().temperature(0.0);
    let options = GenerateOptions::default().sampling(sampling).max_tokens(12).ignore_eos(true);
    let mut session = model.session(&Default::default()).unwrap();
    session.generate(&TOKENS, options).unwrap().filter_map(|piece| piece.unwrap().token).collect()
}

#[test]
fn parts_on_one_kind_of_backend_give_the_same_bits() {
    for tiny in models() {
        for device in [Device::Cpu, Device::Reference] {
            let whole = load(&tiny, Placement::Parts(vec![(device, 0..LAYERS)])).unwrap();
            let (alone, together, seen) = (bits(&session(&whole)), bits(&sequences(&whole)), observed(&whole));
            let tokens = greedy(&whole);
            assert!(alone.iter().any(|&logit| logit != alone[0]) && seen.0.len() > 13 * LAYERS);
            for parts in layouts([device; 3]) {
                let case = format!("{parts:?}, head of its own: {}", tiny.head);
                let divided = load(&tiny, Placement::Parts(parts)).unwrap();
                assert!(bits(&session(&divided)) == alone, "{case}: session");
                assert!(bits(&sequences(&divided)) == together, "{case}: sequences");
                assert!(observed(&divided) == seen, "{case}: observed values");
                assert_eq!(greedy(&divided), tokens, "{case}: greedy");
            }
        }
    }
}

#[test]
fn parts_on_different_backends_agree() {
    for tiny in models() {
        let whole = load(&tiny, Placement::Planned).unwrap();
        let (alone, together) = (session(&whole), sequences(&whole));
        let names = |seen: Seen| seen.0.into_iter().map(|(name, rows, _)| (name, rows)).collect::<Vec<_>>();
        let (seen, tokens) = (names(observed(&whole)), greedy(&whole));
        for devices in
            [[Device::Reference, Device::Cpu, Device::Reference], [Device::Cpu, Device::Reference, Device::Cpu]]
        {
            for parts in layouts(devices) {
                let case = format!("{parts:?}, head of its own: {}", tiny.head);
                let divided = load(&tiny, Placement::Parts(parts)).unwrap();
                for (what, got, expected) in
                    [("session", session(&divided), &alone), ("sequences", sequences(&divided), &together)]
                {
                    let error = nmse(&got, expected);
                    assert!(error < 1e-10, "{case}: {what}: {error}");
                }
                assert_eq!(names(observed(&divided)), seen, "{case}");
                assert_eq!(greedy(&divided), tokens, "{case}");
            }
        }
    }
}

#[test]
fn a_quantized_file_divided_anywhere_gives_the_same_bits() {
    let Some(fixtures) = fixtures() else { return };
    let path = fixtures.join("models/stories260K-wide256-Q4_K_M.gguf");
    let open = |placement| Model::open(&path, &LoadOptions::default().threads(2).placement(placement)).unwrap();
    let whole = open(Placement::Planned);
    let layers = whole.config().layers;
    let run = |model: &Model| {
        let mut session = model.session(&SessionOptions::default().context(64)).unwrap();
        session.evaluate(&[1, 70, 80, 90, 100]).unwrap();
        session.evaluate(&[33]).unwrap();
        bits(session.logits())
    };
    let expected = run(&whole);
    for at in 0..=layers {
        let divided = open(Placement::Parts(vec![(Device::Cpu, 0..at), (Device::Cpu, at..layers)]));
        assert!(run(&divided) == expected, "divided at {at}");
    }
}

#[test]
fn what_is_no_placement_is_refused() {
    let tiny = Tiny { layers: LAYERS, ..Tiny::default() };
    let cuts: [&[[usize; 2]]; 7] =
        [&[], &[[0, 3]], &[[0, 5]], &[[1, 4]], &[[0, 2], [3, 4]], &[[0, 2], [1, 4]], &[[0, 2], [2, 1], [1, 4]]];
    let on_cpu = |cuts: &[[usize; 2]]| cuts.iter().map(|&[start, end]| (Device::Cpu, start..end)).collect();
    let mut placements: Vec<Placement> = cuts.map(|cuts| Placement::Parts(on_cpu(cuts))).into();
    placements.push(Placement::Parts(vec![(Device::Auto, 0..LAYERS)]));
    for placement in placements {
        let Err(error) = load(&tiny, placement.clone()) else { panic!("{placement:?} was taken") };
        let expected = "parts: expected devices with layers that follow each other from 0 to 4";
        assert_eq!(error.to_string(), expected, "{placement:?}");
    }
}

#[test]
fn the_label_names_each_backend_once() {
    let tiny = Tiny { layers: LAYERS, ..Tiny::default() };
    let parts = vec![(Device::Reference, 0..1), (Device::Cpu, 1..3), (Device::Reference, 3..4)];
    let label = load(&tiny, Placement::Parts(parts)).unwrap().device_label().to_owned();
    assert!(label.starts_with("reference; cpu, ") && label.ends_with(" 2 threads"), "{label}");
    assert_eq!(load(&tiny, Placement::Planned).unwrap().placement(), None);
}
