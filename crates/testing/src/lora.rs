//! LoRA adapters with random numbers for any model, and the same model with them merged into its weights.

use candor_gguf::{Format, Gguf, TensorInfo, Value, Writer};

use crate::Random;

/// An adapter to be made. `tools/goldens/lora.py` makes the same one from the same numbers.
#[derive(Clone, Copy, Debug)]
pub struct Lora {
    /// Rank of every change.
    pub rank: usize,
    /// `adapter.lora.alpha`.
    pub alpha: f32,
    /// Where the random numbers start.
    pub seed: u64,
}

/// What tables of tokens are called, of which an adapter's halves lie the other way round.
const EMBEDDING: &str = "token_embd.weight";

impl Lora {
    /// What says of a file that it is an adapter for models of `architecture`.
    pub fn metadata(&self, architecture: &str) -> Vec<(&'static str, Value)> {
        vec![
            ("general.type", "adapter".into()),
            ("general.architecture", architecture.into()),
            ("adapter.type", "lora".into()),
            ("adapter.lora.alpha", self.alpha.into()),
        ]
    }

    /// An adapter for those of the model's matrices that are wanted, to be changed or written.
    ///
    /// # Panics
    /// If the model says no architecture.
    pub fn writer(&self, model: &Gguf, wanted: impl Fn(&str) -> bool) -> Writer {
        let architecture = model.metadata().str("general.architecture").expect("a text").expect("a model");
        let mut writer = Writer::new();
        for (key, value) in self.metadata(architecture) {
            writer.insert(key, value);
        }
        let mut random = Random(self.seed);
        for tensor in model.tensors().iter().filter(|tensor| is_matrix(tensor) && wanted(&tensor.name)) {
            let [a, b] = halves(tensor, self.rank as u64);
            for (half, shape) in [("lora_a", a), ("lora_b", b)] {
                let count = shape.iter().product::<u64>() as usize;
                // Changes that are about a tenth of what they change.
                let spread = (0.25 / shape[0] as f32).sqrt();
                let bytes: Vec<u8> = (0..count).flat_map(|_| (spread * random.signed()).to_le_bytes()).collect();
                writer.tensor(&format!("{}.{half}", tensor.name), Format::F32, &shape, bytes).expect("fresh names");
            }
        }
        writer
    }

    /// The same as a file.
    ///
    /// # Panics
    /// If the model says no architecture.
    pub fn gguf(&self, model: &Gguf, wanted: impl Fn(&str) -> bool) -> Gguf {
        Gguf::from_bytes(self.writer(model, wanted).to_bytes().expect("a complete file")).expect("a right file")
    }
}

/// Whether a tensor has two dimensions or more.
pub fn is_matrix(tensor: &TensorInfo) -> bool {
    tensor.shape.len() > 1
}

/// The dimensions of both halves of a change.
fn halves(tensor: &TensorInfo, rank: u64) -> [Vec<u64>; 2] {
    let [into, out, deep @ ..] = &tensor.shape[..] else { panic!("{} is no matrix", tensor.name) };
    let with = |first: u64, second: u64| [&[first, second], deep].concat();
    match tensor.name.ends_with(EMBEDDING) {
        true => [with(rank, *out), with(rank, *into)],
        false => [with(*into, rank), with(rank, *out)],
    }
}

/// The model with adapters merged into its weights, in float64 and rounded once: `w + scale * alpha / rank * b @ a`.
///
/// # Panics
/// If an adapter does not fit.
pub fn merged(model: &Gguf, adapters: &[(&Gguf, f32)]) -> Gguf {
    let mut writer = Writer::new();
    for (key, value) in model.metadata().iter() {
        writer.insert(key, value.clone());
    }
    for tensor in model.tensors() {
        let changes: Vec<_> = adapters.iter().filter_map(|&(adapter, scale)| change(tensor, adapter, scale)).collect();
        let (format, bytes) = match changes.is_empty() {
            true => (tensor.format, model.data(tensor)),
            false => {
                let weights = floats(model, tensor).into_iter().enumerate();
                let sum = |(i, w): (usize, f32)| f64::from(w) + changes.iter().map(|change| change[i]).sum::<f64>();
                (Format::F32, weights.flat_map(|weight| (sum(weight) as f32).to_le_bytes()).collect::<Vec<u8>>().into())
            }
        };
        writer.tensor(&tensor.name, format, &tensor.shape, bytes).expect("a fitting length");
    }
    Gguf::from_bytes(writer.to_bytes().expect("a complete file")).expect("a right file")
}

/// What an adapter adds to a tensor, element by element.
fn change(tensor: &TensorInfo, adapter: &Gguf, scale: f32) -> Option<Vec<f64>> {
    let half = |half: &str| adapter.tensor(&format!("{}.{half}", tensor.name)).map(|info| floats(adapter, info));
    let (a, b) = (half("lora_a")?, half("lora_b")?);
    let [into, out] = [tensor.shape[0] as usize, tensor.shape[1] as usize];
    let deep = tensor.shape[2..].iter().product::<u64>() as usize;
    let rank = adapter.tensor(&format!("{}.lora_b", tensor.name))?.shape[0] as usize;
    let alpha = adapter.metadata().f32("adapter.lora.alpha").expect("a number").unwrap_or(0.0);
    let factor = f64::from(scale) * if alpha == 0.0 { 1.0 } else { f64::from(alpha) / rank as f64 };
    let mut delta = Vec::with_capacity(deep * out * into);
    for d in 0..deep {
        for o in 0..out {
            for i in 0..into {
                let product = |r: usize| match tensor.name.ends_with(EMBEDDING) {
                    true => f64::from(a[o * rank + r]) * f64::from(b[i * rank + r]),
                    false => f64::from(a[(d * rank + r) * into + i]) * f64::from(b[(d * out + o) * rank + r]),
                };
                delta.push(factor * (0..rank).map(product).sum::<f64>());
            }
        }
    }
    Some(delta)
}

fn floats(gguf: &Gguf, tensor: &TensorInfo) -> Vec<f32> {
    let mut values = vec![0.0; tensor.elements() as usize];
    tensor.format.decode(&gguf.data(tensor), &mut values);
    values
}
