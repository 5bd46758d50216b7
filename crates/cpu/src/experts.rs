//! Mixtures of experts: who was chosen.

use std::cell::RefCell;

use candor_ops::{Choosing, Router};

use crate::Buf;
use crate::pool::Pool;

/// Rows that are worth handing to another thread.
const ROWS: usize = 8;

thread_local! {
    static CHOOSING: RefCell<Choosing> = RefCell::default();
}

/// The experts of each row, `used` of them, best first.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    pub(crate) used: usize,
    /// Expert and weight, `[rows * used]`.
    pub(crate) chosen: Vec<(usize, f32)>,
    /// Indices of `chosen`, those of the same expert one after the other.
    pub(crate) order: Vec<usize>,
}

impl Routes {
    /// Room for the choices of `rows` rows.
    pub(crate) fn new(rows: usize, used: usize) -> Routes {
        Routes { used, chosen: Vec::with_capacity(rows * used), order: Vec::with_capacity(rows * used) }
    }

    /// Chooses for each row of logits.
    pub(crate) fn choose(&mut self, logits: &Buf, bias: Option<&[f32]>, router: Router, pool: &Pool) {
        self.chosen.resize(logits.rows * self.used, (0, 0.0));
        let used = self.used;
        pool.chunks(&mut self.chosen, ROWS * used, &|index, piece| {
            CHOOSING.with_borrow_mut(|choosing| {
                for (i, out) in piece.chunks_exact_mut(used).enumerate() {
                    let chosen = router.choose_in(choosing, logits.row(index * ROWS + i), bias);
                    out.iter_mut().zip(chosen).for_each(|(out, &(expert, weight))| *out = (expert, weight as f32));
                }
            });
        });
        self.order.clear();
        self.order.extend(0..self.chosen.len());
        let chosen = &self.chosen;
        self.order.sort_unstable_by_key(|&choice| (chosen[choice].0, choice));
    }
}
