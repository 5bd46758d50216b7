//! Models of which some layers are read for each step: the bits of one that stays, within a limit of memory.

use std::{
    collections::HashMap,
    fs, io,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use candor::{
    Adapter, Device, EmbedOptions, Error, Gguf, LoadOptions, Model, Placement, Pooling, Session, SessionOptions, Source,
};
use candor_testing::{Lora, Tiny, fixtures};

const PROMPT: [u32; 7] = [1, 2, 3, 4, 5, 6, 7];
/// Tokens that are decoded after it.
const DECODED: [u32; 3] = [8, 9, 10];

/// Bytes that note what is read, and what is said to be read soon.
#[derive(Default)]
struct Noted {
    bytes: Bytes,
    reads: Mutex<HashMap<u64, usize>>,
    expected: Mutex<Vec<(u64, u64)>>,
}

impl Source for Noted {
    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        *self.reads.lock().unwrap().entry(offset).or_default() += 1;
        into.copy_from_slice(&self.bytes[offset as usize..][..into.len()]);
        Ok(())
    }

    fn expect(&self, offset: u64, bytes: u64) {
        self.expected.lock().unwrap().push((offset, bytes));
    }

    fn poll_expected(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

fn session_options() -> SessionOptions {
    SessionOptions::default().context(32).batch(1).ubatch(1)
}

fn options() -> LoadOptions {
    LoadOptions::default().device(Device::Cpu).threads(1).session(session_options())
}

/// Options of the least memory that will do; `None` where the model cannot be divided.
fn least(gguf: &Gguf, options: LoadOptions) -> Option<LoadOptions> {
    match Model::from_gguf(gguf.clone(), &options.clone().memory(1)).map(drop) {
        Err(Error::Limit { divides: false, .. }) => None,
        Err(Error::Limit { needed, .. }) => Some(options.memory(needed)),
        other => panic!("expected a limit that is too low, got {other:?}"),
    }
}

fn session(model: &Model) -> Session {
    model.session(&session_options()).unwrap()
}

/// Logits after the prompt and after each token that follows, or the vector of an encoder.
fn numbers(model: &Model) -> Vec<f32> {
    if model.continues_text().is_err() {
        let mut embedder = model.embedder(&EmbedOptions::default().pooling(Pooling::Mean)).unwrap();
        return embedder.embed(&[PROMPT.to_vec()], |_| {}).unwrap().concat();
    }
    let mut session = session(model);
    session.evaluate(&PROMPT).unwrap();
    let mut logits = session.logits().to_vec();
    for token in DECODED {
        session.decode(token).unwrap();
        logits.extend_from_slice(session.logits());
    }
    logits
}

#[test]
fn every_architecture_that_can_be_divided() {
    let Some(fixtures) = fixtures() else { return };
    let mut folders: Vec<_> = fs::read_dir(fixtures.join("arch")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let mut done = 0;
    for path in folders.iter().map(|folder| folder.join("model.gguf")).filter(|path| path.is_file()) {
        let noted = Arc::new(Noted { bytes: fs::read(&path).unwrap().into(), ..Noted::default() });
        let gguf = Gguf::from_source(noted.clone()).unwrap();
        let Ok(whole) = Model::from_gguf(gguf.clone(), &options()) else { continue };
        let Some(limited) = least(&gguf, options()) else { continue };
        let model = Model::from_gguf(gguf.clone(), &limited).unwrap();
        let Some(reason) = model.placement() else {
            println!("{}: whole", path.display());
            continue;
        };
        assert!(reason.starts_with("0 of ") && reason.contains("are read for each step"), "{reason}");
        assert!(numbers(&model) == numbers(&whole), "{}", path.display());
        done += 1;
    }
    assert!(done > 60, "{done} architectures");
}

/// A model of four layers, as large as its weights are to its caches.
fn tiny() -> (Arc<Noted>, Gguf) {
    let tiny = Tiny { layers: 4, dim: 64, ffn: 256, ..Tiny::default() };
    let noted = Arc::new(Noted { bytes: tiny.bytes().into(), ..Noted::default() });
    let gguf = Gguf::from_source(noted.clone()).unwrap();
    (noted, gguf)
}

#[test]
fn layers_that_fit_are_read_once_and_others_for_each_step() {
    let (noted, gguf) = tiny();
    let limited = least(&gguf, options()).unwrap();
    let layer: u64 = gguf.tensors().iter().filter(|t| t.name.starts_with("blk.0.")).map(|t| t.bytes).sum();
    // One more layer stays, and its cache was counted already.
    let more = limited.memory.unwrap() + layer;
    for (memory, kept) in [(limited.memory.unwrap(), 0), (more, 1), (more - 1, 0)] {
        let model = Model::from_gguf(gguf.clone(), &limited.clone().memory(memory)).unwrap();
        let reason = model.placement().unwrap();
        assert!(reason.starts_with(&format!("{kept} of 4 layers stay in ")), "{reason}");
        noted.reads.lock().unwrap().clear();
        noted.expected.lock().unwrap().clear();
        numbers(&model);
        let steps = PROMPT.len() + DECODED.len();
        for layer in 0..4 {
            let tensor = gguf.tensor(&format!("blk.{layer}.ffn_up.weight")).unwrap();
            let reads = noted.reads.lock().unwrap().get(&tensor.offset()).copied().unwrap_or(0);
            assert_eq!(reads, if layer < kept { 0 } else { steps }, "layer {layer}, {kept} stay");
        }
        // A layer at once, in the order of the layers, for each step.
        let ranges = |layer| {
            let tensors = gguf.tensors().iter().filter(|tensor| tensor.name.starts_with(&format!("blk.{layer}.")));
            let (start, end) = tensors.fold((u64::MAX, 0), |(start, end), tensor| {
                (start.min(tensor.offset()), end.max(tensor.offset() + tensor.bytes))
            });
            (start, end - start)
        };
        let each: Vec<_> = (kept..4).map(ranges).collect();
        assert_eq!(*noted.expected.lock().unwrap(), each.repeat(steps));
    }
}

#[test]
fn a_limit_that_all_of_it_keeps_changes_nothing() {
    let (_, gguf) = tiny();
    let model = Model::from_gguf(gguf, &options().memory(1 << 30)).unwrap();
    assert_eq!(model.placement(), None);
}

#[test]
fn parts_have_no_limit() {
    let (_, gguf) = tiny();
    let parts = Placement::Parts(vec![(Device::Cpu, 0..4)]);
    let loaded = Model::from_gguf(gguf, &options().placement(parts).memory(1 << 30));
    assert!(matches!(loaded, Err(Error::LimitedParts)));
}

#[test]
fn adapters_and_saved_sessions() {
    let (_, gguf) = tiny();
    let file = Lora { rank: 4, alpha: 8.0, seed: 11 }.gguf(&gguf, |name| name.starts_with("blk."));
    let adapters = vec![Adapter::from_gguf("one", file).unwrap().scaled(0.5)];
    let options = options().adapters(adapters);
    let whole = Model::from_gguf(gguf.clone(), &options).unwrap();
    let model = Model::from_gguf(gguf.clone(), &least(&gguf, options).unwrap()).unwrap();
    assert!(numbers(&model) == numbers(&whole));
    let scaled = |model: &Model| {
        let mut session = session(model);
        session.scale_adapters(&[-1.0]).unwrap();
        session.evaluate(&PROMPT).unwrap();
        session.logits().to_vec()
    };
    assert!(scaled(&model) == scaled(&whole) && scaled(&whole) != numbers(&whole)[..Tiny::VOCAB]);

    let mut file = Vec::new();
    let mut first = session(&model);
    first.evaluate(&PROMPT).unwrap();
    first.save(&mut file).unwrap();
    let mut second = session(&whole);
    second.load(&file).unwrap();
    for session in [&mut first, &mut second] {
        session.decode(DECODED[0]).unwrap();
    }
    assert!(first.logits() == second.logits());
}
