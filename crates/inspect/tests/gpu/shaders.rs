//! Faults planted in the text of shaders: `verify` fails at the operation, and `diagnose` names it from a trace.

use candor::{Device, Format, Model, Trust, Variant, Verify, trust::Source};
use candor_gpu::ShaderEdit;
use candor_inspect::{
    Diagnosis, Origin, diagnose,
    file::TraceWriter,
    import::{ReadOptions, read},
    record::{Selection, record},
    verify::{Depth, Prompt, Verdict, VerifyOptions, verify_opened},
};

use crate::{BYTES, PROMPT, gpu, gpu_with, matrices, model};

/// A fault, the architecture that has the operation, and what must be named.
struct Fault {
    name: &'static str,
    arch: &'static str,
    edits: &'static [ShaderEdit],
    /// The class of operations that `verify` must name first.
    class: &'static str,
    /// The value that `diagnose` must name first.
    value: &'static str,
    /// The fault that `diagnose` must find, where the catalogue has it.
    known: Option<&'static str>,
}

const fn edit(kernel: &'static str, from: &'static str, to: &'static str) -> ShaderEdit {
    ShaderEdit { kernel, from, to }
}

const FAULTS: &[Fault] = &[
    Fault {
        name: "embed: the next row",
        arch: "llama",
        edits: &[edit("Embed", "decode((token - p.first)", "decode((token + 1u - p.first)")],
        class: "embed",
        value: "inp_embd",
        known: Some("token-off-by-one"),
    },
    Fault {
        name: "rms_norm: eps",
        arch: "llama",
        edits: &[edit("RmsNorm", "+ p.eps", "+ 1e-2")],
        class: "rms_norm",
        value: "attn_norm-0",
        known: None,
    },
    Fault {
        name: "head_norm: eps",
        arch: "qwen3",
        edits: &[edit("HeadNorm", "+ p.eps", "+ 1e-2")],
        class: "head_norm",
        value: "Qcur_normed-0",
        known: None,
    },
    Fault {
        name: "rope: the pair swapped",
        arch: "qwen3",
        edits: &[
            edit("Rope", "let a = x[i];", "let a = x[j];"),
            edit("Rope", "let b = x[j];", "let b = x[i];"),
            edit("TurnAndWrite", "let a = q[i];", "let a = q[j];"),
            edit("TurnAndWrite", "let b = q[j];", "let b = q[i];"),
        ],
        class: "rope",
        value: "Qcur-0",
        known: None,
    },
    Fault {
        name: "rope: position 0 for all tokens",
        arch: "llama",
        edits: &[
            edit("Rope", "step[id.y + 1u].y", "0u"),
            edit("TurnAndWrite", "position = step[row + 1u].y", "position = 0u"),
        ],
        class: "rope",
        value: "Qcur-0",
        known: Some("rope-missing"),
    },
    Fault {
        name: "mat_vec: the high nibbles for the low ones",
        arch: "llama",
        edits: &[edit("MatVec { format: Q4_0", "vec4<u32>(4u * (run & 1u))", "vec4<u32>(4u * (~run & 1u))")],
        class: "matmul3 Q4_0",
        value: "Qcur.mul_mat-0",
        known: None,
    },
    Fault {
        name: "mat_mul: the last row of a tile",
        arch: "llama",
        edits: &[edit("MatMul", "w_row < p.rows", "w_row + 1u < p.rows")],
        class: "matmul3 Q4_0",
        value: "Qcur.mul_mat-0",
        known: None,
    },
    Fault {
        name: "attend: no scale",
        arch: "qwen3",
        edits: &[edit("Attend", "* p.scale", "")],
        class: "kv_write+attend",
        value: "kqv_out-0",
        known: Some("attention-scale-missing"),
    },
    Fault {
        name: "attend: no mask",
        arch: "llama",
        edits: &[edit("Attend", "position < limits[n / HEADS]", "position < high")],
        class: "kv_write+attend",
        value: "kqv_out-0",
        known: None,
    },
    Fault {
        name: "kv_write: two positions in one slot",
        arch: "llama",
        edits: &[
            edit("KvWrite", "+ position % p.kept", "+ (position & 0xfffffffeu) % p.kept"),
            edit("TurnAndWrite", "+ position % p.kept", "+ (position & 0xfffffffeu) % p.kept"),
        ],
        class: "kv_write+attend",
        value: "kqv_out-0",
        known: None,
    },
    Fault {
        name: "swiglu: another activation",
        arch: "llama",
        edits: &[edit("Swiglu", "exp(-x)", "exp(-1.702 * x)")],
        class: "swiglu",
        value: "ffn_swiglu-0",
        known: Some("quick-gelu"),
    },
    Fault {
        name: "add_bias: subtracted",
        arch: "llama",
        edits: &[edit("AddBias", "x + y", "x - y")],
        class: "add_bias",
        value: "Qcur.add-0",
        known: None,
    },
];

