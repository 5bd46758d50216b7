//! Faults in the shaders of operations that only some architectures have, on fixtures that have them: `verify` names the
//! operation, and finds nothing where nothing is wrong.

use candor::Gguf;
use candor_gpu::ShaderEdit;
use candor_inspect::verify::{Depth, Prompt, Verdict, VerifyOptions, verify_opened};
use candor_testing::{fixtures, ids, json};

use crate::gpu;

/// A fault, a fixture that has the operation, and the class of operations that must be named first.
struct Fault {
    name: &'static str,
    fixture: &'static str,
    edits: &'static [ShaderEdit],
    class: &'static str,
}

const fn fault(name: &'static str, fixture: &'static str, class: &'static str, edits: &'static [ShaderEdit]) -> Fault {
    Fault { name, fixture, edits, class }
}

const fn edit(kernel: &'static str, from: &'static str, to: &'static str) -> ShaderEdit {
    ShaderEdit { kernel, from, to }
}

const FAULTS: &[Fault] = &[
    fault("norm: eps", "gpt2", "norm", &[edit("Norm", "square + p.eps", "square + 1e-2")]),
    fault("unary: another GELU", "gpt2", "unary", &[edit("Unary(Gelu)", "0.044715", "0.0448")]),
    fault(
        "add_positions: the next one",
        "gpt2",
        "add_positions",
        &[edit("AddPositions", "step[id.y + 1u].y", "(step[id.y + 1u].y + 1u)")],
    ),
    fault(
        "copy: a column too early",
        "mamba2",
        "copy",
        &[edit("Columns", "+ p.first + run", "+ p.first - min(p.first, 1u) + run")],
    ),
    fault("top_k: the later of equals", "gpt2", "top_k", &[edit("TopSlice", "~(start.y + i)", "start.y + i")]),
    fault("top_k: minus is plus", "gpt2", "top_k", &[edit("TopSlice", "~bits, bits >=", "bits, bits >=")]),
    fault("top_k: a digit is not looked at", "gpt2", "top_k", &[edit("TopSlice", "digit < 8u", "digit < 1u")]),
    fault("top_k: not sorted to the end", "gpt2", "top_k", &[edit("TopMerge", "run <= K", "run < K")]),
    fault("attend: no cap", "gemma2", "kv_write+attend", &[edit("Attend", "s = capped(s);", "")]),
    fault("attend: slopes upwards", "bloom", "kv_write+attend", &[edit("Attend", "s -= slopes", "s += slopes")]),
    fault("attend: no sink", "gpt-oss", "kv_write+attend", &[edit("Attend", "sum[n] = 1.0", "sum[n] = 0.0")]),
    fault(
        "route: weights as they are",
        "mixtral",
        "route",
        &[edit("Route", "weight / divisor * factor", "weight * factor * 1.01")],
    ),
    fault(
        "matmul_experts: the next matrix",
        "mixtral",
        "matmul_experts F32",
        &[edit("ExpertVec", "choices[choice].x * p.outputs", "(choices[choice].x ^ 1u) * p.outputs")],
    ),
    fault(
        "matmul_experts: a tile of another expert",
        "mixtral",
        "matmul_experts F32",
        &[edit("Group", "sorted[at] = e;", "sorted[at] = e ^ 1u;")],
    ),
    fault("sum_experts: one is left out", "mixtral", "sum_experts", &[edit("SumExperts", "var i = 0u", "var i = 1u")]),
    fault(
        "matmul_heads: the first head's inputs",
        "deepseek2-v2",
        "matmul_heads F32",
        &[edit("HeadVec", "work.head * p.runs", "0u")],
    ),
    fault("conv: taps turned around", "mamba", "conv", &[edit("Conv", "p.taps - 1u - tap", "tap")]),
    fault(
        "conv: a state of too few rows",
        "mamba",
        "conv",
        &[edit("Keep", "place + 1u < p.taps", "place + 2u < p.taps")],
    ),
    fault(
        "recur: nothing fades",
        "mamba2",
        "recur",
        &[edit("Recur", "old * fading(row, head, keys + i, rates[i])", "old")],
    ),
    fault("recur: nothing is erased", "rwkv7", "recur", &[edit("Recur", "* erased;", "* 0.0;")]),
];

#[test]
fn a_broken_shader_of_another_architecture_is_named_by_verify() {
    let Some(fixtures) = fixtures() else { return };
    let verdict = |fixture: &str, edits: &[ShaderEdit]| {
        let load = gpu(edits)?;
        let folder = fixtures.join("arch").join(fixture);
        let tokens = ids(&json(&folder.join("tokens.json"))["tokens"]);
        let gguf = Gguf::open(folder.join("model.gguf")).unwrap();
        // Enough for experts to have several tokens each.
        let prompt = Prompt::Ids(tokens[..tokens.len().min(40)].to_vec());
        let options = VerifyOptions { load, prompt, depth: Depth::Quick, ..Default::default() };
        Some(verify_opened(gguf, &[], &options).unwrap())
    };
    let (mut sound, mut wrong): (Vec<&str>, Vec<String>) = Default::default();
    for Fault { name, fixture, edits, class } in FAULTS {
        if !sound.contains(fixture) {
            let Some(report) = verdict(fixture, &[]) else { return };
            assert_eq!(report.verdict, Verdict::Pass, "{fixture}: {report:#?}");
            sound.push(fixture);
        }
        let Some(report) = verdict(fixture, edits) else { return };
        println!("{name}: {:?}", report.verdict);
        let found = report.operations.as_ref();
        let first = found.and_then(|found| Some(&found.classes[found.first_failure.as_ref()?.0].class));
        let first = first.map(ToString::to_string);
        if report.verdict == Verdict::Pass || first.as_deref() != Some(*class) {
            wrong.push(format!("{name}: {:?}, not {class}", report.verdict));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
