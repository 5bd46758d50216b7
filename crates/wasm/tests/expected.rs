//! Prepares the test of the package: what its models are to say, computed here. `tools/browser-test/run.sh` builds the package
//! first, and opens the page after. A test, so that it shares the build of all others.
#![cfg(not(target_arch = "wasm32"))]

use std::{error::Error, fs, path::Path};

use candor::{Device, EmbedOptions, GenerateOptions, LoadOptions, Message, Model, Pooling, Sampling};
use candor_testing::fixtures;
use serde_json::{Map, Value, json};

/// Tokens that are decoded of the built-in model, and of each other.
const TOKENS: usize = 20;
const FEW: usize = 16;

/// Models of the fixtures: layouts that have little in common.
const ARCHITECTURES: &[&str] = &[
    "llama",
    "qwen3",
    "gemma2",
    "gptneox",
    "phi3",
    "mixtral",
    "deepseek2-lite",
    "mamba2",
    "rwkv7",
    "lfm2",
    "falcon-h1",
    "t5-relu",
];
const ENCODER: &str = "bert";

fn greedy(model: &Model, prompt: &[u32], count: usize) -> Result<Vec<u32>, candor::Error> {
    let mut session = model.session(&Default::default())?;
    let options = GenerateOptions::default().sampling(Sampling::greedy()).max_tokens(count);
    session.generate(prompt, options)?.filter_map(|piece| piece.map(|piece| piece.token).transpose()).collect()
}

fn ids(tokens: &Value) -> Vec<u32> {
    tokens.as_array().into_iter().flatten().filter_map(|id| Some(id.as_u64()? as u32)).collect()
}

#[test]
#[ignore = "tools/browser-test/run.sh opens the page that reads it"]
fn expected_values_are_written() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
    fs::create_dir_all(&folder)?;
    let cpu = LoadOptions::default().device(Device::Cpu);
    let tiny = Path::new(env!("CARGO_MANIFEST_DIR")).join("../candor/assets/candor-tiny.gguf");
    let model = Model::open(tiny, &cpu)?;
    let message = "Tell me a story.";
    let chat = greedy(&model, &model.encode_chat(&[Message::user(message)])?, TOKENS)?;
    let text = model.tokenizer().decode(&chat);
    let builtin = json!({ "message": message, "tokens": chat, "text": text });

    let mut models = Map::new();
    let mut embedding = Value::Null;
    if let Some(fixtures) = fixtures() {
        let read = |name: &str| -> Result<(Model, Value), Box<dyn Error>> {
            let from = fixtures.join("arch").join(name);
            fs::copy(from.join("model.gguf"), folder.join(format!("{name}.gguf")))?;
            let tokens = serde_json::from_slice(&fs::read(from.join("tokens.json"))?)?;
            Ok((Model::open(from.join("model.gguf"), &cpu)?, tokens))
        };
        for name in ARCHITECTURES {
            let (model, tokens) = read(name)?;
            let prompt = ids(tokens.get("encoder_tokens").unwrap_or(&tokens["tokens"]));
            models.insert((*name).to_owned(), json!({ "prompt": prompt, "tokens": greedy(&model, &prompt, FEW)? }));
        }
        let (model, tokens) = read(ENCODER)?;
        let prompt = ids(&tokens["tokens"]);
        let mut embedder = model.embedder(&EmbedOptions::default().pooling(Pooling::Mean))?;
        let vector = embedder.embed(std::slice::from_ref(&prompt), |_| ())?.concat();
        embedding = json!({ "name": ENCODER, "prompt": prompt, "vector": vector });
    }
    let expected = json!({ "builtin": builtin, "models": models, "embedding": embedding });
    fs::write(folder.join("expected.json"), expected.to_string())?;
    Ok(())
}
