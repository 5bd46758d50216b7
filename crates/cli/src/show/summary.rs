//! What a model file says of itself, gathered from metadata and tensor directory. No weight is read.

use std::collections::BTreeMap;

use candor::{Format, Gguf, KvFormat, SessionOptions, Tokenizer, fit::Takes};
use candor_gguf::ByteOrder;
use candor_models::{Config, Decoder, Gives};
use candor_ops::Shapes;

use crate::{args::CacheFormat, memory::cache_bytes};

/// What a model file says of itself.
pub struct Summary {
    /// `general.architecture`.
    pub architecture: Option<String>,
    /// `general.name`.
    pub name: Option<String>,
    /// Elements of all tensors.
    pub parameters: u64,
    /// Bytes of all tensors.
    pub tensor_bytes: u64,
    /// Tensors, elements and bytes per format, the largest first.
    pub formats: Vec<FormatShare>,
}

/// How much of a model is stored in one format.
pub struct FormatShare {
    pub format: Format,
    pub tensors: usize,
    pub elements: u64,
    pub bytes: u64,
}

/// What this program would make of the file.
pub struct Use {
    /// The dimensions, or why the model cannot be run.
    pub config: Result<Config, String>,
    /// The vocabulary, or why it cannot be used.
    pub tokenizer: Result<Tokenizer, String>,
    /// The chat template as it stands in the file.
    pub template: Option<String>,
}

/// The memory that a conversation needs.
pub struct Memory {
    /// Tokens of context.
    pub context: usize,
    /// Bytes of the weights, which are mapped and shared between programs.
    pub weights: u64,
    /// Bytes of cached keys and values, in f16 and in f32.
    pub cache: [Option<u64>; 2],
    /// Bytes of buffers.
    pub buffers: u64,
    /// Whether anything is cached, and whether that grows with the context.
    pub caches: bool,
    pub grows: bool,
}

impl Summary {
    /// Gathers it.
    pub fn of(gguf: &Gguf) -> Summary {
        let text = |key| gguf.metadata().str(key).ok().flatten().map(str::to_owned);
        let mut shares: BTreeMap<Format, FormatShare> = BTreeMap::new();
        for tensor in gguf.tensors() {
            let empty = FormatShare { format: tensor.format, tensors: 0, elements: 0, bytes: 0 };
            let share = shares.entry(tensor.format).or_insert(empty);
            share.tensors += 1;
            share.elements = share.elements.saturating_add(tensor.elements());
            share.bytes = share.bytes.saturating_add(tensor.bytes);
        }
        let mut formats: Vec<FormatShare> = shares.into_values().collect();
        formats.sort_by_key(|share| std::cmp::Reverse(share.bytes));
        Summary {
            architecture: text("general.architecture"),
            name: text("general.name"),
            parameters: formats.iter().fold(0, |sum, share| sum.saturating_add(share.elements)),
            tensor_bytes: formats.iter().fold(0, |sum, share| sum.saturating_add(share.bytes)),
            formats,
        }
    }

    /// Formats and their share of the bytes: `Q4_K 82 %, Q6_K 18 %, F32 < 1 %`.
    pub fn formats_line(&self) -> String {
        let total = self.tensor_bytes.max(1) as f64;
        let share = |share: &FormatShare| match self.formats.len() {
            1 => share.format.name().to_owned(),
            _ => match 100.0 * share.bytes as f64 / total {
                percent if percent < 0.5 => format!("{} < 1 %", share.format.name()),
                percent => format!("{} {percent:.0} %", share.format.name()),
            },
        };
        match self.formats.is_empty() {
            true => "no tensors".to_owned(),
            false => self.formats.iter().map(share).collect::<Vec<_>>().join(", "),
        }
    }

    /// Bits per weight.
    pub fn bits(&self) -> f64 {
        8.0 * self.tensor_bytes as f64 / self.parameters.max(1) as f64
    }
}

/// The byte order in words.
pub fn order(gguf: &Gguf) -> &'static str {
    match gguf.byte_order() {
        ByteOrder::Little => "little-endian",
        ByteOrder::Big => "big-endian",
    }
}

impl Use {
    /// Tries the file's parts, all but the computation.
    pub fn of(gguf: &Gguf) -> Use {
        let config = Decoder::<Shapes>::check(gguf, 1).and_then(|_| Config::from_gguf(gguf));
        Use {
            config: config.map_err(|error| error.to_string()),
            tokenizer: Tokenizer::from_metadata(gguf.metadata()).map_err(|error| error.to_string()),
            template: gguf.metadata().str("tokenizer.chat_template").ok().flatten().map(str::to_owned),
        }
    }

    /// The memory that a conversation of `context` tokens needs, the model's own if 0.
    pub fn memory(&self, gguf: &Gguf, summary: &Summary, context: usize) -> Option<Memory> {
        let config = self.config.as_ref().ok()?;
        let context = if context == 0 { config.context } else { context };
        let cache = [CacheFormat::F16, CacheFormat::F32].map(|format| cache_bytes(config, context, format, format));
        let buffers = Takes::of(gguf, &SessionOptions::default().context(context)).ok()?.buffers;
        let layers = config.kv_plan(context, 1, KvFormat::F16, KvFormat::F16).layers;
        let grows = config.gives != Gives::Embeddings && layers.iter().any(|layer| layer.kv_heads > 0);
        let caches = grows || layers.iter().any(|layer| layer.states.iter().any(|&state| state > 0));
        Some(Memory { context, weights: summary.tensor_bytes, cache, buffers, caches, grows })
    }
}
