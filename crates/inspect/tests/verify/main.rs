//! `verify` on tiny models: right backends pass, and one whose single operation is wrong fails at exactly that.

mod broken;
mod vocabulary;

use candor::{Activations, Device, KvFormat, LoadOptions};
use candor_cpu::{Cpu, CpuOptions};
use candor_gguf::{Format, Gguf, Value, Writer};
use candor_inspect::{
    Evidence, Key, Known, Origin, Trace,
    verify::{
        Depth, Operations, Outcome, Plan, Prompt, Verdict, VerifyError, VerifyOptions, VerifyReport, answered,
        operations, processor, verify, verify_opened,
    },
};
use candor_kernels::{F32Kernels, Kernels};
use candor_ops::Reference;
use candor_testing::Tiny;

use broken::Broken;

const PROMPT: &[u32] = &[1, 262, 270, 5, 300, 262, 8];

/// A tiny model with biases or query and key norms, its matrices in `format`.
fn model(arch: &'static str, format: Format) -> Gguf {
    Gguf::from_bytes(writer(arch, format).to_bytes().unwrap()).unwrap()
}

fn writer(arch: &'static str, format: Format) -> Writer {
    let tiny = Tiny { arch, ffn: 64, ..Tiny::default() };
    let vectors: &[(&str, usize)] = match arch {
        "qwen3" => &[("attn_q_norm.weight", 8), ("attn_k_norm.weight", 8)],
        _ => &[("attn_q.bias", 32), ("attn_v.bias", 16), ("ffn_down.bias", 32)],
    };
    tiny.writer_with(vectors, format)
}

fn load(device: Device) -> LoadOptions {
    LoadOptions::default().device(device).threads(2)
}

fn options(device: Device) -> VerifyOptions {
    VerifyOptions { load: load(device), prompt: Prompt::Ids(PROMPT.to_vec()), ..VerifyOptions::default() }
}

fn failure(report: &VerifyReport) -> &str {
    match &report.verdict {
        Verdict::Pass => "passed",
        Verdict::Fail { first } => first,
    }
}

#[test]
fn right_backends_pass() {
    for arch in ["llama", "qwen2", "qwen3"] {
        for format in [Format::F32, Format::F16, Format::Bf16, Format::Q8_0, Format::Q4_0, Format::Q5_1] {
            for device in [Device::Cpu, Device::Reference] {
                for (keys, values) in [(KvFormat::F16, KvFormat::F16), (KvFormat::F32, KvFormat::F32)] {
                    let options = VerifyOptions { keys, values, ..options(device) };
                    let report = verify_opened(model(arch, format), &[], &options).unwrap();
                    assert_eq!(report.verdict, Verdict::Pass, "{arch} {format} {device:?}: {report:#?}");
                    let found = report.operations.unwrap();
                    let named = |name: &str| found.classes.iter().any(|class| class.class.operation == name);
                    for name in ["embed", "rms_norm", "matmul3", "rope", "kv_write+attend", "matmul_add", "matmul2"] {
                        assert!(named(name), "{name} was not checked");
                    }
                    for name in ["swiglu", "matmul_rows", "matmul", "silu", "mul", "add"] {
                        assert!(named(name), "{name} was not checked");
                    }
                    assert!(named(if arch == "qwen3" { "head_norm" } else { "add_bias" }));
                }
            }
        }
    }
}

#[test]
fn the_builtin_text_and_a_quick_run_pass() {
    for depth in [Depth::Full, Depth::Quick] {
        let options = VerifyOptions { depth, ..VerifyOptions::default() };
        let report = verify_opened(model("llama", Format::Q8_0), &[], &options).unwrap();
        assert_eq!(report.verdict, Verdict::Pass, "{report:#?}");
        let short = report.prompt_tokens == 9;
        assert_eq!(short, depth == Depth::Quick, "{} tokens", report.prompt_tokens);
        assert_eq!(report.tokens.len(), report.prompt_tokens + 2);
        assert!(report.oracle.contains("f64 formulas"));
    }
}

