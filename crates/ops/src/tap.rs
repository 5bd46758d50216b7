//! Observing named values while a model runs.

use crate::Prims;

/// Sees each named value of a forward pass. With `()` no trace of it is left in the compiled program.
pub trait Tap<B: Prims> {
    /// Whether it looks at values at all. Where it does not, values that nothing else needs may not be there.
    const LOOKS: bool = true;

    /// Whether it would look at a value that the backend makes within a fusion alone. Where it would, the value is made once
    /// more for it, beside the fusion, which stays as it is.
    fn wants(&mut self, name: &'static str, layer: Option<usize>) -> bool {
        let _ = (name, layer);
        Self::LOOKS
    }

    /// `name` is llama.cpp's name of the value, `layer` its layer where it has one.
    fn tap(&mut self, ops: &mut B, name: &'static str, layer: Option<usize>, x: &B::Buf);

    /// Sees which experts a layer's rows chose, and their weights, whose names are [`CHOSEN`]. Who has no use for them need
    /// not look.
    fn chosen(&mut self, ops: &mut B, layer: Option<usize>, routes: &B::Routes) {
        let _ = (ops, layer, routes);
    }
}

/// Names of a row's experts, and of their weights: `[T, used]` each.
pub const CHOSEN: [&str; 2] = ["ffn_moe_topk", "ffn_moe_weights"];

impl<B: Prims> Tap<B> for () {
    const LOOKS: bool = false;

    #[inline(always)]
    fn tap(&mut self, _: &mut B, _: &'static str, _: Option<usize>, _: &B::Buf) {}
}

/// One observed value.
#[derive(Clone, Debug)]
pub struct Tapped<S> {
    /// llama.cpp's name of the value.
    pub name: &'static str,
    /// Its layer, where it has one.
    pub layer: Option<usize>,
    /// The value.
    pub value: S,
}

/// Records every value as a snapshot.
pub struct Recorder<B: Prims> {
    /// The values in the order of their computation.
    pub values: Vec<Tapped<B::Snapshot>>,
}

impl<B: Prims> Default for Recorder<B> {
    fn default() -> Self {
        Recorder { values: Vec::new() }
    }
}

impl<B: Prims> Tap<B> for Recorder<B> {
    fn tap(&mut self, ops: &mut B, name: &'static str, layer: Option<usize>, x: &B::Buf) {
        self.values.push(Tapped { name, layer, value: ops.snapshot(x) });
    }
}
