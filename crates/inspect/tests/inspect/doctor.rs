//! `doctor` on files that are broken in known ways, on files that only look so, and on healthy ones.

use std::path::PathBuf;

use candor_gguf::{Format, Gguf, Split, Value, Writer};
use candor_inspect::doctor::{DoctorReport, Severity, doctor, sha256};
use candor_testing::{Random, Tiny};

/// A tiny model with a chat template, its matrices in `format`.
struct Model {
    metadata: Vec<(String, Value)>,
    tensors: Vec<(String, Format, Vec<u64>, Vec<u8>)>,
}

impl Model {
    fn new(format: Format) -> Model {
        let tiny = Tiny { ffn: 64, ..Tiny::default() };
        let mut metadata = tiny.metadata();
        metadata.push(("tokenizer.chat_template".into(), "{{ messages[0].content }}".into()));
        let mut random = Random(5);
        let tensors = tiny.tensors().into_iter().map(|(name, shape)| {
            let (middle, spread, format) = match shape.len() {
                1 => (1.0, 0.2, Format::F32),
                _ => (0.0, (3.0 / shape[0] as f32).sqrt(), format),
            };
            let values: Vec<f32> = (0..shape.iter().product()).map(|_| middle + spread * random.signed()).collect();
            (name, format, shape, encoded(format, &values))
        });
        Model { tensors: tensors.collect(), metadata }
    }

    fn set(mut self, key: &str, value: impl Into<Value>) -> Model {
        self.metadata.retain(|(old, _)| old != key);
        self.metadata.push((key.into(), value.into()));
        self
    }

    fn without(mut self, key: &str) -> Model {
        self.metadata.retain(|(old, _)| old != key);
        self
    }

    /// Changes the bytes of every tensor whose name contains `name`.
    fn bytes(mut self, name: &str, change: impl Fn(&mut Vec<u8>)) -> Model {
        for (_, _, _, bytes) in self.tensors.iter_mut().filter(|(tensor, ..)| tensor.contains(name)) {
            change(bytes);
        }
        self
    }

    /// Changes the values of every tensor whose name contains `name`.
    fn values(mut self, name: &str, change: impl Fn(usize, f32) -> f32) -> Model {
        for (_, format, _, bytes) in self.tensors.iter_mut().filter(|(tensor, ..)| tensor.contains(name)) {
            let mut values = vec![0.0; bytes.len() / format.block_bytes() * format.block_len()];
            format.decode(bytes, &mut values);
            let changed: Vec<f32> = values.iter().enumerate().map(|(i, &x)| change(i, x)).collect();
            *bytes = encoded(*format, &changed);
        }
        self
    }

    fn writer(&self) -> Writer {
        let mut writer = Writer::new();
        self.metadata.iter().for_each(|(key, value)| writer.insert(key, value.clone()));
        for (name, format, shape, bytes) in &self.tensors {
            writer.tensor(name, *format, shape, bytes.clone()).unwrap();
        }
        writer
    }

    fn doctor(&self) -> DoctorReport {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        self.writer().write_file(&path).unwrap();
        doctor(&path).unwrap()
    }
}

fn encoded(format: Format, values: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; format.row_bytes(values.len()).unwrap()];
    format.encode(values, &mut bytes).unwrap();
    bytes
}

/// Whether exactly one finding has this severity and subject, and its message and hint have these words.
#[track_caller]
fn expect(report: &DoctorReport, severity: Severity, subject: &str, message: &str, hint: &str) {
    let found: Vec<_> = report.of(severity).filter(|finding| finding.subject == subject).collect();
    let words =
        |finding: &&&candor_inspect::doctor::Finding| finding.message.contains(message) && finding.hint.contains(hint);
    assert_eq!(
        found.iter().filter(words).count(),
        1,
        "{severity:?} {subject} {message:?} {hint:?}: {:#?}",
        report.findings
    );
    assert_eq!(report.is_healthy(), report.of(Severity::Error).count() == 0);
}

#[test]
fn a_healthy_file_has_no_findings() {
    for format in [Format::F32, Format::F16, Format::Bf16, Format::Q8_0, Format::Q4_0, Format::Q5_1] {
        let report = Model::new(format).doctor();
        assert!(report.findings.is_empty() && report.is_healthy(), "{format}: {:#?}", report.findings);
        assert_eq!(report.tensors.len(), 21);
        let contents = report.contents.unwrap();
        assert_eq!((contents.architecture.as_deref(), contents.tensors), (Some("llama"), 21));
        assert!(contents.formats.iter().any(|(name, _)| name == format.name()));
    }
}