/// Those of products with inputs of 8 bits.
const FAULTS_OF_BYTES: &[Fault] = &[
    Fault {
        name: "round: bytes of half the size",
        arch: "llama",
        edits: &[edit("Round", "127.0 / most", "63.0 / most")],
        class: "matmul3 Q4_0",
        value: "Qcur.mul_mat-0",
        known: None,
    },
    Fault {
        name: "mat_mul of bytes: half of the offsets",
        arch: "llama",
        edits: &[edit("MatMul { format: Q4_0, tile: Bytes", "(f.y + f.w)", "f.y")],
        class: "matmul3 Q4_0",
        value: "Qcur.mul_mat-0",
        known: None,
    },
    Fault {
        name: "mat_mul of bytes: the first halves twice",
        arch: "llama",
        edits: &[edit("MatMul { format: Q4_0, tile: Bytes", "sums_of(high,", "sums_of(low,")],
        class: "matmul3 Q4_0",
        value: "Qcur.mul_mat-0",
        known: None,
    },
];

/// Those of products in cooperative matrices.
const FAULTS_OF_MATRICES: &[Fault] = &[
    Fault {
        name: "cooperative matrices: the upper half twice",
        arch: "llama",
        edits: &[edit("MatMul { format: Q4_0, tile: Cooperative", "input + BLOCK * LINE + k", "input + k")],
        class: "matmul3 Q4_0",
        value: "Qcur.mul_mat-0",
        known: None,
    },
    Fault {
        name: "cooperative matrices: weights that lie across",
        arch: "llama",
        edits: &[edit("MatMul { format: Q4_0, tile: Cooperative", "coopLoad<Weights>", "coopLoadT<Weights>")],
        class: "matmul3 Q4_0",
        value: "Qcur.mul_mat-0",
        known: None,
    },
];

/// All of them, each with the way of computing that has its shader.
fn faults() -> impl Iterator<Item = (Option<Variant>, &'static Fault)> {
    let of_bytes = FAULTS_OF_BYTES.iter().map(|fault| (Some(BYTES), fault));
    let of_matrices =
        matrices().into_iter().flat_map(|variant| FAULTS_OF_MATRICES.iter().map(move |fault| (Some(variant), fault)));
    FAULTS.iter().map(|fault| (None, fault)).chain(of_bytes).chain(of_matrices)
}

/// What passes without faults.
fn healthy() -> impl Iterator<Item = (&'static str, Option<Variant>)> {
    [("llama", None), ("qwen3", None), ("llama", Some(BYTES))]
        .into_iter()
        .chain(matrices().map(|it| ("llama", Some(it))))
}

/// A driver whose cooperative matrices are wrong is done without them, and only then: what else is wrong stays so.
#[test]
fn wrong_cooperative_matrices_are_done_without() {
    let Some(variant) = matrices() else { return };
    let settled = |edits| {
        let options = gpu_with(Some(variant), edits)?.device(Device::Auto).verify(Verify::default());
        let model = Model::from_gguf(model("qwen3", Format::Q4_0), &options).unwrap();
        let Trust { verdicts, without_cooperative, .. } = model.trust();
        let right = verdicts[0].failure.is_none();
        assert_eq!(model.device_label().starts_with("gpu, "), right);
        Some((right, *without_cooperative, verdicts[0].source))
    };
    // Verdicts are those of the driver, with cooperative matrices and without.
    for source in [Source::Verified, Source::Remembered] {
        assert_eq!(settled(FAULTS_OF_MATRICES[0].edits), Some((true, true, source)));
    }
    assert_eq!(settled(&[]), Some((true, false, Source::Verified)));
    assert_eq!(settled(FAULTS[1].edits), Some((false, false, Source::Verified)));
    // Nor does a shader that is not compiled keep the GPU from being used.
    let broken = [edit("MatMul { format: Q4_0, tile: Cooperative", "coopMultiplyAdd(", "multiplyAdd(")];
    assert_eq!(settled(&broken), Some((true, true, Source::Verified)));
}

