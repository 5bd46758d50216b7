//! What each layer sees: which positions, and whose keys and values.

use candor_ops::Mask;

use crate::{
    Error,
    arch::{Width, Windows},
    keys::Keys,
};

/// How many layers read others' keys and values.
const SHARED: &str = "attention.shared_kv_layers";

/// The mask of a model that looks to both sides: of a window half lies on each.
pub(crate) fn both(mask: Mask) -> Mask {
    match mask {
        Mask::Window(window) => Mask::Around(window / 2),
        _ => Mask::Whole,
    }
}

/// Which layers see a window, and how long it is.
pub(crate) fn masks(keys: &Keys<'_>, layers: usize) -> Result<(Vec<Mask>, Option<usize>), Error> {
    let arch = keys.arch;
    let causal = (vec![Mask::Causal; layers], None);
    const WINDOW: &str = "attention.sliding_window";
    if let Windows::Chunks(every, chunk) = arch.windows {
        if keys.number(WINDOW)? == Some(0) {
            return Err(keys.bad(WINDOW, "a positive number", 0));
        }
        let mask = |i: usize| if (i + 1).is_multiple_of(every) { Mask::Causal } else { Mask::Chunk(chunk) };
        return Ok(((0..layers).map(mask).collect(), Some(chunk)));
    }
    let window = match (keys.number(WINDOW)?, arch.window) {
        (Some(window), _) if window > 0 => window,
        (None, Width::Or(window)) => window,
        (None, Width::Needed) => return Err(keys.missing(WINDOW)),
        (Some(_), Width::Or(_) | Width::Needed) => return Err(keys.bad(WINDOW, "a positive number", 0)),
        (_, Width::None) => return Ok(causal),
    };
    const PATTERN: &str = "attention.sliding_window_pattern";
    let listed = matches!(keys.gguf.metadata().get(&keys.name(PATTERN)), Some(candor_gguf::Value::Array(_)));
    let limited: Vec<bool> = if listed {
        let flags = keys.per_layer(PATTERN, layers)?.unwrap_or_default();
        flags.into_iter().map(|flag| flag != 0).collect()
    } else {
        let every = keys.number(PATTERN)?.filter(|&every| every != 0);
        let limits = |i: usize| match arch.windows {
            Windows::Never | Windows::Chunks(..) => false,
            Windows::All => true,
            Windows::ButEvery(every_here) => !(i + 1).is_multiple_of(every.unwrap_or(every_here)),
            Windows::ButFirstOf(every_here) => !i.is_multiple_of(every.unwrap_or(every_here)),
        };
        (0..layers).map(limits).collect()
    };
    if !limited.contains(&true) {
        return Ok(causal);
    }
    let mask = |limited: bool| if limited { Mask::Window(window) } else { Mask::Causal };
    Ok((limited.into_iter().map(mask).collect(), Some(window)))
}

/// Whose keys and values each layer reads: its own, but that the last `attention.shared_kv_layers` have none and read those of
/// the last layer before them that sees as much (Gemma Team 2025, Gemma 3n; after Brandon et al. 2024).
pub(crate) fn owners(keys: &Keys<'_>, masks: &[Mask]) -> Result<Vec<usize>, Error> {
    let shared = keys.number(SHARED)?.unwrap_or(0);
    let own = masks.len().saturating_sub(shared);
    let last = |mask: &Mask| masks[..own].iter().rposition(|other| other == mask);
    let owner = |(i, mask): (usize, &Mask)| if i < own { Some(i) } else { last(mask) };
    let owners: Option<Vec<usize>> = masks.iter().enumerate().map(owner).collect();
    owners.ok_or_else(|| keys.bad(SHARED, "a layer of each kind before them", shared))
}

/// What is wrong where layer `i` would keep something else than the layer that it reads.
pub(crate) fn unlike(keys: &Keys<'_>, i: usize, owner: usize) -> Error {
    let key = keys.name(SHARED);
    let other = format!("the keys and values of layer {owner}, which have other dimensions");
    Error::Unsupported(format!("{key}: layer {i} cannot read {other}"))
}
