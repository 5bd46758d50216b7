//! Mixtures of experts: who was chosen, and products with the matrices of the chosen.

use candor_kernels::F32Kernels;

use crate::pool::Pool;
use crate::product::{Inputs, Product, Then, Workspace, multiply};
use crate::{Buf, Weight};

/// The experts of each row, `used` of them, best first.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    pub(crate) used: usize,
    /// Expert and weight, `[rows * used]`.
    pub(crate) chosen: Vec<(usize, f32)>,
    /// Indices of `chosen`, those of the same expert one after the other.
    pub(crate) order: Vec<usize>,
}

/// What products of experts keep from one to the next.
#[derive(Default)]
pub(crate) struct Gathered {
    inputs: Vec<f32>,
    product: Option<Buf>,
}

impl Routes {
    /// Sorts the choices by expert.
    pub(crate) fn sort(&mut self) {
        self.order.clear();
        self.order.extend(0..self.chosen.len());
        let chosen = &self.chosen;
        self.order.sort_by_key(|&choice| chosen[choice].0);
    }
}

/// `out[choice] = w[expert] @ x[row]`, one expert after the other, all of its rows together.
pub(crate) fn product(
    out: &mut Buf,
    x: &Buf,
    w: &Weight,
    routes: &Routes,
    Gathered { inputs, product }: &mut Gathered,
    (work, pool, f32): (&mut Workspace, &Pool, &F32Kernels),
) {
    let choices = routes.chosen.len();
    let shared = if x.rows == choices { 1 } else { routes.used };
    out.rows = choices;
    let (outputs, cols) = (out.width, x.width);
    let expert = |choice: &usize| routes.chosen[*choice].0;
    for group in routes.order.chunk_by(|a, b| expert(a) == expert(b)) {
        inputs.clear();
        group.iter().for_each(|choice| inputs.extend_from_slice(x.row(choice / shared)));
        let first = expert(&group[0]) * outputs;
        let part = w.part(first..first + outputs);
        let buf = sized(product, group.len(), outputs);
        let x = Inputs { rows: group.len(), cols, values: inputs };
        multiply([Product { out: buf, w: &part, then: Then::Store }], &x, work, pool, f32);
        for (i, &choice) in group.iter().enumerate() {
            out.row_mut(choice).copy_from_slice(buf.row(i));
        }
    }
}

/// `out[t][h] = w[h] @ x[t][h]`, one head after the other.
pub(crate) fn heads(
    out: &mut Buf,
    x: &Buf,
    (w, heads): (&Weight, usize),
    Gathered { inputs, product }: &mut Gathered,
    (work, pool, f32): (&mut Workspace, &Pool, &F32Kernels),
) {
    out.rows = x.rows;
    let (outputs, cols) = (out.width / heads, x.width / heads);
    for h in 0..heads {
        inputs.clear();
        (0..x.rows).for_each(|t| inputs.extend_from_slice(&x.row(t)[h * cols..(h + 1) * cols]));
        let part = w.part(h * outputs..(h + 1) * outputs);
        let buf = sized(product, x.rows, outputs);
        let inputs = Inputs { rows: x.rows, cols, values: inputs };
        multiply([Product { out: buf, w: &part, then: Then::Store }], &inputs, work, pool, f32);
        for t in 0..x.rows {
            out.row_mut(t)[h * outputs..(h + 1) * outputs].copy_from_slice(buf.row(t));
        }
    }
}

/// Room for a product of `rows` rows.
fn sized(product: &mut Option<Buf>, rows: usize, width: usize) -> &mut Buf {
    let buf = product.get_or_insert_with(|| Buf { rows: 0, width, values: Vec::new() });
    buf.width = width;
    if buf.values.len() < rows * width {
        buf.values.resize(rows * width, 0.0);
    }
    buf
}
