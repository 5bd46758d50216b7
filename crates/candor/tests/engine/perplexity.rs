//! Perplexity of trained models against llama-perplexity's.

use candor::{LoadOptions, Model, SessionOptions, perplexity};
use candor_testing::fixtures;

/// Compares the models that `chosen` picks. One thread each: the tests run side by side.
fn compare(chosen: impl Fn(&str) -> bool) {
    let Some(fixtures) = fixtures() else { return };
    let table = std::fs::read_to_string(fixtures.join("expected/llamacpp-ppl.tsv")).unwrap();
    let mut failures = Vec::new();
    for line in table.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, text, "c256", estimate] = fields[..] else { panic!("unexpected line {line:?}") };
        if !chosen(name) {
            continue;
        }
        let path = fixtures.join(format!("models/{name}.gguf"));
        if !path.exists() {
            println!("{name}: skipped, the table has it but fixtures/models does not");
            continue;
        }
        let expected: f64 = estimate.split("PPL = ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        let model = Model::open(path, &LoadOptions::default().threads(1)).unwrap();
        let text = std::fs::read_to_string(fixtures.join(format!("text/{text}.txt"))).unwrap();
        let mut session = model.session(&SessionOptions::default().context(256)).unwrap();
        let got = perplexity(&mut session, &model.encode_prompt(&text), |_, _| ()).unwrap().value;
        let bound = if name.contains("Q2_K") || name.contains("Q3_K") { 0.01 } else { 0.005 };
        let off = got / expected - 1.0;
        println!("{name:32} {:6} bytes: {got:9.4}, llama.cpp {expected:9.4} ({:+.3} %)", text.len(), 100.0 * off);
        if off.abs() > bound {
            failures.push(format!("{line}: got {got}"));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn small_models_have_the_perplexity_of_llama_cpp() {
    compare(|name| !name.contains("wide256"));
}

#[test]
fn wide_k_quants_have_the_perplexity_of_llama_cpp() {
    compare(|name| name.contains("wide256") && name.contains('K'));
}

#[test]
fn other_wide_models_have_the_perplexity_of_llama_cpp() {
    compare(|name| name.contains("wide256") && !name.contains('K'));
}