#[test]
fn reports_survive_json() {
    let mut report = Model::new(Format::Q8_0).set("llama.context_length", 0u32).doctor();
    let value = serde_json::to_value(&report).unwrap();
    assert_eq!(value["findings"][0]["severity"], "error");
    let back: DoctorReport = serde_json::from_value(value).unwrap();
    // What the scan keeps of single rows is not part of the report.
    report.tensors.clone_from(&back.tensors);
    assert_eq!(back, report);
}

#[test]
fn hashes_are_of_the_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("abc");
    std::fs::write(&path, "abc").unwrap();
    // FIPS 180-2, appendix B.1.
    assert_eq!(sha256(&path).unwrap(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#[test]
fn files_that_do_not_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let whole = Model::new(Format::Q8_0).writer().to_bytes().unwrap();
    let html: &[u8] = b"<!doctype html><html>";
    for (bytes, message, hint) in [
        (&whole[..whole.len() - 100], "at least 84 bytes are missing", "cut short"),
        (&whole[..2000], "", "cut short or damaged"),
        (&whole[..0], "empty", "SHA-256"),
        (html, "HTML", "SHA-256"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let report = doctor(&path).unwrap();
        expect(&report, Severity::Error, "file", message, hint);
        assert!(report.contents.is_none() && report.files[0].bytes == bytes.len() as u64);
    }
    assert!(doctor(folder.path().join("none.gguf")).is_err());
}

#[test]
fn shards_are_read_together() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> =
        Model::new(Format::F32).writer().write_shards(folder.path().join("m"), Split::Tensors(9)).unwrap();
    let report = doctor(&paths[1]).unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert_eq!(report.files.len(), 3);
    assert!(report.files.iter().all(|file| file.sha256.as_ref().is_some_and(|hash| hash.len() == 64)));
    std::fs::remove_file(&paths[2]).unwrap();
    expect(&doctor(&paths[0]).unwrap(), Severity::Error, "file", "shard 3 of 3: file is missing", "same folder");
}

#[test]
fn bytes_after_the_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let mut bytes = Model::new(Format::F32).writer().to_bytes().unwrap().to_vec();
    bytes.extend([7; 1000]);
    std::fs::write(&path, bytes).unwrap();
    expect(&doctor(&path).unwrap(), Severity::Warning, "file", "1000 bytes lie after the last tensor", "joined");
}

#[test]
fn tails_of_zeros_name_their_cause() {
    // 64 rows: a loader of elements / 2 bytes keeps 47.06 % of Q8_0, 88.89 % of Q4_0.
    for (format, kept, percent) in [(Format::Q8_0, 8.0 / 17.0, "47.06 %"), (Format::Q4_0, 16.0 / 18.0, "88.89 %")] {
        let model = Model::new(format).bytes("blk.1.ffn_up", |bytes| {
            let kept = (bytes.len() as f64 * kept) as usize;
            bytes[kept..].fill(0);
        });
        expect(&model.doctor(), Severity::Error, "blk.1.ffn_up.weight", "rows are 0", percent);
    }
    let cut = Model::new(Format::F32).bytes("blk.0.attn_q", |bytes| {
        let kept = bytes.len() * 3 / 10;
        bytes[kept..].fill(0);
    });
    expect(&cut.doctor(), Severity::Error, "blk.0.attn_q.weight", "the last 22 of 32 rows are 0", "get or convert");
}

#[test]
fn an_unfinished_download_is_named() {
    let report = Model::new(Format::F32).bytes("blk.1.", |bytes| bytes.fill(0)).bytes("output", |bytes| bytes.fill(0));
    let report = report.doctor();
    expect(&report, Severity::Error, "file", "from blk.1.attn_norm.weight on", "did not finish");
    expect(&report, Severity::Error, "output_norm.weight", "every element is 0", "silences");
    expect(&report, Severity::Warning, "blk.1.ffn_up.weight", "every row is 0", "");
}

#[test]
fn damaged_numbers() {
    let nan = |bytes: &mut Vec<u8>| bytes[128 * 3 + 4..128 * 3 + 8].copy_from_slice(&f32::NAN.to_le_bytes());
    let report = Model::new(Format::F32).bytes("blk.0.ffn_gate", nan).doctor();
    expect(&report, Severity::Error, "blk.0.ffn_gate.weight", "1 NaN and 0 infinite elements, the first in row 3", "");
    assert_eq!(report.findings.len(), 1);
    let infinite = |i, x| if i == 33 { f32::INFINITY } else { x };
    let report = Model::new(Format::F32).values("blk.0.ffn_gate", infinite).doctor();
    expect(&report, Severity::Error, "blk.0.ffn_gate.weight", "0 NaN and 1 infinite", "");
    let report = Model::new(Format::F32).values("blk.0.ffn_gate", |_, x| x * 1e6).doctor();
    expect(&report, Severity::Error, "blk.0.ffn_gate.weight", "values up to", "scales of that size");
    let report = Model::new(Format::F32).values("blk.0.ffn_gate", |_, x| x * 1e-10).doctor();
    expect(&report, Severity::Warning, "blk.0.ffn_gate.weight", "values of rms", "does nothing");
}

