//! Dumps of every format, read from the samples in `tests/dumps`.

use std::path::{Path, PathBuf};

use candor_inspect::{
    Evidence, Known, NameMap, ProjectionBias, Trace,
    import::{ImportError, Imported, ReadOptions, import},
};

fn dump(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dumps").join(name)
}

fn read(name: &str) -> Imported {
    import(&dump(name), &ReadOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn value<'a>(trace: &'a Trace, key: &str) -> &'a Evidence {
    trace.values.get(&key.parse().unwrap()).unwrap_or_else(|| panic!("no {key} in {:?}", trace.values.keys()))
}

/// Rows of 8 whose element (r, c) is r + c / 16.
fn grid(rows: usize) -> Vec<f32> {
    (0..rows * 8).map(|index| (index / 8) as f32 + (index % 8) as f32 / 16.0).collect()
}

fn keys(trace: &Trace) -> Vec<String> {
    trace.values.keys().map(ToString::to_string).collect()
}

#[test]
fn arrays_of_numpy() {
    for (file, key) in [("Qcur-0.npy", "Qcur-0"), ("l_out-1.npy", "l_out-1"), ("Kcur-0_3x8.bin", "Kcur-0")] {
        let imported = read(file);
        assert_eq!(keys(&imported.trace), [key]);
        assert_eq!(value(&imported.trace, key).dense(3, 8), Some(grid(3).as_slice()), "{file}");
    }
}

#[test]
fn an_archive_of_numpy() {
    let imported = read("values.npz");
    assert_eq!(keys(&imported.trace), ["attn_norm-0", "ffn_out-1"]);
    assert_eq!(imported.trace.origin.tokens, Some(vec![4, 5, 6]));
    assert_eq!(imported.unknown, ["something_else"]);
    assert_eq!(value(&imported.trace, "attn_norm-0").dense(3, 8), Some(grid(3).as_slice()));
    assert_eq!(value(&imported.trace, "ffn_out-1").dense(3, 8), Some(grid(3).as_slice()));
}

#[test]
fn a_map_names_the_rest() {
    let names = NameMap::parse(&std::fs::read_to_string(dump("map.txt")).unwrap()).unwrap();
    let options = ReadOptions { names, ..ReadOptions::default() };
    let imported = import(&dump("values.npz"), &options).unwrap();
    assert!(imported.unknown.is_empty());
    assert_eq!(value(&imported.trace, "result_norm").dense(3, 8), Some(grid(3).as_slice()));
    let log = import(&dump("lines.txt"), &options).unwrap();
    assert!(log.unknown.is_empty() && log.trace.values.contains_key(&"ffn_gate-1".parse().unwrap()));
}

#[test]
fn hooks_of_transformer_lens() {
    let imported = read("transformer_lens.safetensors");
    assert_eq!(
        keys(&imported.trace),
        ["Qcur-0", "Qcur.mul_mat-0", "ffn_inp-0", "inp_embd", "kq.scaled-0", "kq_soft_max-0", "kqv_out-0", "l_out-0"]
    );
    for key in ["Qcur-0", "Qcur.mul_mat-0", "ffn_inp-0", "inp_embd", "kqv_out-0", "l_out-0"] {
        assert_eq!(value(&imported.trace, key).dense(3, 8), Some(grid(3).as_slice()), "{key}");
    }
    let scores = [0., 1., 2., 9., 10., 11., 3., 4., 5., 12., 13., 14., 6., 7., 8., 15., 16., 17.];
    assert_eq!(value(&imported.trace, "kq_soft_max-0").dense(3, 6), Some(&scores[..]));
    assert!(imported.unknown.is_empty(), "{:?}", imported.unknown);
}