#[test]
fn reports_survive_json() {
    let report = verify_opened(model("qwen3", Format::Q8_0), &[], &options(Device::Cpu)).unwrap();
    let value = serde_json::to_value(&report).unwrap();
    assert_eq!(value["version"], 1);
    assert_eq!(serde_json::from_value::<VerifyReport>(value.clone()).unwrap(), report);
    assert!(serde_json::from_str::<VerifyReport>(&value.to_string()).is_ok());
}

/// What promises to round no input is held to it.
#[test]
fn f32_activations_are_verified_as_such() {
    for format in [Format::Q8_0, Format::Q4_0] {
        let gguf = model("llama", format);
        let exact = load(Device::Cpu).activations(Activations::F32);
        let options = VerifyOptions { load: exact.clone(), ..options(Device::Cpu) };
        let report = verify_opened(gguf.clone(), &[], &options).unwrap();
        assert_eq!(report.verdict, Verdict::Pass, "{report:#?}");
        // With the bounds of what rounds no input.
        let plan = Plan { exact: true, ..plan() };
        let run = |kernels| operations(&gguf, Broken { right: cpu(kernels), fault: "" }, &plan).unwrap();
        assert!(run(kernels().exact).passes());
        let found = run(kernels());
        let failed = found.classes.iter().filter(|operation| !operation.passes());
        let failed: Vec<&str> = failed.map(|operation| operation.class.operation.as_str()).collect();
        assert!(failed.contains(&"matmul_rows") && failed.iter().all(|name| name.starts_with("matmul")), "{failed:?}");
    }
}

/// A run of everything with one operation wrong. Not by `visit_backend`, which has the whole run compiled for GPUs, too.
fn breaking(gguf: &Gguf, device: Device, fault: &'static str, depth: Depth) -> Operations {
    let plan = Plan { depth, ..plan() };
    match device {
        Device::Reference => operations(gguf, Broken { right: Reference, fault }, &plan),
        _ => operations(gguf, Broken { right: cpu(kernels()), fault }, &plan),
    }
    .unwrap()
}

fn plan() -> Plan<'static> {
    let (keys, values, depth) = (KvFormat::F16, KvFormat::F16, Depth::Full);
    Plan { text: &[], prompt: PROMPT, decode: 2, after: &[], depth, keys, values, exact: false, part: None }
}

fn kernels() -> &'static Kernels {
    Kernels::from_env().unwrap()
}

fn cpu(kernels: &'static Kernels) -> Cpu {
    Cpu::new(CpuOptions { threads: 2, kernels, ..CpuOptions::default() })
}

/// Fault, architecture that has the operation, class that must be named.
const FAULTS: &[(&str, &str, &str)] = &[
    ("embed", "llama", "embed"),
    ("embed, next token", "qwen3", "embed"),
    ("rms_norm", "llama", "rms_norm"),
    ("rms_norm, eps", "qwen3", "rms_norm"),
    ("head_norm", "qwen3", "head_norm"),
    ("matmul", "llama", "matmul"),
    ("matmul_rows", "llama", "matmul_rows"),
    ("matmul_rows, first row", "qwen3", "matmul_rows"),
    ("add_bias", "llama", "add_bias"),
    ("add_bias, left out", "llama", "add_bias"),
    ("rope", "llama", "rope"),
    ("rope, position 0", "qwen3", "rope"),
    ("rope, restarts", "llama", "rope"),
    ("kv_write, slot", "llama", "kv_write+attend"),
    ("attend", "qwen3", "kv_write+attend"),
    ("attend, scale", "llama", "kv_write+attend"),
    ("silu", "llama", "silu"),
    ("mul", "llama", "mul"),
    ("add", "qwen3", "add"),
    ("swiglu", "llama", "swiglu"),
    ("matmul_add", "qwen3", "matmul_add"),
    ("matmul_add, not added", "llama", "matmul_add"),
    ("matmul2", "llama", "matmul2"),
    ("matmul2, swapped", "qwen3", "matmul2"),
    ("matmul3", "llama", "matmul3"),
];