#[test]
fn reversed_bytes_are_told_from_damage() {
    for format in [Format::F32, Format::Q8_0] {
        let report = Model::new(format).bytes("blk.0.attn_k", |bytes| format.swap_endian(bytes)).doctor();
        expect(&report, Severity::Error, "blk.0.attn_k.weight", "with each number's bytes reversed", "byte order");
    }
}

#[test]
fn special_tokens() {
    const EOS: &str = "tokenizer.ggml.eos_token_id";
    let model = || Model::new(Format::F32);
    expect(&model().without(EOS).doctor(), Severity::Warning, EOS, "is missing", "run on");
    expect(&model().set(EOS, 999u32).doctor(), Severity::Error, EOS, "outside of the vocabulary of 312", "");
    expect(&model().set(EOS, 1u32).doctor(), Severity::Warning, EOS, "the same token, 1", "begins with");
    let without = model().set(EOS, 1u32).set("tokenizer.ggml.add_bos_token", false);
    expect(&without.doctor(), Severity::Fine, EOS, "the same token, 1", "Qwen");
    expect(&model().set(EOS, "two").doctor(), Severity::Error, EOS, "expected u32", "");
}

#[test]
fn templates_and_tokenizers() {
    const TEMPLATE: &str = "tokenizer.chat_template";
    let model = || Model::new(Format::F32);
    expect(&model().without(TEMPLATE).doctor(), Severity::Warning, TEMPLATE, "is missing", "base model");
    expect(&model().set(TEMPLATE, "{% if %}").doctor(), Severity::Error, TEMPLATE, "", "chat is not possible");
    let bpe = model().set("tokenizer.ggml.model", "gpt2");
    expect(&bpe.doctor(), Severity::Warning, "tokenizer.ggml.pre", "is missing", "digits");
    expect(&model().without("tokenizer.ggml.tokens").doctor(), Severity::Error, "tokenizer", "tokens", "");
}

#[test]
fn sizes_that_disagree() {
    let model = || Model::new(Format::F32);
    let mut tokens: Vec<String> = (0..300).map(|id| format!("t{id}")).collect();
    tokens[1] = "<s>".into();
    let few = model().set("tokenizer.ggml.tokens", Value::from(tokens.clone()));
    expect(&few.doctor(), Severity::Fine, "token_embd.weight", "300 tokens, 312 rows", "padded");
    let padded = few.values("token_embd", |i, x| if i >= 32 * 305 { 0.0 } else { x }).doctor();
    expect(&padded, Severity::Fine, "token_embd.weight", "the last 7 of 312 rows are 0", "pad the vocabulary");
    tokens.extend((300..320).map(|id| format!("t{id}")));
    let many = model().set("tokenizer.ggml.tokens", Value::from(tokens));
    expect(&many.doctor(), Severity::Error, "token_embd.weight", "320 tokens, 312 rows", "");
    expect(&model().set("llama.context_length", 0u32).doctor(), Severity::Error, "llama.context_length", "is 0", "");
    let wide = model().set("llama.feed_forward_length", 65u32);
    expect(&wide.doctor(), Severity::Error, "model", "expected [32, 65], got [32, 64]", "different models");
}

/// A file with the numbers of a known model and no weights but a sparse embedding.
fn shaped(numbers: &[(&str, u32)], rows: u64) -> Model {
    let mut model = Model::new(Format::F32);
    for (key, value) in numbers {
        model = model.set(&format!("llama.{key}"), *value);
    }
    model.tensors.retain(|(name, ..)| name != "token_embd.weight");
    model.tensors.push((
        "token_embd.weight".into(),
        Format::F32,
        vec![1, rows],
        1f32.to_le_bytes().repeat(rows as usize),
    ));
    model
}