#[test]
fn hooks_of_transformers() {
    let imported = read("hooks.safetensors");
    let expected = [
        "Kcur.mul_mat-0",
        "Kcur.mul_mat-1",
        "Qcur.mul_mat-0",
        "Qcur.mul_mat-1",
        "Vcur-0",
        "Vcur-1",
        "attn_norm-0",
        "attn_norm-1",
        "attn_out-0",
        "attn_out-1",
        "ffn_gate-0",
        "ffn_gate-1",
        "ffn_norm-0",
        "ffn_norm-1",
        "ffn_out-0",
        "ffn_out-1",
        "ffn_swiglu-0",
        "ffn_swiglu-1",
        "ffn_up-0",
        "ffn_up-1",
        "inp_embd",
        "kqv_out-0",
        "kqv_out-1",
        "l_out-0",
        "l_out-1",
        "result_norm",
        "result_output",
    ];
    assert_eq!(keys(&imported.trace), expected);
    assert_eq!(imported.unknown, [""; 0]);
    for (key, width) in [("Qcur.mul_mat-1", 16), ("Kcur.mul_mat-1", 8), ("ffn_swiglu-0", 24), ("result_output", 24)] {
        assert!(value(&imported.trace, key).dense(3, width).is_some(), "{key}");
    }
    // The layer's output is its residual plus its feed-forward block, so the names are the right ones.
    let states = read("hidden_states.safetensors").trace;
    assert_eq!(states.origin.tokens, Some(vec![1, 5, 9]));
    for key in ["inp_embd", "l_out-0", "result_norm", "result_output"] {
        assert_eq!(value(&states, key), value(&imported.trace, key), "{key}");
    }
    let bias = ReadOptions { bias: ProjectionBias::Included, ..ReadOptions::default() };
    let biased = import(&dump("hooks.safetensors"), &bias).unwrap().trace;
    assert_eq!(value(&biased, "Qcur.add-0"), value(&imported.trace, "Qcur.mul_mat-0"));
}

#[test]
fn the_tree_of_transformers_debugger() {
    let tree = "debugger/LlamaForCausalLM_debug_tree_FULL_TENSORS.json";
    let (printed, full) = (read(tree), read("hooks.safetensors").trace);
    assert_eq!(printed.trace.origin.tokens, Some(vec![1, 5, 9]));
    for key in [
        "inp_embd",
        "attn_norm-0",
        "Qcur.mul_mat-0",
        "Kcur.mul_mat-0",
        "Vcur-0",
        "kqv_out-0",
        "attn_out-0",
        "ffn_inp-0",
        "ffn_norm-0",
        "ffn_gate-0",
        "ffn_silu-0",
        "ffn_up-0",
        "ffn_swiglu-0",
        "ffn_out-0",
        "result_norm",
        "result_output",
    ] {
        let evidence = value(&printed.trace, key);
        let Known::Some(cells) = &evidence.known else { panic!("{key} is printed") };
        assert_eq!(evidence.rows, Some(vec![0, 1, 2]));
        assert!(cells.len() == 3 * evidence.width && evidence.precision > 0.0 && evidence.precision < 1e-2, "{key}");
        // The tree is of a model cut after one layer: what comes after is another value.
        let Some(whole) = full.values.get(&key.parse().unwrap()).filter(|_| !key.starts_with("result")) else {
            continue;
        };
        agree(key, evidence, whole.dense(3, evidence.width).unwrap(), evidence.precision);
    }
    let folder = import(&dump("debugger"), &ReadOptions::default()).unwrap();
    assert_eq!(folder.trace, printed.trace);
    let summary = import(&dump("debugger/LlamaForCausalLM_debug_tree_SUMMARY.json"), &ReadOptions::default());
    assert!(matches!(summary, Err(ImportError::Statistics { .. })), "{summary:?}");
}

/// Every printed element lies within `slack` of the whole value's.
fn agree(key: &str, printed: &Evidence, whole: &[f32], slack: f64) {
    let Known::Some(cells) = &printed.known else { panic!("{key} is whole") };
    for &(row, column, value) in cells {
        let exact = whole[row as usize * printed.width + column as usize];
        assert!((f64::from(exact) - f64::from(value)).abs() <= slack * 1.01, "{key} {row} {column}: {value}, {exact}");
    }
}

