//! Perplexity of trained models against llama-perplexity's on the decoded weights, where it rounds nothing: `tools/goldens/perplexity.py`.
//! What it has on the files themselves is the yardstick.

use candor::{LoadOptions, Model, SessionOptions, perplexity};
use candor_testing::fixtures;

/// llama.cpp's on decoded weights: model, text, perplexity.
const EXACT: &str = include_str!("../goldens/perplexity.tsv");

/// Compares the models that `chosen` picks. One thread each: the tests run side by side.
fn compare(chosen: impl Fn(&str) -> bool) {
    let Some(fixtures) = fixtures() else { return };
    let table = std::fs::read_to_string(fixtures.join("expected/llamacpp-ppl.tsv")).unwrap();
    let mut failures = Vec::new();
    let (mut ours, mut theirs) = (0.0, 0.0);
    for line in EXACT.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, text, exact] = fields[..] else { panic!("unexpected line {line:?}") };
        if !chosen(name) {
            continue;
        }
        let of_file = table.lines().find_map(|line| line.strip_prefix(&format!("{name}\t{text}\tc256\t"))).unwrap();
        let llama: f64 = of_file.split("PPL = ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        let exact: f64 = exact.parse().unwrap();
        let model =
            Model::open(fixtures.join(format!("models/{name}.gguf")), &LoadOptions::default().threads(1)).unwrap();
        let text = std::fs::read_to_string(fixtures.join(format!("text/{text}.txt"))).unwrap();
        let mut session = model.session(&SessionOptions::default().context(256)).unwrap();
        let got = perplexity(&mut session, &model.encode_prompt(&text), |_, _| ()).unwrap().value;
        let bound = if name.contains("Q2_K") || name.contains("Q3_K") { 0.01 } else { 0.005 };
        let [off, llama] = [got, llama].map(|value| value / exact - 1.0);
        let percent = [off, llama].map(|off| format!("{:+.3} %", 100.0 * off));
        println!("{name:32} {:6} bytes: {exact:9.4}, ours {}, llama.cpp's {}", text.len(), percent[0], percent[1]);
        (ours, theirs) = (ours + off.abs(), theirs + llama.abs());
        if off.abs() > bound {
            failures.push(format!("{line}: got {got}"));
        }
    }
    println!("all together: ours {:.3} %, llama.cpp's {:.3} %", 100.0 * ours, 100.0 * theirs);
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(ours < 1.5 * theirs, "further from the exact result than llama.cpp: {ours} against {theirs}");
}

#[test]
fn small_models_have_the_perplexity_of_llama_cpp() {
    compare(|name| !name.contains("wide256"));
}

#[test]
fn wide_k_quants_have_the_perplexity_of_llama_cpp() {
    compare(|name| name.split_once("wide256-").is_some_and(|(_, format)| format.contains('K')));
}

#[test]
fn other_wide_models_have_the_perplexity_of_llama_cpp() {
    compare(|name| name.split_once("wide256-").is_some_and(|(_, format)| !format.contains('K')));
}