#[test]
fn the_wrong_operation_is_named_and_no_other() {
    for format in [Format::F32, Format::F16, Format::Q8_0, Format::Q4_0] {
        for &(fault, arch, class) in FAULTS {
            for device in [Device::Cpu, Device::Reference] {
                let gguf = model(arch, format);
                let found = breaking(&gguf, device, fault, Depth::Full);
                let failed = found.classes.iter().filter(|operation| !operation.passes());
                let failed: Vec<&str> = failed.map(|operation| operation.class.operation.as_str()).collect();
                let case = format!("{fault}, {arch}, {format}, {device:?}");
                assert_eq!(failed, [class], "{case}: {found:#?}");
                let (index, worst) = found.first_failure.unwrap();
                assert_eq!(found.classes[index].class.operation, class, "{case}");
                assert!(!worst.passes(), "{case}");
            }
        }
    }
}

#[test]
fn a_fault_of_decoding_alone_is_found_after_the_prompt() {
    let gguf = model("llama", Format::Q8_0);
    let found = breaking(&gguf, Device::Cpu, "rope, restarts", Depth::Quick);
    let (_, worst) = found.first_failure.unwrap();
    assert_eq!((worst.place.pass, worst.place.position, worst.place.layer), (1, Some(7), Some(0)));
}

/// The model with a tensor's bytes changed.
fn changed(format: Format, tensor: &str, change: impl Fn(&mut [u8])) -> Gguf {
    let file = model("llama", format);
    let mut writer = Writer::new();
    file.metadata().iter().for_each(|(key, value)| writer.insert(key, value.clone()));
    for info in file.tensors() {
        let mut bytes = file.data(info).to_vec();
        if info.name == tensor {
            change(&mut bytes);
        }
        writer.tensor(&info.name, info.format, &info.shape, bytes).unwrap();
    }
    Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()
}

#[test]
fn a_damaged_file_fails_before_anything_else() {
    for (name, expected) in [("blk.1.ffn_up.weight", "NaN"), ("token_embd.weight", "NaN")] {
        let gguf = changed(Format::F32, name, |bytes| bytes[40..44].copy_from_slice(&f32::NAN.to_le_bytes()));
        let report = verify_opened(gguf, &[], &options(Device::Cpu)).unwrap();
        let first = failure(&report);
        assert!(first.starts_with("weights") && first.contains(name) && first.contains(expected), "{first}");
    }
    let gguf = changed(Format::Q8_0, "blk.0.ffn_gate.weight", |bytes| {
        let kept = bytes.len() * 8 / 17;
        bytes[kept..].fill(0);
    });
    let report = verify_opened(gguf, &[], &options(Device::Cpu)).unwrap();
    assert!(failure(&report).contains("blk.0.ffn_gate.weight: the last 33 of 64 rows are 0"), "{}", failure(&report));
}

#[test]
fn nan_anywhere_fails_the_operation_that_it_comes_from() {
    for (tensor, class) in [("blk.1.ffn_up.weight", "matmul2"), ("blk.1.ffn_norm.weight", "rms_norm")] {
        let gguf = changed(Format::F32, tensor, |bytes| bytes[40..44].copy_from_slice(&f32::NAN.to_le_bytes()));
        let found = breaking(&gguf, Device::Cpu, "", Depth::Full);
        let (index, worst) = found.first_failure.unwrap();
        assert_eq!(found.classes[index].class.operation, class);
        assert_eq!((worst.error, worst.place.weight.as_deref()), (None, Some(tensor)));
    }
}

#[test]
fn templates_must_not_double_the_bos() {
    for (template, expected) in [
        ("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}", None),
        ("{% for m in messages %}{{ m.content }}{% endfor %}", None),
        ("{{ bos_token }}{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}", Some("2 BOS")),
        ("{% for m in messages %}{{ m.role }}{% endfor %}", Some("lacks")),
        ("{% for m in messages %}", Some("template")),
    ] {
        let mut writer = Writer::copy_of(&model("llama", Format::F32)).unwrap();
        writer.insert("tokenizer.chat_template", template);
        let gguf = Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap();
        let report = verify_opened(gguf, &[], &options(Device::Cpu)).unwrap();
        match expected {
            None => assert_eq!(report.verdict, Verdict::Pass, "{template}"),
            Some(words) => assert!(failure(&report).contains(words), "{template}: {}", failure(&report)),
        }
    }
}

