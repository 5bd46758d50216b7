//! What the page of the test calls. Each function is a check, and its result what was found.
#![cfg(target_arch = "wasm32")]

use candor::{
    Device, GenerateOptions, Generation, GpuOptions, LoadOptions, Logits, Message, Model, Observed, Observer,
    Placement, Role, Sampling, SessionOptions, Verify,
};
use candor_gpu::{AdapterChoice, ShaderEdit};
use wasm_bindgen::prelude::*;

/// The browser's one adapter, which may be an emulation. It is taken at its word: tools/browser-test verifies it.
fn on_gpu(edits: Vec<ShaderEdit>) -> LoadOptions {
    let gpu = GpuOptions::default().adapter(AdapterChoice::Index(0)).edits(edits);
    LoadOptions::default().device(Device::Gpu).gpu(gpu).verify(Verify::Off)
}

fn prompt(model: &Model) -> Result<Vec<u32>, candor::Error> {
    model.encode_chat(&[Message::user("Tell me a story.")])
}

fn greedy(count: usize) -> GenerateOptions {
    let sampling = Sampling::default().temperature(0.0);
    GenerateOptions::default().sampling(sampling).max_tokens(count)
}

async fn rest(mut generation: Generation<'_>) -> Result<Vec<u32>, candor::Error> {
    let mut tokens = Vec::new();
    while let Some(piece) = generation.next_async().await? {
        tokens.extend(piece.token);
    }
    Ok(tokens)
}

async fn decoded(model: &Model, count: usize) -> Result<Vec<u32>, candor::Error> {
    let mut session = model.session(&Default::default())?;
    rest(session.generate_async(&prompt(model)?, greedy(count)).await?).await
}

/// Tokens that the built-in model says on WebGPU.
#[wasm_bindgen]
pub async fn tokens(count: usize) -> Result<Vec<u32>, JsError> {
    Ok(decoded(&Model::builtin_async(&on_gpu(Vec::new())).await?, count).await?)
}

/// The same with the last layers on the processor: what crosses is awaited, too.
#[wasm_bindgen]
pub async fn divided(count: usize) -> Result<Vec<u32>, JsError> {
    let layers = Model::builtin(&LoadOptions::default())?.config().layers;
    let placement = Placement::Parts(vec![(Device::Gpu, 0..2), (Device::Cpu, 2..layers)]);
    let model = Model::builtin_async(&on_gpu(Vec::new()).placement(placement)).await?;
    Ok(decoded(&model, count).await?)
}

/// The error of a shader that does not compile, once it was loaded.
#[wasm_bindgen]
pub async fn broken() -> Result<String, JsError> {
    let edit = ShaderEdit { kernel: "RmsNorm", from: "fn main(", to: "fn main(wrong " };
    let model = Model::builtin_async(&on_gpu(vec![edit])).await?;
    Ok(decoded(&model, 1).await.map_or_else(|error| error.to_string(), |tokens| format!("{tokens:?}")))
}

/// The error of loading a model.
#[wasm_bindgen]
pub async fn refused() -> String {
    let loaded = Model::builtin_async(&on_gpu(Vec::new())).await;
    loaded.map_or_else(|error| error.to_string(), |_| "it was loaded".to_owned())
}

/// The error of a call that does not wait.
#[wasm_bindgen]
pub async fn unawaited() -> Result<String, JsError> {
    let model = Model::builtin_async(&on_gpu(Vec::new())).await?;
    let mut session = model.session(&Default::default())?;
    let evaluated = session.evaluate(&prompt(&model)?);
    Ok(evaluated.map_or_else(|error| error.to_string(), |_| "it was evaluated".to_owned()))
}

/// Tokens of a session that is saved after a few of them and goes on from the file.
#[wasm_bindgen]
pub async fn saved(before: usize, after: usize) -> Result<Vec<u32>, JsError> {
    let model = Model::builtin_async(&on_gpu(Vec::new())).await?;
    let prompt = prompt(&model)?;
    let (mut session, mut file) = (model.session(&Default::default())?, Vec::new());
    let mut tokens = rest(session.generate_async(&prompt, greedy(before)).await?).await?;
    session.save_async(&mut file).await?;
    let mut session = model.session(&Default::default())?;
    session.load(&file)?;
    let text = [&prompt[..], &tokens].concat();
    tokens.extend(rest(session.generate_async(&text, greedy(after)).await?).await?);
    Ok(tokens)
}

/// Named values of a pass, and how far from zero they are.
#[derive(Default)]
struct Seen(Vec<(String, usize, f64)>);

impl Observer for Seen {
    fn value(&mut self, observed: &Observed<'_>) {
        let Observed { name, layer, rows, values, .. } = observed;
        let squares: f64 = values.iter().map(|&value| f64::from(value).powi(2)).sum();
        let mean = (squares / values.len().max(1) as f64).sqrt();
        self.0.push((format!("{name} {layer:?}"), *rows, mean));
    }
}

/// How many named values of a prompt there are on WebGPU, and how much the magnitude of one differs at most, relatively, from what the
/// formulas say; an error if they come in another order.
#[wasm_bindgen]
pub async fn observed() -> Result<Vec<f64>, JsError> {
    let (mut got, mut expected) = (Seen::default(), Seen::default());
    let model = Model::builtin_async(&on_gpu(Vec::new())).await?;
    let prompt = prompt(&model)?;
    let mut session = model.session(&Default::default())?;
    session.observe_async(&prompt, Role::Prefill, Logits::Last, &mut got).await?;
    let model = Model::builtin(&LoadOptions::default().device(Device::Reference))?;
    let mut session = model.session(&Default::default())?;
    session.observe(&prompt, Role::Prefill, Logits::Last, &mut expected)?;
    let (count, mut most) = (got.0.len(), 0.0f64);
    for (got, expected) in got.0.iter().zip(&expected.0) {
        if (&got.0, got.1) != (&expected.0, expected.1) {
            return Err(JsError::new(&format!("got {got:?}, expected {expected:?}")));
        }
        most = most.max((got.2 - expected.2).abs() / expected.2);
    }
    Ok(vec![count as f64, expected.0.len() as f64, most])
}

/// Bytes by which this module's memory grows with a session of `context` positions.
#[wasm_bindgen]
pub async fn grown(context: usize) -> Result<usize, JsError> {
    let model = Model::builtin_async(&on_gpu(Vec::new())).await?;
    let pages = || core::arch::wasm32::memory_size::<0>();
    let before = pages();
    let session = model.session(&SessionOptions::default().context(context))?;
    let grown = pages() - before;
    drop(session);
    Ok(grown << 16)
}
