//! Importance matrices of both formats.

use std::path::PathBuf;

use candor_convert::Importance;
use candor_gguf::{Format, Writer};

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("candor-importance-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).expect("a file");
    path
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// As llama-imatrix wrote them until 2025: names, calls, values; chunks and the text at the end.
fn older(values: &[f32]) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as i32).to_le_bytes(), text.as_bytes()].concat();
    let mut bytes = 1i32.to_le_bytes().to_vec();
    bytes.extend(text("blk.0.attn_q.weight"));
    bytes.extend(4i32.to_le_bytes());
    bytes.extend((values.len() as i32).to_le_bytes());
    bytes.extend(floats(values));
    bytes.extend(9i32.to_le_bytes());
    bytes.extend(text("wiki.txt"));
    bytes
}

fn newer(sums: &[f32], counts: &[f32]) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.insert("imatrix.datasets", vec!["wiki.txt"]);
    writer.insert("imatrix.chunk_count", 9u32);
    let shape = |values: &[f32], rows: usize| [(values.len() / rows) as u64, rows as u64];
    let rows = counts.len();
    writer.tensor("blk.0.w.in_sum2", Format::F32, &shape(sums, rows), floats(sums)).unwrap();
    writer.tensor("blk.0.w.counts", Format::F32, &shape(counts, rows), floats(counts)).unwrap();
    writer.to_bytes().unwrap().to_vec()
}

#[test]
fn both_formats_are_read() {
    let read = Importance::open(&file("old", &older(&[4.0, 8.0]))).unwrap();
    assert_eq!(read.entries["blk.0.attn_q.weight"], [1.0, 2.0]);
    assert_eq!((read.chunks, read.datasets), (9, vec!["wiki.txt".to_owned()]));
    // Of two experts the second saw nothing.
    let read = Importance::open(&file("new", &newer(&[4.0, 8.0, 3.0, 5.0], &[2.0, 0.0]))).unwrap();
    assert_eq!(read.entries["blk.0.w"], [2.0, 4.0, 1.0, 1.0]);
    assert_eq!((read.chunks, read.datasets), (9, vec!["wiki.txt".to_owned()]));
}

#[test]
fn what_is_no_importance_is_refused() {
    let refused = |name: &str, bytes: &[u8]| Importance::open(&file(name, bytes)).expect_err("refused").to_string();
    let message = refused("nan", &older(&[1.0, f32::NAN]));
    assert_eq!(message, "importance of blk.0.attn_q.weight: expected finite numbers, got NaN");
    let cut = &older(&[1.0, 2.0])[..40];
    assert!(refused("cut", cut).ends_with("it is no GGUF file and no importance matrix of 2024"));
    assert!(refused("empty", &Writer::new().to_bytes().unwrap()).ends_with("it holds no entries"));
}

#[test]
fn entries_are_chosen_by_parts_of_names() {
    let mut all = Importance::default();
    for name in ["blk.0.attn_q.weight", "blk.0.ffn_up.weight", "blk.1.attn_q.weight"] {
        all.entries.insert(name.to_owned(), vec![1.0]);
    }
    let kept = |included: &[&str], excluded: &[&str]| {
        let mut some = all.clone();
        let owned = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        some.restrict(&owned(included), &owned(excluded));
        some.entries.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(kept(&["attn_q"], &[]), ["blk.0.attn_q.weight", "blk.1.attn_q.weight"]);
    assert_eq!(kept(&[], &["blk.0"]), ["blk.1.attn_q.weight"]);
}
