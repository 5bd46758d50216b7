//! Prepares the test of the package: what its models are to say, computed here. `tools/browser-test/run.sh` builds the package
//! first, and opens the page after. A test, so that it shares the build of all others.
#![cfg(not(target_arch = "wasm32"))]

use std::{
    error::Error,
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

use candor::{
    Activations, Adapter, Device, EmbedOptions, GenerateOptions, LoadOptions, Logits, Message, Model, Observed,
    Observer, Pooling, Role, Sampling, Session,
};
use candor_testing::{Lora, fixtures};
use serde_json::{Map, Value, json};

/// Tokens that are decoded of the built-in model, and of each other.
const TOKENS: usize = 20;
const FEW: usize = 16;

/// Likeliest tokens that are named beside each that was chosen.
const TOP: usize = 3;

const PROMPT: &str = "Once upon a time";

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
    go_on(&mut model.session(&Default::default())?, prompt, options(count))
}

fn options(count: usize) -> GenerateOptions {
    GenerateOptions::default().sampling(Sampling::greedy()).max_tokens(count)
}

fn go_on(session: &mut Session, prompt: &[u32], options: GenerateOptions) -> Result<Vec<u32>, candor::Error> {
    session.generate(prompt, options)?.filter_map(|piece| piece.map(|piece| piece.token).transpose()).collect()
}

/// The logarithmic probability of each chosen token and of the likeliest, by logits that the sampler saw.
fn logprobs(model: &Model, prompt: &[u32], count: usize) -> Result<Vec<Value>, candor::Error> {
    let seen: Arc<Mutex<Vec<Vec<f32>>>> = Arc::default();
    let kept = seen.clone();
    let look = move |_: &[u32], logits: &mut [f32]| kept.lock().expect("a lock").push(logits.to_vec());
    let chosen = go_on(&mut model.session(&Default::default())?, prompt, options(count).processor(look))?;
    let seen = seen.lock().expect("a lock");
    let of = |(&id, logits): (&u32, &Vec<f32>)| {
        let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
        let logprob = |id: u32| (f64::from(logits[id as usize]).exp() / sum).ln();
        let mut order: Vec<u32> = (0..logits.len() as u32).collect();
        order.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]));
        let top: Vec<Value> = order[..TOP].iter().map(|&id| json!({ "id": id, "logprob": logprob(id) })).collect();
        json!({ "id": id, "token": model.tokenizer().decode(&[id]), "logprob": logprob(id), "top": top })
    };
    Ok(chosen.iter().zip(&*seen).map(of).collect())
}

/// Values of a pass that have some names.
struct Seen(Vec<Value>);

const NAMES: &[&str] = &["Qcur", "l_out", "result_norm"];

impl Observer for Seen {
    fn wants(&mut self, name: &'static str, _: Option<usize>) -> bool {
        NAMES.contains(&name)
    }

    fn value(&mut self, observed: &Observed<'_>) {
        let squares: f64 = observed.values.iter().map(|&value| f64::from(value).powi(2)).sum();
        self.0.push(json!({
            "name": observed.name,
            "layer": observed.layer,
            "shape": [observed.rows, observed.values.len() / observed.rows],
            "values": &observed.values[..4],
            "rms": (squares / observed.values.len() as f64).sqrt(),
        }));
    }
}

/// What the built-in model computes besides texts.
fn computed(tiny: &Path, folder: &Path, load: &LoadOptions) -> Result<Value, Box<dyn Error>> {
    let model = Model::open(tiny, load)?;
    let prompt = model.encode_prompt(PROMPT);
    let mut session = model.session(&Default::default())?;
    session.evaluate(&prompt)?;
    let logits = session.logits().to_vec();
    // Without rounding of what weights are multiplied with: how much that does is how exact another device can be.
    let exact = Model::open(tiny, &load.clone().activations(Activations::F32))?;
    let mut exact = exact.session(&Default::default())?;
    exact.evaluate(&prompt)?;

    let mut seen = Seen(Vec::new());
    session.truncate(0);
    session.observe(&prompt, Role::Prefill, Logits::Last, &mut seen)?;

    // A session in the middle of a text, and how that goes on.
    let mut session = model.session(&Default::default())?;
    let text = [prompt.clone(), go_on(&mut session, &prompt, options(FEW))?].concat();
    let mut file = fs::File::create(folder.join("session.bin"))?;
    session.save(&mut file)?;
    let saved = session.tokens().to_vec();
    let continuation = go_on(&mut session, &text, options(FEW))?;

    let lora = Lora { rank: 4, alpha: 8.0, seed: 11 }.writer(model.gguf(), |name| name.contains("attn_"));
    let lora = lora.to_bytes()?;
    fs::write(folder.join("lora.gguf"), &lora)?;
    let mut scales = Vec::new();
    for scale in [1.0f32, 0.5] {
        let adapter = Adapter::open(folder.join("lora.gguf"))?.scaled(scale);
        let model = Model::open(tiny, &load.clone().adapters(vec![adapter]))?;
        let mut session = model.session(&Default::default())?;
        session.evaluate(&prompt)?;
        scales.push(json!({ "scale": scale, "logits": session.logits(), "tokens": greedy(&model, &prompt, FEW)? }));
    }
    Ok(json!({
        "prompt": PROMPT,
        "logits": logits,
        "exact": exact.logits(),
        "logprobs": logprobs(&model, &prompt, FEW)?,
        "trace": { "names": NAMES, "values": seen.0 },
        "session": { "saved": saved, "text": text, "tokens": continuation },
        "lora": scales,
        "bytes": fs::metadata(tiny)?.len(),
        "width": model.config().dim,
        "layers": model.config().layers,
    }))
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
    let computed = computed(&tiny, &folder, &cpu)?;
    let model = Model::open(&tiny, &cpu)?;
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
    let expected = json!({ "builtin": builtin, "computed": computed, "models": models, "embedding": embedding });
    fs::write(folder.join("expected.json"), expected.to_string())?;
    Ok(())
}
