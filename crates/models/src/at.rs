//! Where and on what a layer runs.

use candor_ops::{Attention, Heads, Ops, Step, Tap};

use crate::common::Common;

/// The backend, the cache and the step of a pass, seen from one of its layers.
pub(crate) struct At<'a, 'p, B: Ops, P> {
    pub(crate) ops: &'a mut B,
    pub(crate) kv: &'a mut B::Kv,
    pub(crate) step: &'a Step<'p>,
    pub(crate) tap: &'a mut P,
    /// The layer, counted over the whole model.
    pub(crate) layer: usize,
    /// Whose keys, values and states it has, within the cache, which holds a part's layers.
    pub(crate) cached: usize,
    pub(crate) common: &'a Common,
    pub(crate) rope: Option<&'a B::Rope>,
    /// What queries are multiplied by at each position, where they grow.
    pub(crate) temperature: Option<&'a B::Weight>,
}

/// The residual stream and the room beside it, `[T, D]` each.
pub(crate) struct Stream<'a, B: Ops> {
    pub(crate) x: &'a mut B::Buf,
    /// What a half of the layer has read: the stream after a norm.
    pub(crate) h: &'a mut B::Buf,
    /// Room.
    pub(crate) y: &'a mut B::Buf,
}

impl<B: Ops, P: Tap<B>> At<'_, '_, B, P> {
    pub(crate) fn tap(&mut self, name: &'static str, x: &B::Buf) {
        self.tap.tap(self.ops, name, Some(self.layer), x);
    }

    /// Shows the choice of experts.
    pub(crate) fn chosen(&mut self, routes: &B::Routes) {
        self.tap.chosen(self.ops, Some(self.layer), routes);
    }

    /// Attention of these heads as the layer has it.
    pub(crate) fn attention<'w>(&self, heads: Heads, sinks: Option<&'w B::Weight>) -> Attention<'w, B::Weight> {
        let Common { score_cap, alibi, .. } = *self.common;
        Attention { heads, mask: self.common.masks[self.layer], soft_cap: score_cap, alibi, sinks, relative: None }
    }
}