#[test]
fn a_broken_shader_fails_verify_by_the_name_of_its_operation() {
    for (variant, Fault { name, arch, edits, class, .. }) in faults() {
        let Some(load) = gpu_with(variant, edits) else { return };
        let options =
            VerifyOptions { load, prompt: Prompt::Ids(PROMPT.to_vec()), depth: Depth::Quick, ..Default::default() };
        let report = verify_opened(model(arch, Format::Q4_0), &[], &options).unwrap();
        let Verdict::Fail { first } = &report.verdict else { panic!("{name}: passed") };
        println!("{name}: {first}");
        let found = report.operations.unwrap();
        let (index, _) = found.first_failure.clone().unwrap_or_else(|| panic!("{name}: {first}"));
        assert_eq!(found.classes[index].class.to_string(), *class, "{name}: {first}");
        assert!(first.starts_with(class), "{name}: {first}");
        // And the GPU is not trusted, for the same reason; but that wrong cooperative matrices are done without.
        let load = options.load.device(Device::Auto).verify(Verify::default());
        let model = Model::from_gguf(model(arch, Format::Q4_0), &load).unwrap();
        match &model.trust().verdicts[0].failure {
            Some(failure) => assert!(failure.starts_with(class), "{name}: {failure}"),
            None => assert!(model.trust().without_cooperative, "{name}: trusted"),
        }
    }
    for (arch, variant) in healthy() {
        let Some(load) = gpu_with(variant, &[]) else { return };
        let options = VerifyOptions { load, prompt: Prompt::Ids(PROMPT.to_vec()), ..Default::default() };
        let report = verify_opened(model(arch, Format::Q4_0), &[], &options).unwrap();
        assert_eq!(report.verdict, Verdict::Pass, "{arch}, {variant:?}: {report:#?}");
    }
}

/// Diagnoses what a GPU with the faults computes.
fn diagnosed(arch: &'static str, variant: Option<Variant>, edits: &[ShaderEdit]) -> Option<Diagnosis> {
    let options = gpu_with(variant, edits)?;
    let model = Model::from_gguf(model(arch, Format::Q4_0), &options).unwrap();
    let mut session = model.session(&options.session.ubatch(512)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.safetensors");
    let mut writer = TraceWriter::create(&path).unwrap();
    record(&mut session, &PROMPT, 2, &Selection::default(), &mut [&mut writer]).unwrap();
    let (tokens, prompt_tokens) = (Some(session.tokens().to_vec()), Some(PROMPT.len()));
    writer.finish(&Origin { tokens, prompt_tokens, ..Origin::default() }).unwrap();
    let trace = read(&path, &ReadOptions::default()).unwrap();
    Some(diagnose(model.gguf(), &trace).unwrap())
}

#[test]
fn a_broken_shader_is_named_by_diagnose() {
    for (variant, Fault { name, arch, edits, value, known, .. }) in faults() {
        let Some(report) = diagnosed(arch, variant, edits) else { return };
        let first = report.first_wrong.as_ref().map(ToString::to_string);
        let found: Vec<&str> = report.findings.iter().map(|finding| finding.fault.as_str()).collect();
        println!("{name}: {first:?}, {found:?}, {:?}", report.outcome);
        assert_eq!(first.as_deref(), Some(*value), "{name}");
        assert!(known.is_none_or(|known| found.contains(&known)), "{name}: {found:?}");
    }
    for (arch, variant) in healthy() {
        let Some(report) = diagnosed(arch, variant, &[]) else { return };
        assert_eq!(report.first_wrong, None, "{arch}, {variant:?}");
    }
}

#[test]
fn an_edit_that_fits_no_shader_is_told() {
    let Some(load) = gpu(&[edit("RmsNorm", "no such text", "")]) else { return };
    let options = VerifyOptions { load, prompt: Prompt::Ids(PROMPT.to_vec()), ..Default::default() };
    let error = verify_opened(model("llama", Format::Q4_0), &[], &options).unwrap_err().to_string();
    assert!(error.ends_with("RmsNorm: expected \"no such text\" in its source"), "{error}");
}
