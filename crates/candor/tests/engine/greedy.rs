//! Greedy text of trained models against llama.cpp's, token by token.

use std::path::Path;

use candor::{Device, GenerateOptions, KvFormat, LoadOptions, Model, Sampling, SessionOptions};
use candor_testing::{argmax, fixtures, ids, json, rms_difference};

fn exact_cache() -> SessionOptions {
    SessionOptions::default().keys(KvFormat::F32).values(KvFormat::F32)
}

/// How greedy text goes with llama.cpp's of the same file.
pub struct Greedy {
    /// The fixture's name.
    pub name: String,
    /// Tokens until the texts part; `None` if they do not.
    pub parted: Option<usize>,
    /// The first step that rounding decides, and llama.cpp's margin there; `None` if it decides no step.
    pub near: Option<(usize, f64)>,
    /// Tokens of llama.cpp's text.
    pub count: usize,
}

/// The greedy text of every trained model. Where the logits of a step that is not near differ in their greatest, it fails.
pub fn texts(fixtures: &Path) -> Vec<Greedy> {
    let mut files: Vec<_> = std::fs::read_dir(fixtures.join("models")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 19, "{files:?}");
    files.iter().map(|file| text(fixtures, file)).collect()
}

fn text(fixtures: &Path, file: &Path) -> Greedy {
    let name = file.file_stem().unwrap().to_string_lossy().into_owned();
    let record = json(&fixtures.join(format!("expected/llamacpp-greedy.{name}.json")));
    let (prompt, greedy) = (ids(&record["prompt_ids"]), ids(&record["greedy_ids"]));
    let margins: Vec<f64> = record["margins"].as_array().unwrap().iter().map(|m| m.as_f64().unwrap()).collect();

    let load = |device| Model::open(file, &LoadOptions::default().device(device)).unwrap();
    let (cpu, reference) = (load(Device::Cpu), load(Device::Reference));
    assert_eq!(cpu.encode_prompt(record["prompt"].as_str().unwrap()), prompt, "{name}: prompt ids");

    let mut session = cpu.session(&exact_cache()).unwrap();
    let sampling = Sampling::default().temperature(0.0);
    let options = GenerateOptions::default().sampling(sampling).max_tokens(greedy.len());
    let generated: Vec<u32> =
        session.generate(&prompt, options).unwrap().filter_map(|piece| piece.unwrap().token).collect();
    let parted = generated.iter().zip(&greedy).position(|(a, b)| a != b);

    if is_unquantized(&name) {
        assert_eq!(generated.len(), greedy.len(), "{name}");
        return Greedy { name, parted, near: None, count: greedy.len() };
    }
    // A step whose margin is within the noise of 8-bit activations may go either way, and what follows with it. The prompt is
    // read and the text decoded, as in `generate`: each has its own rounding.
    let rows = |model: &Model| {
        let mut session = model.session(&exact_cache()).unwrap();
        session.evaluate(&prompt).unwrap();
        let mut rows = vec![session.logits().to_vec()];
        for &token in &greedy[..greedy.len() - 1] {
            session.decode(token).unwrap();
            rows.push(session.logits().to_vec());
        }
        rows
    };
    let (cpu, reference) = (rows(&cpu), rows(&reference));
    let near = (0..greedy.len()).find(|&step| margins[step] < 4.0 * rms_difference(&cpu[step], &reference[step]));
    for step in 0..near.unwrap_or(greedy.len()) {
        assert_eq!(argmax(&cpu[step]), greedy[step], "{name}: step {step}");
    }
    Greedy { name, parted, near: near.map(|step| (step, margins[step])), count: greedy.len() }
}

/// Whether a model's weights are floats.
pub fn is_unquantized(name: &str) -> bool {
    ["f32", "f16", "bf16", "F16"].iter().any(|format| name.ends_with(format))
}

#[test]
fn greedy_text_equals_llama_cpp() {
    let Some(fixtures) = fixtures() else { return };
    for Greedy { name, parted, near, count } in texts(&fixtures) {
        let decided = near.map_or(count, |(step, _)| step);
        assert!(parted.is_none_or(|step| step >= decided), "{name}: parted at {parted:?}, decided up to {decided}");
        match near {
            Some((step, margin)) => println!("{name:32} {step} tokens, then a margin of {margin} within the noise"),
            None => println!("{name:32} all {count} tokens"),
        }
    }
}
