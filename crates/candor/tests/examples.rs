//! The examples do what they say: their functions are called here, and the programs that need no file are run where they were
//! built. Those that need a model of some kind are skipped where there are no fixtures.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use candor::{Adapter, Cancel, GenerateOptions, Gguf, LoadOptions, Model, Sampling, Session, StopReason};
use candor_testing::{Lora, Tiny, argmax, fixtures, ids, json};

#[path = "../examples/batch.rs"]
#[allow(dead_code)]
mod batch;
#[path = "../examples/chat.rs"]
#[allow(dead_code)]
mod chat;
#[path = "../examples/embed.rs"]
#[allow(dead_code)]
mod embed;
#[path = "../examples/lora.rs"]
#[allow(dead_code)]
mod lora;
#[path = "../examples/mask.rs"]
#[allow(dead_code)]
mod mask;
#[path = "../examples/next_token.rs"]
#[allow(dead_code)]
mod next_token;
#[path = "../examples/observe.rs"]
#[allow(dead_code)]
mod observe;
#[path = "../examples/own_sampler.rs"]
#[allow(dead_code)]
mod own_sampler;
#[path = "../examples/rerank.rs"]
#[allow(dead_code)]
mod rerank;
#[path = "../examples/save.rs"]
#[allow(dead_code)]
mod save;
#[path = "../examples/speculate.rs"]
#[allow(dead_code)]
mod speculate;
#[path = "../examples/stream.rs"]
#[allow(dead_code)]
mod stream;
#[path = "../examples/t5.rs"]
#[allow(dead_code)]
mod t5;

fn builtin() -> Model {
    Model::builtin(&Default::default()).unwrap()
}

fn open(path: impl AsRef<Path>) -> Model {
    Model::open(path, &Default::default()).unwrap()
}

fn story(fixtures: &Path, format: &str) -> PathBuf {
    fixtures.join(format!("models/stories260K-{format}.gguf"))
}

fn greedy(max_tokens: usize) -> GenerateOptions {
    GenerateOptions::default().sampling(Sampling::greedy()).max_tokens(max_tokens)
}

/// What a fresh session makes of a prompt.
fn alone(session: &mut Session, prompt: &[u32], options: GenerateOptions) -> String {
    session.generate(prompt, options).unwrap().map(|piece| piece.unwrap().text).collect()
}

