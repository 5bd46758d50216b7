//! Our own trace file: written whole or step by step, and read back.

use std::path::Path;

use candor_inspect::{
    Evidence, Key, Known, Origin, Trace,
    file::{TraceWriter, WriteError, write},
    import::{ReadOptions, read},
};

fn key(text: &str) -> Key {
    text.parse().unwrap()
}

fn counted(from: usize, count: usize) -> Vec<f32> {
    (from..from + count).map(|value| value as f32).collect()
}

fn origin() -> Origin {
    Origin {
        engine: Some("candor 0.1.0".to_owned()),
        backend: Some("cpu".to_owned()),
        model: Some("tiny".to_owned()),
        model_sha256: Some("00ff".to_owned()),
        prompt: Some("a \"quoted\"\nprompt".to_owned()),
        tokens: Some(vec![1, 2, 3, 4]),
        prompt_tokens: Some(3),
        positions: Some(vec![0, 1, 2, 7]),
        text: Some(vec![5, 6, 7, 8, 9]),
        cache: None,
    }
}

fn evidence(rows: Vec<usize>, values: Vec<f32>) -> Evidence {
    let width = values.len() / rows.len();
    Evidence { width, rows: Some(rows), known: Known::All(values), sum: None, precision: 0.0 }
}

fn load(path: &Path) -> Trace {
    read(path, &ReadOptions::default()).unwrap()
}

/// A prompt of three tokens in two chunks and one decoded token, logits of the last of each.
#[test]
fn values_arrive_step_by_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.safetensors");
    let mut writer = TraceWriter::create(&path).unwrap();
    let spool = folder.path().join("out.safetensors.partial");
    assert!(spool.is_file() && !path.exists());
    let mut push = |name: &str, width, first, values: &[f32]| writer.push(&key(name), width, first, values).unwrap();
    push("l_out-0", 2, 0, &counted(0, 4));
    push("kq-0", 4, 0, &counted(0, 8));
    push("l_out-0", 2, 2, &counted(4, 2));
    push("kq-0", 6, 2, &counted(8, 6));
    push("result_output", 5, 2, &counted(0, 5));
    push("l_out-0", 2, 3, &counted(6, 2));
    push("kq-0", 8, 3, &counted(14, 8));
    push("result_output", 5, 3, &counted(5, 5));
    push("attn_out-1", 1, 3, &[9.0]);
    writer.finish(&origin()).unwrap();
    assert!(!spool.exists());

    let trace = load(&path);
    assert_eq!(trace.origin, origin());
    assert_eq!(trace.values[&key("l_out-0")], evidence(vec![0, 1, 2, 3], counted(0, 8)));
    assert_eq!(trace.values[&key("result_output")], evidence(vec![2, 3], counted(0, 10)));
    assert_eq!(trace.values[&key("attn_out-1")], evidence(vec![3], vec![9.0]));
    // Two heads; positions a row has not seen are 0.
    let scores = vec![
        0., 1., 0., 0., 2., 3., 0., 0., 4., 5., 0., 0., 6., 7., 0., 0., 8., 9., 10., 0., 11., 12., 13., 0., 14., 15.,
        16., 17., 18., 19., 20., 21.,
    ];
    assert_eq!(trace.values[&key("kq-0")], evidence(vec![0, 1, 2, 3], scores));
    let again = folder.path().join("again.safetensors");
    write(&trace, &again).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&again).unwrap());
    let bytes = std::fs::read(&path).unwrap();
    let raw = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(raw.tensor("kq-0").unwrap().shape(), [2, 4, 4]);
}

#[test]
fn an_unfinished_writer_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.safetensors");
    let mut writer = TraceWriter::create(&path).unwrap();
    writer.push(&key("l_out-0"), 2, 0, &counted(0, 4)).unwrap();
    drop(writer);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

    let mut writer = TraceWriter::create(&path).unwrap();
    writer.push(&key("l_out-0"), 2, 0, &counted(0, 4)).unwrap();
    writer.push(&key("l_out-0"), 2, 1, &counted(0, 2)).unwrap();
    let error = writer.finish(&Origin::default()).unwrap_err();
    assert_eq!(error.to_string(), "l_out-0: row 1 is there twice");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn pushes_must_fit() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = TraceWriter::create(&folder.path().join("x")).unwrap();
    writer.push(&key("l_out-0"), 2, 0, &counted(0, 4)).unwrap();
    writer.push(&key("kq-0"), 4, 0, &counted(0, 8)).unwrap();
    for (name, width, first, count, message) in [
        ("l_out-0", 2, 2, 3, "l_out-0: 3 values are no rows of 2"),
        ("l_out-0", 0, 2, 3, "l_out-0: 3 values are no rows of 0"),
        ("l_out-0", 3, 2, 3, "l_out-0: rows of 3, expected 2 as before"),
        ("kq-0", 4, 2, 4, "kq-0: 4 values are no rows of 4"),
        ("kq-0", 9, 2, 9, "kq-0: rows of 9, expected 4 as before"),
    ] {
        let error = writer.push(&key(name), width, first, &counted(0, count)).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn only_whole_values_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let whole = evidence(vec![0, 1], counted(0, 4));
    for broken in [
        Evidence { known: Known::Some(vec![(0, 0, 1.0)]), ..whole.clone() },
        Evidence { precision: 5e-5, ..whole.clone() },
        Evidence { rows: None, ..whole.clone() },
    ] {
        let values = [(key("l_out-0"), broken)].into();
        let error = write(&Trace { values, ..Trace::default() }, &path).unwrap_err();
        assert!(matches!(error, WriteError::Incomplete { .. }), "{error}");
    }
    let ragged = Evidence { width: 3, ..whole };
    let error = write(&Trace { values: [(key("l_out-0"), ragged)].into(), ..Trace::default() }, &path).unwrap_err();
    assert!(matches!(error, WriteError::Ragged { .. }), "{error}");
    assert!(!path.exists());
}

#[test]
fn values_that_are_no_numbers_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let values = [(key("l_out-0"), Evidence::all(2, vec![f32::NAN, f32::INFINITY]))].into();
    write(&Trace { values, ..Trace::default() }, &path).unwrap();
    let Known::All(values) = load(&path).values[&key("l_out-0")].known.clone() else { panic!("printed") };
    assert!(values[0].is_nan() && values[1].is_infinite());
}
