//! What the page asks for, as JSON.

#[cfg(feature = "gpu")]
use candor::{AdapterChoice, GpuOptions};
use candor::{Config, Device, GenerateOptions, LoadOptions, Sampling, SessionOptions};
use serde::{Deserialize, de::Error as _};
use serde_json::{Map, Value};

/// Positions of a session where nobody says how many: a browser does not tell how much memory there is.
const CONTEXT: usize = 4096;

/// How to load a model.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Load {
    device: Where,
    /// Positions; 0 takes the model's own, at most [`CONTEXT`].
    pub(crate) context: usize,
    /// Most bytes of weights, caches and values in flight.
    memory: Option<u64>,
    /// Threads of the processor, where there are as many.
    threads: usize,
    /// Whether a GPU may be an emulation.
    #[cfg(feature = "gpu")]
    software: bool,
    pub(crate) adapters: Vec<Lora>,
    /// Faults to be planted in shaders: kernel, text, replacement. The module that goes on without a GPU hears of them, too.
    #[cfg(feature = "faults")]
    #[cfg_attr(not(feature = "gpu"), expect(dead_code, reason = "there are no shaders"))]
    edits: Vec<[String; 3]>,
    /// What the engine is to die of, or a thread of it.
    #[cfg(feature = "faults")]
    panic: Option<String>,
    /// How many times as slow the processor is to seem.
    #[cfg(feature = "faults")]
    pub(crate) slower: Option<f64>,
}

/// An adapter, whose file comes beside.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lora {
    /// What it is called in messages.
    pub(crate) name: String,
    #[serde(default = "as_trained")]
    pub(crate) scale: f32,
}

fn as_trained() -> f32 {
    1.0
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Where {
    #[default]
    Auto,
    Gpu,
    Cpu,
}

impl Load {
    /// The engine's options.
    ///
    /// # Errors
    /// If the browser has no GPU, and one is asked for.
    pub(crate) async fn options(&self) -> Result<LoadOptions, candor::Error> {
        #[cfg(feature = "faults")]
        if let Some(text) = self.panic.clone() {
            #[cfg(target_feature = "atomics")]
            (crate::crew::CREW.0)(1, Box::new(move || panic!("{text}")));
            #[cfg(not(target_feature = "atomics"))]
            panic!("{text}");
        }
        let session = SessionOptions::default().context(if self.context == 0 { CONTEXT } else { self.context });
        let device = match self.device {
            Where::Cpu => Device::Cpu,
            Where::Gpu => Device::Gpu,
            Where::Auto => Device::Auto,
        };
        let options = LoadOptions::default().device(device).session(session).memory(self.memory).threads(self.threads);
        #[cfg(target_feature = "atomics")]
        let options = options.spawn(crate::crew::CREW);
        #[cfg(feature = "gpu")]
        let options = options.gpu(self.gpu().await?);
        Ok(options)
    }

    /// How a GPU is used. A browser gives one adapter. An emulation is taken where it is named alone.
    #[cfg(feature = "gpu")]
    async fn gpu(&self) -> Result<GpuOptions, candor::Error> {
        let asked = self.software && !matches!(self.device, Where::Cpu);
        let named = asked && candor::devices_async().await?.iter().any(|device| device.name == "gpu0");
        let gpu = GpuOptions::default().adapter(named.then_some(AdapterChoice::Index(0)));
        #[cfg(feature = "faults")]
        let gpu = gpu.edits(self.edits.iter().map(edit).collect());
        Ok(gpu)
    }

    /// Whether layers may have to pass.
    pub(crate) fn is_limited(&self) -> bool {
        self.memory.is_some()
    }
}

/// The size of a model's sessions, where that many positions are asked for.
pub(crate) fn session(context: usize, config: &Config) -> SessionOptions {
    SessionOptions::default().context(if context == 0 { config.context.min(CONTEXT) } else { context })
}

/// What is asked of a file before it is loaded.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Fit {
    /// As in [`Load`].
    pub(crate) context: usize,
    /// Most bytes of a GPU's buffer, where there is a GPU that may be taken.
    pub(crate) gpu: Option<u64>,
}

/// A test's edit lives as long as its module.
#[cfg(all(feature = "faults", feature = "gpu"))]
fn edit([kernel, from, to]: &[String; 3]) -> candor_gpu::ShaderEdit {
    let kept = |text: &String| &*text.clone().leak();
    candor_gpu::ShaderEdit { kernel: kept(kernel), from: kept(from), to: kept(to) }
}

/// How to continue a prompt.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Generate {
    max_tokens: Option<usize>,
    stop: Vec<String>,
    /// How many of the likeliest tokens to name beside each; nothing where none are asked for.
    pub(crate) logprobs: Option<usize>,
    /// Settings of the sampler by its own names.
    sampling: Map<String, Value>,
}

impl Generate {
    /// The engine's options.
    ///
    /// # Errors
    /// If a setting is unknown, or is no such number.
    pub(crate) fn options(self) -> Result<GenerateOptions, serde_json::Error> {
        let known = serde_json::to_value(Sampling::default())?;
        if let Some(name) = self.sampling.keys().find(|name| known.get(name).is_none()) {
            let names: Vec<&str> = known.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            let message = format!("unknown option {name}: expected one of {}", names.join(", "));
            return Err(serde_json::Error::custom(message));
        }
        let sampling: Sampling = serde_json::from_value(Value::Object(self.sampling))?;
        let options = GenerateOptions::default().sampling(sampling).max_tokens(self.max_tokens).stop(self.stop);
        // What may change all logits has all of them read, from a GPU, too.
        let looks = |_: &[u32], _: &mut [f32]| ();
        Ok(if self.logprobs.is_some() { options.processor(looks) } else { options })
    }
}