#[test]
fn a_vocabulary_that_loses_text_fails() {
    let mut writer = Writer::copy_of(&model("llama", Format::F32)).unwrap();
    let mut tokens = writer.metadata().strings("tokenizer.ggml.tokens").unwrap().unwrap().to_vec();
    // "h" is spelled as two letters: what is encoded as one comes back as the other.
    let place = tokens.iter().position(|token| token == "h").unwrap();
    tokens[place] = "\u{2581}\u{2581}".into();
    writer.insert("tokenizer.ggml.tokens", Value::from(tokens.clone()));
    let mut types: Vec<i32> = writer.metadata().i32s("tokenizer.ggml.token_type").unwrap().unwrap().to_vec();
    types[place] = 5;
    writer.insert("tokenizer.ggml.token_type", Value::from(types));
    let gguf = Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap();
    let report = verify_opened(gguf, &[], &options(Device::Cpu)).unwrap();
    assert!(failure(&report).starts_with("tokenizer round trip"), "{}", failure(&report));
}

/// A trace of a run on the reference backend, as another engine would give it.
fn trace(gguf: &Gguf) -> Trace {
    struct Record(Trace);
    impl candor::Observer for Record {
        fn value(&mut self, observed: &candor::Observed<'_>) {
            let width = observed.values.len() / observed.rows;
            let evidence = Evidence::all(width, observed.values.to_vec());
            self.0.values.insert(Key::new(observed.name, observed.layer), evidence);
        }
    }
    let model = candor::Model::from_gguf(gguf.clone(), &load(Device::Reference)).unwrap();
    let mut session = model.session(&Default::default()).unwrap();
    let mut record = Record(Trace::default());
    session.observe(PROMPT, candor::Role::Prefill, candor::Logits::All, &mut record).unwrap();
    record.0.origin = Origin {
        engine: Some("otherwise 1.0".into()),
        backend: Some("gpu".into()),
        tokens: Some(PROMPT.to_vec()),
        ..Origin::default()
    };
    record.0
}

fn against(gguf: &Gguf, trace: Trace) -> VerifyReport {
    let options = VerifyOptions { against: Some(trace), ..VerifyOptions::default() };
    verify_opened(gguf.clone(), &[], &options).unwrap()
}

#[test]
fn a_trace_can_be_the_oracle() {
    for format in [Format::F32, Format::F16, Format::Q8_0] {
        let gguf = model("llama", format);
        let report = against(&gguf, trace(&gguf));
        assert_eq!(report.verdict, Verdict::Pass, "{format}: {report:#?}");
        assert_eq!(report.oracle, "trace of otherwise 1.0, gpu");
        let against = report.against.unwrap();
        assert!(report.operations.is_none() && against.left_out.is_empty(), "{:?}", against.left_out);
        assert_eq!(against.names.first().map(|compared| compared.name.as_str()), Some("inp_embd"));
        let out = against.names.iter().find(|compared| compared.name == "l_out").unwrap();
        assert_eq!((out.values, out.elements), (2, 2 * 7 * 32));

        let mut wrong = trace(&gguf);
        let Known::All(values) = &mut wrong.values.get_mut(&Key::new("ffn_inp", Some(1))).unwrap().known else {
            panic!()
        };
        values.iter_mut().for_each(|value| *value *= 1.5);
        let report = self::against(&gguf, wrong);
        assert!(failure(&report).starts_with("ffn_inp-1"), "{format}: {}", failure(&report));
    }
}

