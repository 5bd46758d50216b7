//! A gated feed-forward in two sections: gate and up together, whose sums become the packed inputs of the last product, and that product.
//! The values in between are never rows.

use std::ops::Range;

use candor_kernels::{BatchKernels, BatchTask, F32Kernels, Line, Packing, SIDE, Sums};

use super::{Chunk, Product, SCRATCH, Scratch, Then, Work, Workspace, run, section};
use crate::buffer::{Buf, room};
use crate::inputs::Inputs;
use crate::packed::TOGETHER;
use crate::pool::Pool;
use crate::split::Split;
use crate::weight::{Tier, Weight};

/// Sums of a chunk's rows of gate, and as many of up. Half of it, so that both stay in the second-level cache, was slower.
const SUMS: usize = 256 << 10;
/// Rows that are worth a chunk of their own.
const LEAST: usize = 256;

/// A matrix and the kernel that leaves its sums.
struct Side<'a> {
    w: &'a Weight,
    packing: &'static Packing,
    sums: fn(BatchTask<'_>, usize),
}

/// What all chunks share.
struct Gate<'a> {
    work: Work<'a>,
    sides: [Side<'a>; 2],
    packing: &'static Packing,
    pack: fn(&mut [Line], &Sums, &Sums, usize),
    middle: Split<'a, Line>,
}

impl<'a> Side<'a> {
    fn of(w: &'a Weight, x: &Inputs<'_>) -> Option<Side<'a>> {
        let BatchKernels { packing, sums, .. } = *w.batch(x.tier, x.rows)?;
        Some(Side { w, packing, sums: sums? })
    }
}

impl Gate<'_> {
    /// Fills the columns of the last product's inputs that are some rows of gate and up.
    fn chunk(&self, rows: Range<usize>) {
        let x = self.work.x;
        let group = self.packing.room(TOGETHER, self.sides[0].w.rows());
        SCRATCH.with_borrow_mut(|Scratch { lines, .. }| {
            for first in (0..x.rows).step_by(TOGETHER) {
                let inputs = TOGETHER.min(x.rows - first);
                let size = rows.len().div_ceil(SIDE) * inputs.div_ceil(SIDE) * size_of::<Sums>() / size_of::<Line>();
                let (gate, up) = room(lines, 2 * size).split_at_mut(size);
                self.multiply(&rows, (first, inputs), [gate, up]);
                self.pack(&rows, (first / TOGETHER * group, inputs), [gate, up]);
            }
        });
    }

    /// Both products of some inputs, piece by piece, so that a piece is read by twice as many rows.
    fn multiply(&self, rows: &Range<usize>, (first, inputs): (usize, usize), mut sums: [&mut [Line]; 2]) {
        let cols = self.work.x.cols;
        for piece in 0..cols.div_ceil(self.sides[0].packing.cols) {
            for (side, scratch) in self.sides.iter().zip(&mut sums) {
                let x = self.work.packed.some(side.packing, first, inputs, cols);
                let w = side.w.bytes(rows.clone());
                (side.sums)(BatchTask { w, rows: rows.len(), cols, inputs, x, scratch }, piece);
            }
        }
    }

    /// Makes inputs of the sums, in a group that begins at line `group`.
    fn pack(&self, rows: &Range<usize>, (group, inputs): (usize, usize), sums: [&mut [Line]; 2]) {
        let [gate, up] = sums.map(|sums| sums.as_chunks().0);
        let blocks = inputs.div_ceil(SIDE);
        for (i, (gate, up)) in gate.iter().zip(up).enumerate() {
            let (n, b) = (i / blocks * SIDE, i % blocks * SIDE);
            let lines = self.packing.block(inputs, b, rows.start + n);
            // SAFETY: each chunk is run once, and no two chunks have blocks in common.
            let block = unsafe { self.middle.cell(0, group + lines.start..group + lines.end) };
            (self.pack)(block, gate, up, rows.len() - n);
        }
    }
}

/// Cuts rows of gate and up into chunks of whole blocks, the last ones smaller, so that threads finish together.
fn deal(chunks: &mut Vec<Chunk>, rows: usize, inputs: usize, threads: usize) {
    chunks.clear();
    let shares = if threads == 1 { 1 } else { 2 * threads };
    let (least, most) = (LEAST.min(rows / threads), SUMS / inputs.min(TOGETHER));
    let mut first = 0;
    while first < rows {
        let share = ((rows - first) / shares).min(most).max(least).max(1).next_multiple_of(SIDE);
        let end = rows.min(first + share);
        chunks.push(Chunk { part: 0, rows: first..end });
        first = end;
    }
}

/// `out += down @ (silu(gate @ x) * (up @ x))`, of which the last `decoding` inputs decode; `room` is for the products of `x`. False, and
/// nothing is done, where the weights' kernels do not go together, or no inputs take them.
pub(crate) fn gated_add(
    out: &mut Buf,
    x: &Inputs<'_>,
    decoding: usize,
    ([gate, up, down], [a, b]): ([&Weight; 3], [&mut Buf; 2]),
    work: &mut Workspace,
    (pool, f32): (&Pool, &F32Kernels),
) -> bool {
    let rows = if x.tier == Tier::Prefill { x.rows - decoding } else { x.rows };
    let (prompts, others) = x.values.split_at(rows * x.cols);
    let prompts = Inputs { rows, values: prompts, ..*x };
    let ready = || {
        let (sides, packing) =
            ([Side::of(gate, &prompts)?, Side::of(up, &prompts)?], down.batch(x.tier, rows)?.packing);
        let fits = rows > 0 && sides[0].packing.form == sides[1].packing.form;
        fits.then_some((sides, packing, packing.gate?))
    };
    let Some((sides, packing, pack)) = ready() else { return false };
    for buf in [&mut *out, a, b] {
        (buf.rows, buf.decoding) = (x.rows, decoding);
    }
    let Workspace { rounded, packed, middle, chunks } = work;
    packed.fill(std::iter::once(sides[0].packing), &prompts, pool);
    deal(chunks, gate.rows(), rows, pool.threads());
    let lines = middle.room(packing, rows, gate.rows());
    let size = lines.len();
    let shared = Work { x: &prompts, rounded, packed, f32 };
    let shared = Gate { work: shared, sides, packing, pack, middle: Split::new(lines, size) };
    pool.run(chunks.len(), &|index| shared.chunk(chunks[index].rows.clone()));
    let hidden = Inputs { rows, tier: x.tier, cols: gate.rows(), values: &[] };
    let mut last = Product { out, w: down, then: Then::Add };
    run([&mut last], &Work { x: &hidden, rounded, packed: middle, f32 }, 0, chunks, pool);
    if rows == x.rows {
        return true;
    }
    let others = Inputs { rows: x.rows - rows, tier: Tier::Decode, values: others, ..*x };
    let mut products = [(&mut *a, gate), (&mut *b, up)].map(|(out, w)| Product { out, w, then: Then::Store });
    section(products.each_mut(), &others, rows, work, (pool, f32));
    let (width, up) = (b.width, b.live());
    (f32.swiglu)(&mut a.live_mut()[rows * width..], &up[rows * width..]);
    let hidden = Inputs { cols: width, values: &a.live()[rows * width..], ..others };
    section([&mut last], &hidden, rows, work, (pool, f32));
    true
}