fn temporary(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

#[test]
fn chat_remembers_the_conversation() {
    let model = builtin();
    let mut session = model.session(&Default::default()).unwrap();
    let (mut messages, mut out) = (Vec::new(), Vec::new());
    for line in ["Hello, how are you?", "Tell me a story."] {
        chat::say(&mut session, &mut messages, line, greedy(30), &mut out).unwrap();
    }
    let texts: Vec<String> = messages.iter().map(|message| message.0["content"].as_str().unwrap().to_owned()).collect();
    assert_eq!(texts.len(), 4);
    assert!(!texts[1].is_empty() && !texts[3].is_empty(), "{texts:?}");
    assert_eq!(String::from_utf8(out).unwrap(), format!("{}\n{}\n", texts[1], texts[3]));
    let prompt = model.encode_chat(&messages[..3]).unwrap();
    assert_eq!(alone(&mut model.session(&Default::default()).unwrap(), &prompt, greedy(30)), texts[3]);
}

#[test]
fn stream_ends_when_it_is_cancelled() {
    let mut session = builtin().session(&Default::default()).unwrap();
    let (cancel, mut out) = (Cancel::new(), Vec::new());
    let why = stream::stream(&mut session, "Once upon a time", &cancel, &mut out).unwrap();
    assert!(why.is_some_and(|why| why != StopReason::Cancelled) && !out.is_empty(), "{why:?}");
    cancel.cancel();
    let why = stream::stream(&mut session, "Once upon a time", &cancel, &mut out).unwrap();
    assert_eq!(why, Some(StopReason::Cancelled));
}

#[test]
fn a_batch_answers_as_each_alone() {
    let model = builtin();
    let questions = ["Hello, how are you?", "What color is the sky?"];
    let together = batch::answer(&model, &questions).unwrap();
    let alone = questions.map(|question| batch::answer(&model, &[question]).unwrap().remove(0));
    assert!(alone.iter().all(|answer| !answer.is_empty()), "{alone:?}");
    assert_eq!(together, alone);
}

#[test]
fn a_text_is_like_itself() {
    let mut writer = Tiny::default().writer();
    writer.insert("llama.pooling_type", 1u32);
    let model = Model::from_gguf(Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap(), &Default::default()).unwrap();
    let texts = ["the cat", "a ship", "the cat"].map(String::from);
    let alike = embed::alike(&model, &texts).unwrap();
    assert!((alike[0][2] - 1.0).abs() < 1e-5 && alike[0][1] < 0.9999, "{alike:?}");
    assert_eq!(alike[0][1], alike[1][0]);
}

#[test]
fn every_layer_is_observed() {
    let model = builtin();
    let sizes = observe::sizes(&model, "Hello").unwrap();
    let layers: Vec<usize> = sizes.iter().map(|(layer, _)| *layer).collect();
    assert_eq!(layers, (0..model.config().layers).collect::<Vec<_>>());
    assert!(sizes.iter().all(|(_, size)| size.is_finite() && *size > 0.0), "{sizes:?}");
}

#[test]
fn an_own_sampler_tells_the_same_story_again() {
    let model = builtin();
    let told = |random| own_sampler::story(&model, own_sampler::Eta { epsilon: 0.002, random }).unwrap();
    let stories = [1, 1, 2].map(told);
    assert!(stories[0] == stories[1] && stories[0] != stories[2] && stories[0].len() > 40, "{stories:?}");
}

#[test]
fn a_masked_letter_does_not_occur() {
    let model = builtin();
    assert!(mask::without(&model, "Tell me a story.", '#').unwrap().contains('e'));
    for letter in ['e', 'w'] {
        let answer = mask::without(&model, "Tell me a story.", letter).unwrap();
        assert!(!answer.to_lowercase().contains(letter), "{letter}: {answer}");
    }
}

#[test]
fn an_adapter_changes_the_text_by_its_scale() {
    let Some(fixtures) = fixtures() else { return };
    let path = story(&fixtures, "f32");
    let lora =
        Lora { rank: 4, alpha: 64.0, seed: 7 }.gguf(&Gguf::open(&path).unwrap(), |name| name != "token_embd.weight");
    let adapter = Adapter::from_gguf("random", lora).unwrap();
    let model = Model::open(&path, &LoadOptions::default().adapters(vec![adapter])).unwrap();
    let [off, on] = [0.0, 1.0].map(|scale| lora::at(&model, "Once upon a time", scale).unwrap());
    let plain = open(&path);
    let prompt = plain.encode_prompt("Once upon a time");
    assert_eq!(off, alone(&mut plain.session(&Default::default()).unwrap(), &prompt, greedy(30)));
    assert_ne!(on, off);
}

#[test]
fn a_saved_session_is_not_computed_again() {
    let (model, file) = (builtin(), temporary("session.bin"));
    let _ = std::fs::remove_file(&file);
    let (answer, computed) = save::answer(&model, &file, "Tell me a story.").unwrap();
    assert!(computed > 1 && !answer.is_empty());
    let again = save::answer(&model, &file, "Tell me a story.").unwrap();
    assert_eq!(again, (answer, 1), "the last token's logits are needed");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn t5_answers_as_transformers_does() {
    let Some(fixtures) = fixtures() else { return };
    let folder = fixtures.join("arch/t5-gated");
    let record = json(&folder.join("tokens.json"));
    let model = open(folder.join("model.gguf"));
    assert!(model.is_encoder_decoder());
    let text = ids(&record["encoder_tokens"]);
    let mut session = model.session(&Default::default()).unwrap();
    session.read_text(&text).unwrap();
    session.evaluate(&[model.config().start.unwrap()]).unwrap();
    let mut tokens = vec![argmax(session.logits())];
    assert_eq!(tokens[0], ids(&record["argmax_hf"])[0]);
    while tokens.len() < 8 {
        session.decode(tokens[tokens.len() - 1]).unwrap();
        tokens.push(argmax(session.logits()));
    }
    let (answer, expected) = (t5::answer(&model, &text).unwrap(), model.tokenizer().decode(&tokens));
    // The eighth token may end within a character.
    let expected = expected.trim_start().trim_end_matches('\u{fffd}');
    assert!(!expected.is_empty() && answer.starts_with(expected), "{answer:?} {expected:?}");
}

#[test]
fn a_reranker_puts_the_best_first() {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
    let pairs = json(&goldens.join("cross-encoder.json"))["pairs"].as_array().unwrap().clone();
    let query = pairs[0]["query"].as_str().unwrap();
    let mut expected: Vec<(String, f64)> = (pairs.iter().filter(|pair| pair["query"] == query))
        .map(|pair| (pair["document"].as_str().unwrap().to_owned(), pair["scores"][0].as_f64().unwrap()))
        .collect();
    let documents: Vec<String> = expected.iter().map(|(document, _)| document.clone()).collect();
    expected.sort_by(|a, b| b.1.total_cmp(&a.1));
    let ranked = rerank::rank(&open(goldens.join("cross-encoder.gguf")), query, &documents).unwrap();
    assert!(ranked.len() > 2);
    for ((got, score), (want, golden)) in ranked.iter().zip(&expected) {
        assert!(got == want && (f64::from(*score) - golden).abs() < 1e-5, "{ranked:?} {expected:?}");
    }
}

#[test]
fn guesses_change_no_word() {
    let Some(fixtures) = fixtures() else { return };
    let (model, draft) = (open(story(&fixtures, "f32")), open(story(&fixtures, "Q4_0")));
    let (plain, _) = speculate::tell(&model, None, "Once upon a time").unwrap();
    let (told, timings) = speculate::tell(&model, Some(&draft), "Once upon a time").unwrap();
    assert_eq!(told, plain);
    assert!(timings.accepted > 0, "{timings:?}");
}

#[test]
fn the_likeliest_tokens_come_in_order() {
    let model = builtin();
    let tokens = next_token::likeliest(&model, "Once upon a").unwrap();
    assert_eq!(tokens.len(), 10);
    assert!(tokens.is_sorted_by(|a, b| a.1 >= b.1), "{tokens:?}");
    assert!(tokens[0].0.contains("time"), "{tokens:?}");
}

/// `cargo test` builds the examples beside the tests; a single test's build leaves them out.
#[test]
fn programs_run() {
    let folder = std::env::current_exe().unwrap().parent().unwrap().with_file_name("examples");
    for (name, input) in [("chat", "Hello!\n"), ("batch", ""), ("own_sampler", ""), ("mask", "")] {
        let path = folder.join(name).with_extension(std::env::consts::EXE_EXTENSION);
        if !path.exists() {
            let _ = writeln!(std::io::stderr(), "skipped: {name} is not built");
            continue;
        }
        let mut command = Command::new(path);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stdout.len() > 20, "{name}: {output:?}");
    }
}
