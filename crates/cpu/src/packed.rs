//! Inputs of a product in the forms that batch kernels want, packed once for all weights that share them.

use candor_kernels::{Form, Line, Packing};

use crate::buffer::room;
use crate::inputs::Inputs;
use crate::pool::Pool;

/// Inputs that batch kernels get at a time: as many as fit into the second-level cache beside everything else.
pub(crate) const TOGETHER: usize = 512;

/// Packed inputs, one room for each form.
#[derive(Default)]
pub(crate) struct Packed {
    forms: Vec<(Form, Vec<Line>)>,
}

impl Packed {
    /// Packs the inputs in every form that is asked for.
    pub(crate) fn fill(&mut self, packings: impl Iterator<Item = &'static Packing>, x: &Inputs<'_>, pool: &Pool) {
        let mut filled = Vec::new();
        for packing in packings {
            if !filled.contains(&packing.form) {
                filled.push(packing.form);
                pack(self.room(packing, x.rows, x.cols), packing, x, pool);
            }
        }
    }

    /// Room for some inputs, which the caller fills.
    pub(crate) fn room(&mut self, packing: &Packing, inputs: usize, cols: usize) -> &mut [Line] {
        let size = packing.room(TOGETHER, cols);
        room(self.of(packing.form), inputs / TOGETHER * size + packing.room(inputs % TOGETHER, cols))
    }

    fn of(&mut self, form: Form) -> &mut Vec<Line> {
        let known = self.forms.iter().position(|(known, _)| *known == form);
        let index = known.unwrap_or_else(|| {
            self.forms.push((form, Vec::new()));
            self.forms.len() - 1
        });
        &mut self.forms[index].1
    }

    /// `inputs` packed rows from the `first`, a multiple of [`TOGETHER`].
    pub(crate) fn some(&self, packing: &Packing, first: usize, inputs: usize, cols: usize) -> &[Line] {
        let (_, lines) = self.forms.iter().find(|(form, _)| *form == packing.form).expect("filled before");
        &lines[first / TOGETHER * packing.room(TOGETHER, cols)..][..packing.room(inputs, cols)]
    }
}

/// Group after group of [`TOGETHER`] inputs.
fn pack(lines: &mut [Line], packing: &Packing, x: &Inputs<'_>, pool: &Pool) {
    let size = packing.room(TOGETHER, x.cols);
    for (values, lines) in x.values.chunks(TOGETHER * x.cols).zip(lines.chunks_mut(size)) {
        pool.chunks(lines, packing.lines, &|index, piece| (packing.pack)(piece, values, x.cols, index));
    }
}
