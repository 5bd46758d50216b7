//! Seeing the named values of a forward pass.

use candor_ops::Step;

/// One named value of a pass, on its way past an [`Observer`].
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// llama.cpp's name of the value; a dot sets off the operation where one name has several, `Qcur.mul_mat`.
    pub name: &'static str,
    /// Its layer, where it has one.
    pub layer: Option<usize>,
    /// The tokens of the pass and their places.
    pub step: Step<'a>,
    /// Rows of the value: one per token, with its experts side by side, for `result_output` one per output.
    pub rows: usize,
    /// `[rows, width]`.
    pub values: &'a [f32],
}

/// Looks on while a model runs. Looking on changes no bit of what is computed.
pub trait Observer {
    /// Whether to copy this value at all.
    fn wants(&mut self, name: &'static str, layer: Option<usize>) -> bool {
        let _ = (name, layer);
        true
    }

    /// Takes a value, in the order of computation.
    fn value(&mut self, observed: &Observed<'_>);
}
