//! The stacks of layers that a model's dimensions are of: one, or an encoder's and a decoder's.

use crate::{Error, config::Config, keys::Keys, registry::Architecture};

/// A stack of layers: what its tensors' names begin with, and the key that counts it.
pub(crate) struct Stack {
    pub(crate) prefix: &'static str,
    pub(crate) count: &'static str,
}

pub(crate) const ONE: Stack = Stack { prefix: "", count: "block_count" };
pub(crate) const ENCODER: Stack = Stack { prefix: "enc.", count: "block_count" };
const DECODER: Stack = Stack { prefix: "dec.", count: "decoder_block_count" };

impl Config {
    /// A decoder, and the encoder that it has.
    pub(crate) fn of_both(keys: &Keys<'_>, arch: &Architecture) -> Result<Config, Error> {
        const START: &str = "decoder_start_token_id";
        let encoder = Config::of_stack(keys, arch, &ENCODER)?;
        let mut config = Config::of_stack(keys, arch, &DECODER)?;
        if encoder.blocks.iter().any(|block| block.cache != encoder.blocks[0].cache) {
            return Err(Error::Unsupported("an encoder whose layers have different heads is not supported".into()));
        }
        let start = keys.number(START)?.ok_or_else(|| keys.missing(START))?;
        if start >= config.vocab {
            return Err(keys.bad(START, &format!("less than {}", config.vocab), start));
        }
        config.start = Some(start as u32);
        let said = keys.float("logit_scale")?.is_some_and(|scale| scale != 0.0);
        if !said && config.scales_tied_head(keys) {
            config.logit_scale = 1.0 / (config.dim as f32).sqrt();
        }
        config.encoder = Some(Box::new(encoder));
        Ok(config)
    }

    /// Whether a T5's head is its embedding, and what goes into it is scaled. Version 1.1, whose feed-forward is gated, does
    /// not scale, though programs may leave its head out where the two are equal; umt5, where every layer has scores by
    /// distance of its own, does.
    fn scales_tied_head(&self, keys: &Keys<'_>) -> bool {
        let tied = keys.gguf.tensor("output.weight").is_none();
        let gated = keys.gguf.tensor(&self.name(0, "ffn_gate.weight")).is_some();
        tied && (!gated || keys.gguf.tensor(&self.name(1, "attn_rel_b.weight")).is_some())
    }

    /// Layers of the encoder that reads texts, where there is one besides the decoder.
    pub fn encoder_layers(&self) -> Option<usize> {
        self.encoder.as_ref().map(|encoder| encoder.layers)
    }
}