#[test]
fn shapes_of_known_models_want_their_keys() {
    let llama_3 = || shaped(&[("context_length", 131_072)], 128_256);
    expect(&llama_3().doctor(), Severity::Error, "llama.rope.freq_base", "is 10000", "500000");
    expect(&llama_3().doctor(), Severity::Warning, "rope_freqs.weight", "is missing", "Llama 3.1");
    let right = llama_3().set("llama.rope.freq_base", 500_000f32).set("llama.context_length", 8192u32).doctor();
    assert!(!right.findings.iter().any(|finding| finding.subject.contains("rope")), "{:#?}", right.findings);
    let numbers = [
        ("embedding_length", 4096),
        ("block_count", 32),
        ("attention.head_count_kv", 8),
        ("feed_forward_length", 14_336),
        ("context_length", 32_768),
    ];
    let report = shaped(&numbers, 32_000).doctor();
    expect(&report, Severity::Warning, "llama.attention.sliding_window", "Mistral 7B v0.1", "4096");
    let code = shaped(&[("context_length", 16_384)], 32_016).doctor();
    expect(&code, Severity::Warning, "llama.rope.freq_base", "Code Llama", "1000000");
}

#[test]
fn norms_with_one_added_twice_or_not_at_all() {
    let shifted = |by: f32| Model::new(Format::F32).values("norm", |_, x| x + by).doctor();
    expect(&shifted(1.0), Severity::Warning, "norms", "around 2", "added twice");
    expect(&shifted(-1.0), Severity::Error, "norms", "around 0", "has to add 1");
}

#[test]
fn the_same_bytes_twice() {
    let up = Model::new(Format::F32).tensors.iter().find(|tensor| tensor.0 == "blk.0.ffn_up.weight").unwrap().3.clone();
    let report = Model::new(Format::F32).bytes("blk.1.ffn_gate", |bytes| bytes.clone_from(&up)).doctor();
    let hint = "wrong name";
    expect(&report, Severity::Warning, "blk.1.ffn_gate.weight", "the same bytes as blk.0.ffn_up.weight", hint);
    let embedding = Model::new(Format::F32).tensors[0].3.clone();
    let tied = |bytes: &mut Vec<u8>| {
        if bytes.len() == embedding.len() {
            bytes.clone_from(&embedding)
        }
    };
    let report = Model::new(Format::F32).bytes("output.weight", tied).doctor();
    expect(&report, Severity::Fine, "output.weight", "the same bytes as token_embd.weight", "tied");
}

#[test]
fn what_looks_odd_and_is_right() {
    // TinyLlama's first norm has a root mean square of 0.0464; its unknown token's row 9e-6 beside 0.011.
    let report = Model::new(Format::F32).values("blk.0.attn_norm", |_, x| x * 0.046).doctor();
    expect(&report, Severity::Fine, "blk.0.attn_norm.weight", "weights of rms 0.04", "TinyLlama");
    assert!(report.is_healthy() && report.findings.len() == 1, "{:#?}", report.findings);

    let rows = |i: usize, x: f32| if i < 32 || (32 * 100..32 * 110).contains(&i) { x * 1e-4 } else { x };
    let report = Model::new(Format::Q8_0).values("token_embd", rows).doctor();
    expect(&report, Severity::Fine, "token_embd.weight", "11 rows are nearly 0: <unk>, <0x61>", "hardly occur");
    expect(&report, Severity::Fine, "scales", "11 block scales in 1 tensors are subnormal", "flushes");
    assert!(report.is_healthy(), "{:#?}", report.findings);

    // A middle of 64 of which 48 are used: what takes the outputs has zeros for them.
    let padded = Model::new(Format::F32)
        .values("ffn_gate", |i, x| if i / 32 >= 48 { 0.0 } else { x })
        .values("ffn_up", |i, x| if i / 32 >= 48 { 0.0 } else { x })
        .values("ffn_down", |i, x| if i % 64 >= 48 { 0.0 } else { x })
        .doctor();
    expect(&padded, Severity::Fine, "blk.1.ffn_up.weight", "the last 16 of 64 rows are 0", "padded");
    assert!(padded.is_healthy(), "{:#?}", padded.findings);

    let never = Model::new(Format::F32).values("token_embd", |i, x| if i / 32 == 7 { 0.0 } else { x }).doctor();
    expect(&never, Severity::Fine, "token_embd.weight", "1 of 312 rows are 0", "never occurred");
    // A scale of zero is not subnormal.
    let never = Model::new(Format::Q8_0).values("token_embd", |i, x| if i / 32 == 7 { 0.0 } else { x }).doctor();
    assert_eq!(never.findings.len(), 1, "{:#?}", never.findings);
}

#[test]
fn a_big_endian_file_is_as_healthy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let little = Gguf::from_bytes(Model::new(Format::Q8_0).writer().to_bytes().unwrap()).unwrap();
    let writer = Writer::copy_of(&little).unwrap().byte_order(candor_gguf::ByteOrder::Big);
    writer.write_file(&path).unwrap();
    let report = doctor(&path).unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
}