/// Logits of HF Transformers in float64 and of llama.cpp, each for files that both run.
#[test]
fn other_programs_agree() {
    let Some(fixtures) = candor_testing::fixtures() else { return };
    for (folder, file, logits) in [
        ("llama", "model.gguf", "logits_hf.npy"),
        ("llama", "model.gguf", "logits_llamacpp.npy"),
        ("qwen2", "model.gguf", "logits_hf.npy"),
        ("qwen3", "model.gguf", "logits_hf.npy"),
        ("quant-llama-F16", "model.gguf", "logits_llamacpp.npy"),
        ("quant-llama-BF16", "model.gguf", "logits_llamacpp.npy"),
        ("quant-llama-Q8_0", "model.gguf", "logits_llamacpp.npy"),
        ("quant-llama-Q5_0", "model.gguf", "logits_llamacpp.npy"),
        ("quant-llama-wide256-Q4_K_M", "model.gguf", "logits_llamacpp.npy"),
        ("quant-llama-wide256-Q2_K", "model.gguf", "logits_llamacpp.npy"),
        ("quant-llama-wide256-IQ4_XS", "model.gguf", "logits_llamacpp.npy"),
    ] {
        let folder = fixtures.join("arch").join(folder);
        let tokens = candor_testing::ids(&candor_testing::json(&folder.join("tokens.json"))["tokens"]);
        let logits = candor_testing::npy(&folder.join(logits));
        let width = logits.len() / tokens.len();
        let origin = Origin { engine: Some("another".into()), tokens: Some(tokens), ..Origin::default() };
        let with = |logits: Vec<f32>| {
            let values = [(Key::new("result_output", None), Evidence::all(width, logits))].into();
            let against = Some(Trace { origin: origin.clone(), values });
            let (keys, values) = (KvFormat::F32, KvFormat::F32);
            verify(folder.join(file), &VerifyOptions { against, keys, values, ..VerifyOptions::default() }).unwrap()
        };
        let report = with(logits.clone());
        assert_eq!(report.verdict, Verdict::Pass, "{}: {report:#?}", folder.display());
        // The rows one place on are another model's as far as the gate is concerned.
        let mut moved = logits;
        moved.rotate_left(width);
        assert!(failure(&with(moved)).starts_with("result_output"));
    }
}

#[test]
fn a_few_printed_values_can_be_the_oracle() {
    let gguf = model("llama", Format::F32);
    let whole = trace(&gguf);
    let Known::All(values) = &whole.values[&Key::new("l_out", Some(1))].known else { panic!() };
    let printed = |at: usize| (values[at] * 10.0).round() / 10.0;
    // Row and column from the end, as truncated dumps give them.
    let points =
        vec![(0, 0, printed(0)), (0, -1, printed(31)), (-1, 0, printed(6 * 32)), (-1, -1, printed(7 * 32 - 1))];
    let evidence = |points| Evidence { width: 0, rows: None, known: Known::Some(points), sum: None, precision: 0.05 };
    let some = |points| Trace {
        origin: whole.origin.clone(),
        values: [(Key::new("l_out", Some(1)), evidence(points))].into(),
    };
    let report = against(&gguf, some(points.clone()));
    assert_eq!(report.verdict, Verdict::Pass, "{report:#?}");
    assert_eq!(report.against.unwrap().names[0].elements, 4);
    let mut wrong = points;
    wrong[2].2 += 0.2;
    assert!(failure(&against(&gguf, some(wrong))).starts_with("l_out-1"));
}

#[test]
fn what_proves_nothing_is_refused() {
    let gguf = model("llama", Format::F32);
    let good = trace(&gguf);
    let own = candor::Model::from_gguf(gguf.clone(), &load(Device::Cpu)).unwrap().device_label().to_owned();
    let with = |change: &dyn Fn(&mut Trace)| {
        let mut trace = good.clone();
        change(&mut trace);
        failure(&against(&gguf, trace)).to_owned()
    };
    let candor = |backend: Option<&str>| {
        with(&|trace| {
            trace.origin.engine = Some("candor 0.1.0".into());
            trace.origin.backend = backend.map(str::to_owned);
        })
    };
    let itself = "trace: compared with itself: not a proof";
    assert_eq!(candor(Some(&own)), itself);
    assert_eq!(candor(Some(&own.replace("2 threads", "7 threads"))), itself);
    assert_eq!(candor(None), itself);
    assert_eq!(candor(Some("reference")), "passed");
    assert!(with(&|trace| trace.values.clear()).contains("no value that could be compared"));
    let narrow = |trace: &mut Trace| trace.values.get_mut(&Key::new("l_out", Some(0))).unwrap().width = 16;
    assert!(with(&narrow).starts_with("l_out-0: error not finite, or of another shape"));
}

