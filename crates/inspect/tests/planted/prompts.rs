//! This engine's own runs of prompts, long enough for kernels that add up superblocks where the processor has such.

use candor::{Device, LoadOptions, Model, SessionOptions};
use candor_cpu::{Cpu, CpuOptions};
use candor_gguf::{Format, Gguf, Writer};
use candor_inspect::{
    Diagnosis, Key, Known, Origin, Outcome, Status, Trace, diagnose,
    file::TraceWriter,
    import::{ReadOptions, read},
    record::{Selection, record},
    replay::Rounding,
};
use candor_testing::{Random, Tiny};

use crate::model::{self, Shape};

/// A run of a prompt, and of four tokens behind it one by one.
pub fn run(gguf: &Gguf, prompt: usize, ubatch: usize) -> Trace {
    let load = LoadOptions::default().device(Device::Cpu).threads(2);
    let model = Model::from_gguf(gguf.clone(), &load).unwrap();
    let mut session = model.session(&SessionOptions::default().context(256).ubatch(ubatch)).unwrap();
    let mut random = Random(7);
    let prompt: Vec<u32> = (0..prompt).map(|_| 259 + random.below(50) as u32).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let mut writer = TraceWriter::create(&path).unwrap();
    record(&mut session, &prompt, 4, &Selection::default(), &mut [&mut writer]).unwrap();
    let tokens = Some(session.tokens().to_vec());
    writer.finish(&Origin { tokens, prompt_tokens: Some(prompt.len()), ..Origin::default() }).unwrap();
    read(&path, &ReadOptions::default()).unwrap()
}

/// How this processor's kernels round prompts.
fn expected(format: Format) -> Rounding {
    let kernels = Cpu::new(CpuOptions { threads: 1, ..CpuOptions::default() }).kernels();
    match (kernels.batch)(format).map(|batch| format!("{:?}", batch.packing.form)).as_deref() {
        None => Rounding::Searched,
        Some("Int8") => Rounding::Superblocks,
        Some("Bf16") => Rounding::Tiles,
        Some(other) => panic!("{format} is multiplied as {other}"),
    }
}

/// The first file with the second's feed-forwards.
fn mixed(one: &Gguf, other: &Gguf) -> Gguf {
    let mut writer = Writer::new();
    for (key, value) in one.metadata().iter() {
        writer.insert(key, value.clone());
    }
    for tensor in one.tensors() {
        let file = if tensor.name.contains("ffn_") { other } else { one };
        let tensor = file.tensor(&tensor.name).unwrap();
        writer.tensor(&tensor.name, tensor.format, &tensor.shape, file.data(tensor).to_vec()).unwrap();
    }
    Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()
}

fn healthy(name: &str, said: &Diagnosis) {
    let worst = said.checks.iter().max_by(|a, b| a.residual.relative.total_cmp(&b.residual.relative)).unwrap();
    println!("{name}: {:?}, worst {} {:.1e}", said.rounding, worst.key, worst.residual.relative);
    assert_eq!(said.outcome, Outcome::Healthy, "{name}: {:?} {:?}", said.first_wrong, said.findings);
    let doubted: Vec<_> = said.checks.iter().filter(|check| check.status != Status::Right).collect();
    assert!(doubted.is_empty(), "{name}: {doubted:?}");
}

/// Files of K-quants, some of their matrices in another format, and a mixture of experts of which few see 20 tokens.
fn files() -> Vec<(&'static str, Format, Gguf)> {
    let experts = |seed| {
        let tiny = Tiny { layers: 2, dim: 256, heads: 8, head_dim: 32, ffn: 256, seed, ..model::llama().tiny };
        Shape { tiny, matrices: Format::Q4K, ..model::experts() }.gguf()
    };
    let plain = |format| model::proportioned(format).gguf();
    vec![
        ("Q4_K", Format::Q4K, plain(Format::Q4K)),
        ("Q5_K", Format::Q5K, plain(Format::Q5K)),
        ("Q6_K", Format::Q6K, plain(Format::Q6K)),
        ("Q8_0 with Q6_K", Format::Q6K, mixed(&plain(Format::Q8_0), &plain(Format::Q6K))),
        ("mixture", Format::Q4K, experts(5)),
    ]
}

#[test]
fn how_prompts_are_rounded_is_known() {
    for (name, format, gguf) in files() {
        for prompt in [12, 24, 60] {
            let said = diagnose(&gguf, &run(&gguf, prompt, 512)).unwrap();
            healthy(&format!("{name}, {prompt} tokens"), &said);
            assert_eq!(said.rounding, expected(format), "{name}, {prompt} tokens");
        }
    }
}

#[test]
fn an_error_above_rounding_is_seen_in_long_prompts() {
    for (name, _, gguf) in files() {
        let mut trace = run(&gguf, 24, 512);
        let key = Key::new("ffn_up", Some(1));
        let key = if trace.values.contains_key(&key) { key } else { Key::new("Vcur", Some(1)) };
        let Known::All(values) = &mut trace.values.get_mut(&key).unwrap().known else { panic!("complete") };
        let mut random = Random(3);
        values.iter_mut().for_each(|x| *x *= 1.0 + 0.02 * random.signed());
        let said = diagnose(&gguf, &trace).unwrap();
        let check = said.checks.iter().find(|check| check.key == key).unwrap();
        // It would pass where the rule is not known.
        assert!(check.residual.relative < 1.5e-2, "{name}: {:.1e}", check.residual.relative);
        assert!(check.gate.pass < 2.1e-3, "{name}: {:?}", check.gate);
        assert_eq!((check.status, said.first_wrong), (Status::Wrong, Some(key)), "{name}");
    }
}
