//! Runs of a fixture that the tests share.

use std::path::{Path, PathBuf};

use candor_cpu::{Batching, Cpu, CpuOptions};
use candor_gguf::{Gguf, Writer};
use candor_inspect::{
    Diagnosis, Key, Origin, Trace, diagnose,
    file::TraceWriter,
    import::{ReadOptions, read},
};
use candor_models::{Decoder, Pass, Scratch};
use candor_ops::{KvFormat, Ops, Prims, Recorder, Step, Tap, Tapped};
use candor_testing::{architectures, ids, json};

use crate::exception;

/// A model with what goes into it.
pub struct Case {
    pub name: String,
    pub gguf: Gguf,
    tokens: Vec<u32>,
    text: Vec<u32>,
}

impl Case {
    pub fn open(folder: &Path) -> Case {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let record = json(&folder.join("tokens.json"));
        let text = if record["encoder_tokens"].is_null() { Vec::new() } else { ids(&record["encoder_tokens"]) };
        let gguf = open(&folder.join("model.gguf"), exception(&name).key);
        Case { gguf, tokens: ids(&record["tokens"]), text, name }
    }

    pub fn input(&self) -> Input<'_> {
        Input { text: &self.text, tokens: &self.tokens }
    }
}

/// All fixtures, or those that `CANDOR_ONLY` names.
pub fn chosen() -> impl Iterator<Item = PathBuf> {
    let only = std::env::var("CANDOR_ONLY").ok();
    architectures().into_iter().filter(move |folder| {
        let name = folder.file_name().unwrap().to_str().unwrap();
        only.as_ref().is_none_or(|only| only.split(',').any(|one| one == name))
    })
}

/// What goes into a model: tokens, and the text that they answer where an encoder reads one.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    pub text: &'a [u32],
    pub tokens: &'a [u32],
}

impl<'a> Input<'a> {
    /// The same without the last tokens of both.
    pub fn less(self, count: usize) -> Input<'a> {
        let less = |tokens: &'a [u32]| &tokens[..tokens.len().saturating_sub(count)];
        Input { text: less(self.text), tokens: less(self.tokens) }
    }

    /// The first tokens of both.
    pub fn first(self, count: usize) -> Input<'a> {
        let first = |tokens: &'a [u32]| &tokens[..tokens.len().min(count)];
        Input { text: first(self.text), tokens: first(self.tokens) }
    }

    /// Positions that both fit into.
    pub fn context(self) -> usize {
        self.tokens.len().max(self.text.len())
    }

    /// Reads the text as that of a sequence.
    pub fn read<B: Ops, P: Tap<B>>(
        self,
        model: &Decoder<B>,
        pass: (&mut B, &mut Scratch<B>, &mut B::Kv),
        sequence: u32,
        tap: &mut P,
    ) {
        let (ops, s, kv) = pass;
        let positions: Vec<u32> = (0..self.text.len() as u32).collect();
        let sequences = vec![sequence; self.text.len()];
        let step = Step { tokens: self.text, positions: &positions, sequences: &sequences, outputs: &[], decoding: 0 };
        model.encode(&mut Pass { ops, s, kv, step, tap });
    }
}

/// What `diagnose` says of a run of this engine.
pub fn diagnosed(gguf: &Gguf, input: Input<'_>, batching: Batching) -> Diagnosis {
    diagnose(gguf, &traced(gguf, input, batching)).unwrap()
}

/// A run of this engine, written and read.
pub fn traced(gguf: &Gguf, input: Input<'_>, batching: Batching) -> Trace {
    let tokens = input.tokens;
    let mut ops = Cpu::new(CpuOptions { threads: 1, batching, ..CpuOptions::default() });
    let model = Decoder::load(gguf, &mut ops).unwrap();
    let mut scratch = model.scratch(&mut ops, input.context(), tokens.len());
    let mut kv = ops.kv(&model.config().kv_plan(input.context(), 1, KvFormat::F32, KvFormat::F32));
    let positions: Vec<u32> = (0..tokens.len() as u32).collect();
    let sequences = vec![0; tokens.len()];
    let step = Step { tokens, positions: &positions, sequences: &sequences, outputs: &positions, decoding: 0 };
    let mut tap = Recorder::<Cpu>::default();
    input.read(&model, (&mut ops, &mut scratch, &mut kv), 0, &mut tap);
    let of_text = tap.values.len();
    model.forward(&mut Pass { ops: &mut ops, s: &mut scratch, kv: &mut kv, step, tap: &mut tap });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let mut writer = TraceWriter::create(&path).unwrap();
    for (number, Tapped { name, layer, value }) in tap.values.into_iter().enumerate() {
        let rows = if number < of_text { input.text.len() } else { tokens.len() };
        writer.push(&Key::new(name, layer), value.len() / rows, 0, &value).unwrap();
    }
    let text = (!input.text.is_empty()).then(|| input.text.to_vec());
    let origin = Origin { tokens: Some(tokens.to_vec()), prompt_tokens: Some(tokens.len()), text, ..Origin::default() };
    writer.finish(&origin).unwrap();
    read(&path, &ReadOptions::default()).unwrap()
}

/// The file, with the key that it lacks.
fn open(path: &Path, key: Option<(&str, f32)>) -> Gguf {
    let gguf = Gguf::open(path).unwrap();
    let Some((key, value)) = key else { return gguf };
    let mut writer = Writer::new();
    for (key, value) in gguf.metadata().iter() {
        writer.insert(key, value.clone());
    }
    match key.ends_with("truncate") {
        true => writer.insert(key, value != 0.0),
        false => writer.insert(key, value),
    };
    for tensor in gguf.tensors() {
        writer.tensor(&tensor.name, tensor.format, &tensor.shape, gguf.data(tensor).to_vec()).unwrap();
    }
    Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()
}