#[test]
fn the_text_of_eval_callback() {
    let truth = read("truth.safetensors").trace;
    let layer = [
        "Kcur-0",
        "Kcur.mul_mat-0",
        "Qcur-0",
        "Qcur.mul_mat-0",
        "Vcur-0",
        "attn_norm-0",
        "attn_out-0",
        "ffn_gate-0",
        "ffn_inp-0",
        "ffn_norm-0",
        "ffn_out-0",
        "ffn_swiglu-0",
        "ffn_up-0",
        "inp_embd",
        "kq-0",
        "kq_soft_max-0",
        "kqv_out-0",
        "l_out-0",
        "result_norm",
        "result_output",
    ];
    let old =
        ["Qcur-0", "Qcur.mul_mat-0", "Vcur-0", "attn_norm-0", "kq-0", "kq_soft_max-0", "l_out-0", "result_output"];
    assert_eq!(keys(&truth), layer);
    for (file, expected) in [("eval_callback_new.txt", &layer[..]), ("eval_callback_old.txt", &old[..])] {
        let imported = read(file);
        assert_eq!(keys(&imported.trace), expected, "{file}");
        assert_eq!(imported.unknown, [""; 0], "{file}");
        assert_eq!(imported.trace.origin.prompt_tokens, Some(5));
        for key in expected {
            let (evidence, whole) = (value(&imported.trace, key), value(&truth, key));
            assert_eq!((evidence.width, &evidence.rows), (whole.width, &whole.rows), "{file} {key}");
            assert_eq!(evidence.precision, 5e-5, "{file} {key}");
            let Known::All(whole) = &whole.known else { panic!("{key} is printed") };
            agree(key, evidence, whole, 5e-5);
            let Known::Some(cells) = &evidence.known else { panic!("{key} is whole") };
            assert!(cells.len() >= 7 * 3, "{file} {key}: {}", cells.len());
            let sum: f64 = whole.iter().map(|&value| f64::from(value)).sum();
            match evidence.sum {
                Some(found) => assert!((found - sum).abs() < 1e-3 * sum.abs().max(1.0), "{file} {key}: {found} {sum}"),
                None => assert!(file.contains("old") || *key == "kq-0", "{file} {key} has no sum"),
            }
        }
    }
}

#[test]
fn values_pasted_into_an_issue() {
    let imported = read("lines.txt");
    let expected = ["Kcur-0", "Qcur-0", "Qcur.mul_mat-0", "attn_norm-0", "ffn_out-1", "inp_embd", "result_output"];
    assert_eq!(keys(&imported.trace), expected);
    assert_eq!(imported.unknown, ["blk.1 mystery_value"]);
    for (key, rows, precision, cells) in [
        ("Qcur-0", Some(vec![0]), 5e-5, vec![(0, 0, 0.123), (0, 1, -0.456), (0, 2, 0.789), (0, 3, -0.012)]),
        ("Qcur.mul_mat-0", Some(vec![0]), 5e-4, vec![(0, 0, 0.123), (0, 1, -0.456), (0, 2, 0.789), (0, 3, -0.012)]),
        (
            "Kcur-0",
            Some(vec![0, 2]),
            5e-5,
            vec![(0, 0, 1.5), (0, 1, -2.5), (0, 2, 3.5), (1, 0, 0.5), (1, 1, -1.5), (1, 2, 2.5)],
        ),
        (
            "ffn_out-1",
            Some(vec![0, 1]),
            5e-6,
            vec![(0, 0, 0.1), (0, 1, -0.2), (0, 2, 0.3), (1, 0, 0.4), (1, 1, -0.5), (1, 2, 0.6)],
        ),
        ("result_output", None, 5e-3, vec![(-1, 0, 1.25), (-1, 1, -2.5), (-1, 2, 3.75), (-1, 3, 0.5)]),
    ] {
        let evidence = value(&imported.trace, key);
        assert_eq!(evidence, &Evidence { width: 0, rows, known: Known::Some(cells), sum: None, precision }, "{key}");
    }
}

