//! The stacks of layers that a model's dimensions are of: one, or an encoder's and a decoder's.

use candor_gguf::Gguf;

use crate::{
    Error,
    arch::{Architecture, DECODER, ENCODER, ONE, Stacks},
    config::Config,
    keys::Keys,
    metadata,
};

impl Config {
    /// Reads the dimensions from a file's metadata and its tensors' names.
    ///
    /// # Errors
    /// If a key is missing, has the wrong type or makes no sense.
    pub fn from_gguf(gguf: &Gguf) -> Result<Config, Error> {
        let keys = Keys { gguf, arch: Architecture::of(gguf)? };
        match keys.arch.stacks {
            Stacks::One => Config::of_stack(&keys, metadata::common(&keys, &ONE)?),
            Stacks::Encoder => Config::of_stack(&keys, metadata::common(&keys, &ENCODER)?),
            Stacks::Both => of_both(&keys),
        }
    }
}

/// A decoder, and the encoder that it has.
fn of_both(keys: &Keys<'_>) -> Result<Config, Error> {
    const START: &str = "decoder_start_token_id";
    let encoder = Config::of_stack(keys, metadata::common(keys, &ENCODER)?)?;
    let mut common = metadata::common(keys, &DECODER)?;
    let said = keys.float("logit_scale")?.is_some_and(|scale| scale != 0.0);
    let has = |i: usize, rest: &str| keys.gguf.tensor(&common.name(i, rest)).is_some();
    // Version 1.1, whose feed-forward is gated, does not scale what goes into a head that is the embedding, though programs
    // may leave its head out where the two are equal; umt5, where every layer has scores by distance of its own, does.
    let scales = !has(0, "ffn_gate.weight") || has(1, "attn_rel_b.weight");
    if !said && scales && keys.gguf.tensor("output.weight").is_none() {
        common.logit_scale = 1.0 / (common.dim as f32).sqrt();
    }
    let mut config = Config::of_stack(keys, common)?;
    if encoder.blocks.iter().any(|block| block.cache != encoder.blocks[0].cache) {
        return Err(Error::Unsupported("an encoder whose layers have different heads is not supported".into()));
    }
    let start = keys.number(START)?.ok_or_else(|| keys.missing(START))?;
    if start >= config.vocab {
        return Err(keys.bad(START, &format!("less than {}", config.vocab), start));
    }
    config.start = Some(start as u32);
    config.encoder = Some(Box::new(encoder));
    Ok(config)
}