#[test]
fn what_makes_no_sense_is_an_error() {
    let gguf = model("llama", Format::F32);
    let run = |options: VerifyOptions| verify_opened(gguf.clone(), &[], &options).map(|report| report.verdict);
    let prompt = |ids: Vec<u32>| VerifyOptions { prompt: Prompt::Ids(ids), ..VerifyOptions::default() };
    assert!(matches!(run(prompt(vec![])), Err(VerifyError::Candor(candor::Error::EmptyPrompt))));
    assert!(matches!(run(prompt(vec![1, 9999])), Err(VerifyError::Candor(candor::Error::Token { token: 9999, .. }))));
    assert!(matches!(run(prompt(vec![1; 5000])), Err(VerifyError::TooLong { got: 5000, .. })));
    let with = |origin: Origin| VerifyOptions {
        against: Some(Trace { origin, ..Trace::default() }),
        ..VerifyOptions::default()
    };
    assert!(matches!(run(with(Origin::default())), Err(VerifyError::NoTokens)));
    let moved = Origin { tokens: Some(vec![1, 5]), positions: Some(vec![0, 3]), ..Origin::default() };
    assert!(matches!(run(with(moved)), Err(VerifyError::Positions { index: 1, got: 3 })));
}

#[test]
fn checks_say_what_they_did() {
    let report = verify_opened(model("llama", Format::Q8_0), &[], &options(Device::Cpu)).unwrap();
    let names: Vec<&str> = report.checks.iter().map(|check| check.name.as_str()).collect();
    let expected = [
        "weights",
        "tokenizer round trip",
        "chat template and BOS",
        "prefill against token by token",
        "prefill against decoding",
        "cached against fresh",
        "observed against not",
        "1 thread against several",
    ];
    assert_eq!(names, expected);
    let skipped = report.checks.iter().filter(|check| matches!(check.outcome, Outcome::Skipped(_)));
    assert_eq!(skipped.map(|check| check.name.as_str()).collect::<Vec<_>>(), ["chat template and BOS"]);
}

/// This machine's kernels, with one of them wrong.
fn spoilt() -> &'static Kernels {
    fn swiglu(gate: &mut [f32], up: &[f32]) {
        gate.iter_mut().zip(up).for_each(|(gate, up)| *gate *= up);
    }
    let Kernels { name, f32, mat, attention, probe, batch, exact } = *kernels();
    let f32 = F32Kernels { swiglu, ..f32 };
    Box::leak(Box::new(Kernels { name, f32, mat, attention, probe, batch, exact }))
}

#[test]
fn a_wrong_kernel_is_found_before_the_first_token() {
    let gguf = model("llama", Format::Q8_0);
    assert_eq!(processor(&gguf, &load(Device::Cpu)).unwrap().failure(), None);
    let found = processor(&gguf, &load(Device::Cpu).kernels(spoilt())).unwrap();
    assert!(found.failure().unwrap().contains("swiglu"), "{:?}", found.failure());
}

#[test]
fn an_answer_that_was_given_is_held_against_the_formulas() {
    let gguf = model("llama", Format::Q8_0);
    let written = [3, 1, 4, 1];
    let found = answered(&gguf, &load(Device::Cpu), PROMPT, &written).unwrap();
    assert_eq!(found.failure(), None);
    assert_eq!(found.tokens, [PROMPT, &written[..3]].concat());
    assert!(answered(&gguf, &load(Device::Cpu), &[], &written).is_err());
    let found = answered(&gguf, &load(Device::Cpu).kernels(spoilt()), PROMPT, &written).unwrap();
    assert!(found.failure().unwrap().contains("swiglu"), "{:?}", found.failure());
}