#[test]
fn raw_values() {
    let logits = read("llamacpp-tiny.bin").trace;
    let evidence = value(&logits, "result_output");
    assert_eq!((evidence.width, &evidence.rows), (16, &None));
    assert!(matches!(&evidence.known, Known::Some(cells) if cells[15] == (-1, 15, 15.0 / 16.0)));

    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("ffn_up-2.bin");
    std::fs::copy(dump("Kcur-0_3x8.bin"), &plain).unwrap();
    let unknown = import(&plain, &ReadOptions::default());
    assert!(matches!(unknown, Err(ImportError::Width { values: 24, .. })), "{unknown:?}");
    let wide = |width| import(&plain, &ReadOptions { width: Some(width), ..ReadOptions::default() });
    assert_eq!(value(&wide(8).unwrap().trace, "ffn_up-2").dense(3, 8), Some(grid(3).as_slice()));
    assert!(matches!(wide(7), Err(ImportError::Malformed { .. })));
    assert!(matches!(wide(0), Err(ImportError::Malformed { .. })));
}

#[test]
fn a_folder_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["Qcur-0.npy", "l_out-1.npy", "Kcur-0_3x8.bin", "llamacpp-tiny-tokens.bin", "llamacpp-tiny.bin"];
    for file in files {
        std::fs::copy(dump(file), folder.path().join(file)).unwrap();
    }
    std::fs::write(folder.path().join("llamacpp-tiny.txt"), "0: 0\n1: 0.0625\n").unwrap();
    std::fs::write(folder.path().join("notes.md"), "not a dump").unwrap();
    std::fs::write(folder.path().join("notes.txt"), "Made on day 3.").unwrap();
    std::fs::write(folder.path().join("config.json"), "{\"q\": [0.5, 0.25]}").unwrap();
    let imported = import(folder.path(), &ReadOptions::default()).unwrap();
    assert_eq!(keys(&imported.trace), ["Kcur-0", "Qcur-0", "l_out-1", "result_output"]);
    assert_eq!(imported.unknown, [""; 0]);
    assert_eq!(imported.trace.origin.tokens, Some(vec![1, 5, 9]));
    assert_eq!(value(&imported.trace, "Kcur-0").dense(3, 8), Some(grid(3).as_slice()));

    std::fs::copy(dump("truth.safetensors"), folder.path().join("truth.safetensors")).unwrap();
    let with_trace = import(folder.path(), &ReadOptions::default()).unwrap();
    assert_eq!(value(&with_trace.trace, "kq-0"), value(&read("truth.safetensors").trace, "kq-0"));
    let twice = ["result_output", "Kcur-0", "Qcur-0"].map(|key| format!("{key}: {key} is already there"));
    assert_eq!(with_trace.skipped, twice);

    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(import(empty.path(), &ReadOptions::default()), Err(ImportError::Empty { .. })));
}

#[test]
fn a_debugger_tree_with_its_values_in_files() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = grid(3).iter().flat_map(|value| value.to_le_bytes()).collect();
    let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![1, 3, 8], &bytes).unwrap();
    let written = safetensors::serialize([("data", view)], None).unwrap();
    std::fs::write(folder.path().join("q.safetensors"), &written).unwrap();
    std::fs::write(folder.path().parent().unwrap().join("outside.safetensors"), &written).unwrap();
    let tensor =
        |file: &str| serde_json::json!({"shape": "torch.Size([1, 3, 8])", "dtype": "torch.float32", "value": file});
    let tree = serde_json::json!({"module_path": "LlamaForCausalLM", "children": [
        {"module_path": "LlamaForCausalLM.model.layers.0.self_attn.q_proj", "outputs": tensor("./q.safetensors")},
        {"module_path": "LlamaForCausalLM.model.layers.0.mlp", "outputs": tensor("../outside.safetensors")},
        {"module_path": "LlamaForCausalLM.model.layers.1.mlp", "outputs": tensor("./gone.safetensors")},
    ]});
    let path = folder.path().join("x_FULL_TENSORS.json");
    std::fs::write(&path, tree.to_string()).unwrap();
    let imported = import(&path, &ReadOptions::default()).unwrap();
    std::fs::remove_file(folder.path().parent().unwrap().join("outside.safetensors")).unwrap();
    assert_eq!(keys(&imported.trace), ["Qcur.mul_mat-0"]);
    assert_eq!(value(&imported.trace, "Qcur.mul_mat-0").dense(3, 8), Some(grid(3).as_slice()));
}
