//! Every fixture architecture against HF Transformers in float64 and against llama.cpp, token by token, in batches, and by
//! this crate's own tools. `CANDOR_WRITE_TABLE=docs/architectures.md cargo test -p candor-inspect --test breadth` writes
//! the table that the project carries; without it the table must have a row for every fixture.

mod faulty;
mod rounded;
mod run;
mod scaled;

use std::{
    fmt::Write as _,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use candor::{
    Device, LoadOptions,
    checked::{Depth, Plan, operations},
};
use candor_cpu::{Batching, Cpu, CpuOptions};
use candor_inspect::Outcome;
use candor_models::{Decoder, Gives, Pass};
use candor_ops::{KvFormat, Ops, Reference, Step};
use candor_testing::{argmax, fixtures, ids, json, nmse, npy};

use run::{Case, Input, chosen, diagnosed};

/// Largest NMSE on the reference backend, and on the processor.
const LIMITS: [f64; 2] = [1e-9, 1e-6];
/// Greedy steps whose two best logits are closer than this may go either way.
const NEAR_TIE: f32 = 1e-3;

/// A fixture of which the two programs disagree, or whose file lacks something.
struct Exception {
    fixture: &'static str,
    /// Whose values are not those of the file's model.
    not: &'static str,
    /// A key that the file lacks, and the value that its model has.
    key: Option<(&'static str, f32)>,
    why: &'static str,
}

const NOTHING: Exception = Exception { fixture: "", not: "", key: None, why: "" };

const EXCEPTIONS: &[Exception] = &[
    Exception {
        fixture: "falcon-mamba",
        not: "hf",
        why: "Transformers norms time step, B and C with an epsilon of 1e-6 that the file does not have",
        ..NOTHING
    },
    Exception {
        fixture: "nemotron-h",
        not: "hf",
        why: "Transformers' gated norm has an epsilon of its own that the file does not have",
        ..NOTHING
    },
    Exception {
        fixture: "glm",
        not: "hf",
        why: "the model's epsilon is 1.5625e-7, the file's 1e-5: its converter writes another number",
        ..NOTHING
    },
    Exception {
        fixture: "exaone4-32b",
        not: "llamacpp",
        why: "llama.cpp rounds activations to F16 before products with F16 weights, in 64 layers",
        ..NOTHING
    },
    Exception {
        fixture: "gpt-oss",
        not: "llamacpp",
        why: "the real models have `truncate: false`, which the file lacks and llama.cpp does not know: YaRN's ramp is not \
              rounded to whole pairs",
        ..NOTHING
    },
    Exception {
        fixture: "gpt-oss-trunc",
        key: Some(("gpt-oss.rope.scaling.yarn_truncate", 1.0)),
        why: "made with `truncate: true`; the file lacks it, so that the key is added",
        ..NOTHING
    },
    Exception {
        fixture: "gpt-oss-mxfp4",
        not: "llamacpp",
        key: Some(("gpt-oss.rope.scaling.yarn_truncate", 1.0)),
        why: "as gpt-oss-trunc; products with MXFP4 round activations to 8 bits, as llama.cpp's do",
    },
    Exception {
        fixture: "mistral-swa8",
        not: "hf",
        why: "a file of architecture llama has no sliding window: the converter drops it",
        ..NOTHING
    },
    Exception {
        fixture: "t5-gated",
        not: "llamacpp",
        why: "llama.cpp's GELU is a table of halves, which shows more here than elsewhere",
        ..NOTHING
    },
    Exception {
        fixture: "t5-relu",
        not: "llamacpp",
        why: "the head is the embedding: the model scales what goes into it by the root of the width, llama.cpp does not",
        ..NOTHING
    },
    Exception { fixture: "umt5", not: "llamacpp", why: "as t5-relu", ..NOTHING },
    Exception {
        fixture: "gemma3n",
        not: "llamacpp",
        why: "llama.cpp divides the variance of gates by one less than their number, which shows where they are few",
        ..NOTHING
    },
    Exception {
        fixture: "phimoe",
        not: "llamacpp",
        key: Some(("phimoe.router_jitter_noise", 0.0)),
        why: "llama.cpp has RMS norms where the model has layer norms, and routes by softmax instead of SparseMixer",
    },
];

fn exception(fixture: &str) -> &'static Exception {
    EXCEPTIONS.iter().find(|exception| exception.fixture == fixture).unwrap_or(&NOTHING)
}

/// What a run gave for each token: logits, or embeddings.
fn rows<B: Ops + Clone>(model: &Decoder<B>, ops: &B, input: Input<'_>, chunk: usize) -> Vec<f32> {
    let (mut ops, tokens) = (ops.clone(), input.tokens);
    let mut scratch = model.scratch(&mut ops, chunk.max(input.text.len()), chunk);
    let mut kv = ops.kv(&model.config().kv_plan(input.context(), 1, KvFormat::F32, KvFormat::F32));
    input.read(model, (&mut ops, &mut scratch, &mut kv), 0, &mut ());
    let mut all = Vec::new();
    for (number, tokens) in tokens.chunks(chunk).enumerate() {
        let first = (number * chunk) as u32;
        let positions: Vec<u32> = (first..first + tokens.len() as u32).collect();
        let outputs: Vec<u32> = (0..tokens.len() as u32).collect();
        let sequences = vec![0; tokens.len()];
        let step = Step { tokens, positions: &positions, sequences: &sequences, outputs: &outputs, decoding: 0 };
        model.forward(&mut Pass { ops: &mut ops, s: &mut scratch, kv: &mut kv, step, tap: &mut () });
        all.extend(values(&mut ops, &scratch.logits));
    }
    all
}

fn values<B: Ops>(ops: &mut B, x: &B::Buf) -> Vec<f32> {
    let (snapshot, mut out) = (ops.snapshot(x), Vec::new());
    ops.download(&snapshot, &mut out);
    out
}

/// The rows of two sequences in one step: the tokens, and the same without their last ones. So are their texts.
fn batched<B: Ops + Clone>(model: &Decoder<B>, ops: &B, input: Input<'_>, less: usize) -> (Vec<f32>, Vec<f32>) {
    let (mut ops, tokens, short) = (ops.clone(), input.tokens, input.less(less).tokens);
    let all = tokens.len() + short.len();
    let mut scratch = model.scratch(&mut ops, all.max(input.text.len()), all);
    let mut kv = ops.kv(&model.config().kv_plan(input.context(), 2, KvFormat::F32, KvFormat::F32));
    input.read(model, (&mut ops, &mut scratch, &mut kv), 1, &mut ());
    input.less(less).read(model, (&mut ops, &mut scratch, &mut kv), 0, &mut ());
    let both = [tokens, short].concat();
    let positions: Vec<u32> = (0..tokens.len() as u32).chain(0..short.len() as u32).collect();
    let sequences: Vec<u32> = [vec![1; tokens.len()], vec![0; short.len()]].concat();
    let outputs: Vec<u32> = (0..all as u32).collect();
    let step = Step { tokens: &both, positions: &positions, sequences: &sequences, outputs: &outputs, decoding: 0 };
    model.forward(&mut Pass { ops: &mut ops, s: &mut scratch, kv: &mut kv, step, tap: &mut () });
    let values = values(&mut ops, &scratch.logits);
    let (first, second) = values.split_at(values.len() / all * tokens.len());
    (first.to_vec(), second.to_vec())
}

/// The likeliest tokens after a prompt, one by one, as long as no two are nearly as likely.
fn greedy<B: Ops + Clone>(model: &Decoder<B>, ops: &B, input: Input<'_>, expected: &[u32]) -> Result<usize, String> {
    let (mut ops, prompt) = (ops.clone(), input.tokens);
    let mut scratch = model.scratch(&mut ops, input.context(), 1);
    let context = input.context() + expected.len();
    let mut kv = ops.kv(&model.config().kv_plan(context, 1, KvFormat::F32, KvFormat::F32));
    input.read(model, (&mut ops, &mut scratch, &mut kv), 0, &mut ());
    let mut tokens = prompt.to_vec();
    let mut first = 0;
    for (step, &next) in expected.iter().enumerate() {
        let positions: Vec<u32> = (first as u32..tokens.len() as u32).collect();
        let (sequences, last) = (vec![0; positions.len()], [positions.len() as u32 - 1]);
        let taken = Step {
            tokens: &tokens[first..],
            positions: &positions,
            sequences: &sequences,
            outputs: &last,
            decoding: 0,
        };
        model.forward(&mut Pass { ops: &mut ops, s: &mut scratch, kv: &mut kv, step: taken, tap: &mut () });
        let logits = values(&mut ops, &scratch.logits);
        let best = argmax(&logits);
        if best != next {
            let near = logits[best as usize] - logits[next as usize] < NEAR_TIE;
            return if near { Ok(step) } else { Err(format!("token {step}: {best} instead of {next}")) };
        }
        first = tokens.len();
        tokens.push(next);
    }
    Ok(expected.len())
}

/// Checks a fixture; its row of the table, and what is wrong.
fn check(folder: &Path) -> (String, Vec<String>) {
    let case = Case::open(folder);
    let Case { name, gguf, .. } = &case;
    let (exception, input) = (exception(name), case.input());
    let Input { text, tokens } = input;
    let arch = gguf.metadata().str("general.architecture").unwrap().unwrap().to_owned();
    let mut faults = Vec::new();
    let record = json(&folder.join("tokens.json"));
    let (mut reference, mut cpu) =
        (Reference, Cpu::new(CpuOptions { threads: 2, batching: Batching::Invariant, ..CpuOptions::default() }));
    let exact = Decoder::load(gguf, &mut reference).unwrap();
    let fast = Decoder::load(gguf, &mut cpu).unwrap();
    let encodes = exact.config().gives == Gives::Embeddings;
    let ours = [rows(&exact, &reference, input, tokens.len()), rows(&fast, &cpu, input, tokens.len())];
    let kind = if encodes { "embeddings" } else { "logits" };
    let mut columns = String::new();
    // What rounding activations costs llama.cpp.
    let theirs = nmse(&npy(&folder.join(format!("{kind}_llamacpp.npy"))), &npy(&folder.join(format!("{kind}_hf.npy"))));
    for program in ["hf", "llamacpp"] {
        let expected = npy(&folder.join(format!("{kind}_{program}.npy")));
        let errors = [nmse(&ours[0], &expected), nmse(&ours[1], &expected)];
        write!(columns, "| {:.0e} / {:.0e} ", errors[0], errors[1]).unwrap();
        // llama.cpp's GELU is a table of halves, and it rounds activations to the weights' format.
        let limits = if program == "hf" || name == "mistral-swa8" { LIMITS } else { [LIMITS[1]; 2] };
        let limits = if name == "gpt-oss-mxfp4" { [LIMITS[0], 1.15 * theirs] } else { limits };
        for (device, (error, limit)) in ["reference", "cpu"].iter().zip(errors.into_iter().zip(limits)) {
            if exception.not != program && (error.is_nan() || error >= limit) {
                faults.push(format!("{name}: {device} against {program}: NMSE {error:e}, at most {limit:e}"));
            }
        }
    }
    let oracle = if exception.not == "hf" { "llamacpp" } else { "hf" };
    let greedy_tokens = &record[format!("greedy_{oracle}")];
    let mut yes = |what: &str, result: Result<String, String>| match result {
        Ok(words) => words,
        Err(error) => {
            faults.push(format!("{name}: {what}: {error}"));
            format!("**{error}**")
        }
    };
    let continued = match greedy_tokens.is_null() || encodes {
        true => String::new(),
        false => {
            let expected = ids(greedy_tokens);
            let result = greedy(&exact, &reference, input, &expected)
                .and_then(|count| Ok(count.min(greedy(&fast, &cpu, input, &expected)?)));
            yes("greedy", result.map(|count| format!("{count} of {}", expected.len())))
        }
    };
    let same = |a: &[f32], b: &[f32]| match nmse(a, b) {
        error if error < 1e-10 => Ok("yes".to_owned()),
        error => Err(format!("NMSE {error:.0e}")),
    };
    let stepwise = match encodes {
        true => String::new(),
        false => yes("prefill and stepwise", same(&rows(&fast, &cpu, input, 1), &ours[1])),
    };
    let (first, second) = batched(&fast, &cpu, input, 3);
    let alone = rows(&fast, &cpu, input.less(3), tokens.len() - 3);
    let batch = same(&first, &ours[1]).and_then(|_| same(&second, &alone));
    let batch = yes("batch and single", batch);
    let (keys, values) = (KvFormat::F32, KvFormat::F32);
    let decode = if encodes { 0 } else { 1 };
    let plan =
        Plan { text, prompt: tokens, decode, after: &[], depth: Depth::Full, keys, values, exact: false, part: None };
    let load = LoadOptions::default().device(Device::Cpu).threads(2).batching(Batching::Invariant);
    let verified = match catch_unwind(AssertUnwindSafe(|| operations(gguf, &load, &plan).unwrap())) {
        Ok(report) => match &report.first_failure {
            None => Ok("clean".to_owned()),
            Some((class, worst)) => Err(format!("{}: {worst:?}", report.classes[*class].class)),
        },
        Err(_) => Err("panic".to_owned()),
    };
    let verified = yes("verify", verified);
    // One fixture's panic must not hide the others' faults.
    let healthy = match catch_unwind(AssertUnwindSafe(|| diagnosed(gguf, input, Batching::Fastest).outcome)) {
        Ok(Outcome::Healthy) => Ok("healthy".to_owned()),
        Ok(other) => Err(format!("{other:?}")),
        Err(_) => Err("panic".to_owned()),
    };
    let healthy = yes("diagnose", healthy);
    let why = exception.why;
    let row =
        format!("| {name} | {arch} {columns}| {continued} | {stepwise} | {batch} | {verified} | {healthy} | {why} |\n");
    (row, faults)
}

const HEAD: &str = "# Architectures

Every row is a tiny model of random weights, computed by two other programs: HF Transformers 5.23 in float64 and llama.cpp
(F32, one thread). `cargo xtask fixtures` makes them from a clone alone; those in
`crates/inspect/tests/goldens/architectures` were made by `tools/architectures/make.py`. Numbers are normalised mean squared errors over all positions, of the reference backend and of the
processor. A fixture of which one program is not followed says why. The table is written by

    CANDOR_WRITE_TABLE=docs/architectures.md cargo test -p candor-inspect --test breadth

which fails where a number is not below its limit (reference: 1e-9, processor: 1e-6; against llama.cpp 1e-6), a greedy
continuation differs, a prompt and its tokens one by one, or two sequences together and apart, give something else, or
`verify` or `diagnose` finds a fault.

What a file may say otherwise within an architecture (norms, windows, caps, scalings, missing tensors) is held against llama.cpp in
`cargo test -p candor --test engine variations`. Two things that files say and llama.cpp does not heed are computed as the models' authors do: Phi 3's
window, which llama.cpp has turned off, and YaRN's betas (Kimi K2).

| fixture | architecture | against Transformers | against llama.cpp | greedy | prefill = stepwise | batch = single | verify | diagnose | note |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

#[test]
fn every_architecture() {
    let (mut table, mut faults) = (HEAD.to_owned(), Vec::new());
    for folder in chosen() {
        let (row, wrong) = check(&folder);
        print!("{row}");
        table.push_str(&row);
        faults.extend(wrong);
    }
    assert!(faults.is_empty(), "{faults:#?}");
    if std::env::var_os("CANDOR_ONLY").is_some() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if let Some(path) = std::env::var_os("CANDOR_WRITE_TABLE") {
        assert!(fixtures().is_some(), "a table of a part of the fixtures");
        fs::write(root.join(path), &table).unwrap();
    }
    let carried = fs::read_to_string(root.join("docs/architectures.md")).unwrap_or_default();
    for folder in chosen() {
        let name = folder.file_name().unwrap().to_str().unwrap();
        assert!(carried.contains(&format!("\n| {name} | ")), "docs/architectures.md has no row for {name}");
    }
}
