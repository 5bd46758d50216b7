//! What tokens see in an attention layer: its mask, its window, and changes of either.

use candor_ops::Mask;

use crate::{
    Attending, Kind,
    replay::{Place, Side, SoftMax},
};

/// What the layer does, where the operation is its softmax.
pub(super) fn attending<'a>(place: &Place<'a>) -> Option<&'a Attending> {
    match &place.node.kind {
        Kind::SoftMax(attending) => Some(attending),
        _ => None,
    }
}

/// The layer's mask.
pub(super) fn mask(place: &Place<'_>) -> Mask {
    attending(place).map_or(Mask::Causal, |attending| attending.mask)
}

/// The layers of the answer's tokens that see a window, and how long it is.
pub(super) fn windows<'a>(place: &Place<'a>) -> impl Iterator<Item = (Option<usize>, usize)> + use<'a> {
    place.graph.nodes.iter().filter_map(|node| match &node.kind {
        Kind::SoftMax(attending) => match attending.mask {
            Mask::Window(window) => Some((node.key.layer, window)),
            _ => None,
        },
        _ => None,
    })
}

/// Whether there are tokens after the prompt.
pub(super) fn decodes(place: &Place<'_>) -> bool {
    let grows = place.node.side == Side::Tokens && place.graph.keys(place.id) == Side::Tokens;
    grows && place.tokens.ids.len() > place.tokens.prompt && place.tokens.prompt > 0
}

/// Changes who sees what, given who saw what.
pub(super) fn seeing(plan: &mut SoftMax, new: impl Fn(&dyn Fn(usize, usize) -> bool, usize, usize) -> bool + 'static) {
    let old = std::mem::replace(&mut plan.visible, Box::new(|_, _| false));
    plan.visible = Box::new(move |t, p| new(&old, t, p));
}
