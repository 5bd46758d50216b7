//! The numbers that all layers of a stack share, out of a file's metadata.

use std::collections::HashSet;

use candor_ops::{Mask, NormKind};

use crate::{
    Error,
    arch::{ENCODER, LogitScale, ONE, Residual, Stack},
    common::{Common, Gives, Scores},
    keys::Keys,
    masks, temperature,
};

/// Whether tokens see what comes before them alone.
const CAUSAL: &str = "attention.causal";

/// Reads them.
///
/// # Errors
/// If a key is missing, has the wrong type or makes no sense.
pub(crate) fn common(keys: &Keys<'_>, stack: &Stack) -> Result<Common, Error> {
    let Keys { gguf, arch } = *keys;
    if let Some(missing) = arch.needs_keys.iter().find(|key| gguf.metadata().get(&keys.name(key)).is_none()) {
        return Err(keys.missing(missing));
    }
    let (layers, mtp_layers) = layers(keys, stack)?;
    let embedding = gguf.tensor("token_embd.weight");
    let embedding = embedding.ok_or_else(|| Error::MissingTensor("token_embd.weight".into()))?;
    let context = keys.positive("context_length")?;
    let scale = |key| Ok::<_, Error>(keys.float(key)?.filter(|&scale| scale != 0.0).unwrap_or(1.0));
    let cap = |key, or| Ok::<_, Error>(keys.float(key)?.or(or).filter(|&cap| cap != 0.0));
    let logit_scale = scale("logit_scale")?;
    let causal = keys.flag(CAUSAL)?.unwrap_or(*stack != ENCODER) && !arch.encodes;
    let original_context = keys.number("rope.scaling.original_context_length")?.unwrap_or(context);
    let temperature = temperature::of(keys, original_context)?.or(arch.temperature);
    let (mut masks, window) = masks::masks(keys, layers)?;
    if !causal && !arch.encodes && window.is_some() {
        // Whether they lie before a token or around it differs between models.
        let causal = keys.name(CAUSAL);
        return Err(Error::Unsupported(format!("{causal}: false is not supported where layers have windows")));
    }
    let owners = masks::owners(keys, &masks)?;
    if !causal {
        masks.iter_mut().for_each(|mask: &mut Mask| *mask = masks::both(*mask));
    }
    let mut common = Common {
        layers,
        mtp_layers,
        dim: keys.positive("embedding_length")?,
        vocab: embedding.shape.get(1).map_or(1, |&rows| rows as usize),
        context,
        eps: eps(keys)?,
        window,
        // Learned positions end where their table does.
        limit: gguf
            .tensor("position_embd.weight")
            .map(|info| info.shape.get(1).map_or(1, |&rows| rows as usize))
            .or(temperature.map(|_| temperature::positions(context))),
        gives: if causal { Gives::Logits } else { Gives::Embeddings },
        masks,
        prefix: stack.prefix,
        owners,
        residual: residual(keys)?,
        embedding_scale: scale("embedding_scale")?,
        residual_scale: scale("residual_scale")?,
        logit_scale: match arch.logit_scale {
            LogitScale::Multiplied => logit_scale,
            LogitScale::Divided => 1.0 / logit_scale,
        },
        final_cap: cap("final_logit_softcapping", arch.caps[1])?,
        score_cap: cap("attn_logit_softcapping", arch.caps[0])?,
        scores: Scores::ByHead,
        alibi: keys.float("attention.max_alibi_bias")?.filter(|&max| max != 0.0).or(arch.alibi),
        temperature,
        clamp: keys.float("attention.clamp_kqv")?.filter(|&clamp| clamp != 0.0),
        value_norm: false,
        weigh_before: false,
        halved_every: keys.number("rescale_every_n_layers")?.filter(|&every| every != 0),
        rounds_yarn: keys.flag("rope.scaling.yarn_truncate")?,
        original_context,
    };
    (arch.quirk)(&mut common);
    Ok(common)
}

/// How many layers there are, and how many follow that guess tokens ahead.
fn layers(keys: &Keys<'_>, stack: &Stack) -> Result<(usize, usize), Error> {
    let ahead = keys.number("nextn_predict_layers")?.unwrap_or(0);
    let count = if keys.number(stack.count)?.is_some() { stack.count } else { ONE.count };
    let layers = keys.positive(count)?.saturating_sub(ahead);
    if layers == 0 {
        return Err(keys.bad("nextn_predict_layers", "less than block_count", ahead));
    }
    let number = |name: &str| name.strip_prefix(stack.prefix)?.strip_prefix("blk.")?.split('.').next()?.parse().ok();
    let there: HashSet<usize> = keys.gguf.tensors().iter().filter_map(|info| number(&info.name)).collect();
    match (0..layers).find(|layer| !there.contains(layer)) {
        Some(missing) => Err(Error::MissingTensor(format!("{}blk.{missing}.attn_norm.weight", stack.prefix))),
        None => Ok((layers, ahead)),
    }
}

/// The number in norms.
fn eps(keys: &Keys<'_>) -> Result<f32, Error> {
    const LAYER: &str = "attention.layer_norm_epsilon";
    const RMS: &str = "attention.layer_norm_rms_epsilon";
    // Some files have the one where the other is meant: nemotron_h names its RMS norms' as if they were layer norms.
    let order = if keys.arch.norm == NormKind::Layer { [LAYER, RMS] } else { [RMS, LAYER] };
    let eps = keys.float(order[0])?.map_or_else(|| keys.float(order[1]), |eps| Ok(Some(eps)))?;
    eps.ok_or_else(|| keys.missing(order[0]))
}

/// How halves of layers are connected.
fn residual(keys: &Keys<'_>) -> Result<Residual, Error> {
    let second = format!("blk.0.{}.weight", keys.arch.norms[1]);
    Ok(match (keys.arch.residual, keys.flag("use_parallel_residual")?) {
        (Residual::Sequential, Some(true)) => Residual::Parallel,
        (Residual::ByNorm, _) if keys.gguf.tensor(&second).is_none() => Residual::Parallel,
        (Residual::ByNorm, _) => Residual::Sequential,
        (residual, _) => residual,
    })
}
