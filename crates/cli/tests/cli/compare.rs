//! `candor compare`: what differs between two files, and what it costs.

use std::fs;

use candor_gguf::{Format, Gguf, Writer};
use candor_testing::Tiny;
use serde_json::Value;

use crate::program::candor;

/// A file like another with other tensors and keys.
fn changed(from: &Gguf, to: &str, change: impl Fn(&str, &mut Vec<u8>) -> bool) {
    let mut writer = Writer::new();
    from.metadata().iter().for_each(|(key, value)| writer.insert(key, value.clone()));
    writer.insert("general.name", "another");
    for tensor in from.tensors() {
        let mut data = from.data(tensor).to_vec();
        if change(&tensor.name, &mut data) {
            writer.tensor(&tensor.name, tensor.format, &tensor.shape, data).unwrap();
        }
    }
    writer.write_file(to).unwrap();
}

#[test]
fn what_differs_is_listed_and_the_dearest_tensor_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [a, b, text] = ["a.gguf", "b.gguf", "text"].map(place);
    fs::write(&a, Tiny::default().bytes()).unwrap();
    fs::write(&text, "the cat sat on a mat and saw a dog. ".repeat(60)).unwrap();
    let file = Gguf::open(&a).unwrap();
    // A tenth more in one matrix, a thousandth in another.
    changed(&file, &b, |name, data| {
        let factor = match name {
            "blk.1.ffn_down.weight" => 1.1,
            "blk.0.attn_v.weight" => 1.001,
            _ => return true,
        };
        let scaled = data.as_chunks().0.iter().flat_map(|&bytes| (f32::from_le_bytes(bytes) * factor).to_le_bytes());
        *data = scaled.collect();
        true
    });
    let same = candor(["compare", &a, &a]).text();
    let count = file.tensors().len();
    assert_eq!(same, format!("metadata: 0 keys differ\ntensors: 0 of {count} differ\n"));
    let lines = candor(["compare", &a, &b]).text();
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines[0], "metadata: 1 keys differ");
    assert!(lines[1].contains("general.name: ") && lines[1].ends_with(" | \"another\""), "{lines:?}");
    assert_eq!(lines[2], format!("tensors: 2 of {count} differ"));
    assert!(lines[4].starts_with("blk.1.ffn_down.weight  F32  F32") && lines[4].ends_with("10.000 %"), "{lines:?}");
    assert!(lines[5].starts_with("blk.0.attn_v.weight") && lines[5].ends_with("0.100 %"), "{lines:?}");
    let report =
        candor(["compare", &a, &b, "-f", &text, "--costs", "-c", "32", "--json", "-ctk", "f32", "-ctv", "f32"]).text();
    let report: Value = serde_json::from_str(&report).unwrap();
    let cost = |name: &str| {
        let tensors = report["tensors"].as_array().unwrap();
        tensors.iter().find(|tensor| tensor["name"] == name).unwrap()["cost"].as_f64()
    };
    let [dear, cheap] = ["blk.1.ffn_down.weight", "blk.0.attn_v.weight"].map(|name| cost(name).unwrap());
    assert_eq!(cost("output.weight"), None);
    let all = report["divergence"]["divergence"]["mean"]["value"].as_f64().unwrap();
    assert!(dear > 100.0 * cheap && cheap > 0.0 && (dear / all - 1.0).abs() < 0.3, "{dear} {cheap} {all}");
    // The cost is what `candor perplexity` measures of a file with that tensor alone.
    let alone = place("alone.gguf");
    let of_b = Gguf::open(&b).unwrap();
    changed(&file, &alone, |name, data| {
        if name == "blk.1.ffn_down.weight" {
            *data = of_b.data(of_b.tensor(name).unwrap()).to_vec();
        }
        true
    });
    let flags = ["-f", &text, "-c", "32", "--chunks", "4", "-ctk", "f32", "-ctv", "f32", "--json"];
    let measured =
        candor(["perplexity", &alone, "--kl-divergence", "--kl-divergence-base", &a].iter().chain(&flags)).text();
    let measured: Value = serde_json::from_str(&measured).unwrap();
    assert_eq!(measured["divergence"]["mean"]["value"].as_f64(), Some(dear));
    let printed = candor(["compare", &a, &b, "-f", &text, "--costs", "-c", "32"]).text();
    let first = printed.lines().nth(4).unwrap();
    assert!(first.starts_with("blk.1.ffn_down.weight"), "{printed}");
    assert!(printed.contains("\ndivergence of B from A: 0."), "{printed}");
}

#[test]
fn tensors_that_one_file_lacks_or_has_in_another_shape_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [a, b, c] = ["a.gguf", "b.gguf", "c.gguf"].map(place);
    fs::write(&a, Tiny { layers: 1, ..Tiny::default() }.bytes()).unwrap();
    fs::write(&b, Tiny { layers: 1, ffn: 64, ..Tiny::default() }.bytes()).unwrap();
    let text = candor(["compare", &a, &b]).text();
    let line = |text: &str, name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(line(&text, "blk.0.ffn_up.weight").contains("F32 [32, 48]  F32 [32, 64]"), "{text}");
    changed(&Gguf::open(&a).unwrap(), &c, |name, _| name != "output.weight");
    let text = candor(["compare", &a, &c]).text();
    assert!(line(&text, "output.weight").split_whitespace().nth(1) == Some(Format::F32.name()), "{text}");
    assert!(text.contains("tensors: 1 of "), "{text}");
    let error = candor(["compare", &a, "/nowhere.gguf"]).error();
    assert!(error.starts_with("error: /nowhere.gguf: no such file"), "{error}");
    let error = candor(["compare", &a, &b, "--costs"]).outcome();
    assert!(error.code == 2 && error.stderr.contains("--file"), "{}", error.stderr);
}
