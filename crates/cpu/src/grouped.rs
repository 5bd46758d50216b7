//! Products in which each input meets some of the weight's rows alone: those of an expert, or of a head.
//!
//! Inputs of the same group are put next to each other, and the weight rows of all groups are dealt out in one parallel
//! section. Only groups that batch kernels multiply have one each.

use std::cell::RefCell;
use std::ops::Range;

use candor_kernels::{BatchKernels, F32Kernels};

use crate::buffer::{Buf, room};
use crate::inputs::Inputs;
use crate::pool::Pool;
use crate::product::{CHUNK_BYTES, CHUNK_OUTPUTS, Product, ROWS_MULTIPLE, Rounded, Then, Work, Workspace, multiply};
use crate::split::Split;
use crate::weight::{Tier, Weight};

/// Inputs by number: which of the rows each is, and to which group it belongs. Its output is the row of its number.
pub(crate) struct Choices<'a, G> {
    /// All numbers, those of the same group one after the other.
    pub(crate) order: &'a [usize],
    /// Numbers that have an input row in common, one after the other.
    pub(crate) shared: usize,
    /// Numbers below it belong to rows of prompts, the others to rows that decode. They come first in their group.
    pub(crate) prefill: usize,
    /// The group of a number.
    pub(crate) group: G,
}

/// One product: a row of `outputs` for each number.
pub(crate) struct Target<'a> {
    pub(crate) out: &'a mut [f32],
    pub(crate) outputs: usize,
    pub(crate) w: &'a Weight,
}

/// Numbers that belong together and are multiplied by the same kernels.
struct Group {
    number: usize,
    tier: Tier,
    /// Their places in the order.
    places: Range<usize>,
    /// The rows that their inputs are.
    inputs: Range<usize>,
}

/// Some weight rows of a group in one of the products.
struct Chunk {
    part: usize,
    group: usize,
    rows: Range<usize>,
}

impl Group {
    /// The batch kernels, where they multiply the group.
    fn batch<'w>(&self, w: &'w Weight) -> Option<&'w BatchKernels> {
        w.batch(self.tier, self.places.len())
    }
}

/// What these products keep from one to the next.
#[derive(Default)]
pub(crate) struct Grouped {
    groups: Vec<Group>,
    chunks: Vec<Chunk>,
    rounded: Rounded,
    inputs: Vec<f32>,
    product: Option<Buf>,
    /// The order of heads.
    pub(crate) heads: Vec<usize>,
}

thread_local! {
    static SCRATCH: RefCell<(Vec<f32>, Vec<f32>)> = RefCell::default();
}

struct Part<'a> {
    out: Split<'a, f32>,
    outputs: usize,
    w: &'a Weight,
}

/// Computes products of the same inputs and groups.
pub(crate) fn multiply_groups<const N: usize>(
    targets: [Target<'_>; N],
    x: &Inputs<'_>,
    choices: &Choices<'_, impl Fn(usize) -> usize + Sync>,
    Grouped { groups, chunks, rounded, inputs, product, .. }: &mut Grouped,
    (work, pool, f32): (&mut Workspace, &Pool, &F32Kernels),
) {
    let mut parts = targets.map(|Target { out, outputs, w }| Part { out: Split::new(out, outputs), outputs, w });
    find(groups, choices, x.tier);
    // Where every group has one input, they need not be put next to each other.
    let apart = groups.iter().any(|group| group.places.len() > 1);
    let row = |place: usize| choices.order[place] / choices.shared;
    for group in groups.iter_mut() {
        let first = row(group.places.start);
        group.inputs = if apart { group.places.clone() } else { first..first + 1 };
    }
    let row_kernel = |w: &Weight| groups.iter().any(|group| group.batch(w).is_none());
    let exact = parts.iter().any(|part| !part.w.q8() || groups.iter().any(|group| group.batch(part.w).is_some()));
    let q8 = parts.iter().any(|part| part.w.q8() && row_kernel(part.w));
    if q8 {
        work.rounded.fill(x, pool, f32);
    }
    if apart {
        if q8 {
            rounded.gather(&work.rounded, x.cols, choices.order.len(), &row, pool);
        }
        if exact {
            gather(inputs, x, choices.order.len(), &row, pool);
        }
    }
    let values = if apart && exact { &inputs[..choices.order.len() * x.cols] } else { x.values };
    let rows = if apart { choices.order.len() } else { x.rows };
    let gathered = Inputs { rows, tier: x.tier, cols: x.cols, values };
    deal(chunks, &parts, groups, pool.threads());
    {
        let rounded = if apart { &*rounded } else { &work.rounded };
        let work = Work { x: &gathered, rounded, packed: &work.packed, f32 };
        let (groups, parts) = (&*groups, &parts);
        pool.run(chunks.len(), &|index| {
            let Chunk { part, group, rows } = &chunks[index];
            chunk(&work, &parts[*part], &groups[*group], rows.clone(), choices.order);
        });
    }
    for part in &mut parts {
        for group in groups.iter().filter(|group| group.batch(part.w).is_some()) {
            let (w, count) =
                (part.w.part(group.number * part.outputs..(group.number + 1) * part.outputs), group.places.len());
            let buf = sized(product, count, part.outputs);
            let x = Inputs {
                rows: count,
                tier: group.tier,
                cols: x.cols,
                values: &values[group.inputs.start * x.cols..group.inputs.end * x.cols],
            };
            multiply([Product { out: buf, w: &w, then: Then::Store }], &x, 0, work, (pool, f32));
            for (i, &number) in choices.order[group.places.clone()].iter().enumerate() {
                // SAFETY: no other thread works on it, and one row is borrowed at a time.
                unsafe { part.out.cell(number, 0..part.outputs) }.copy_from_slice(buf.row(i));
            }
        }
    }
}

/// Finds runs of numbers of the same group and tier.
fn find(groups: &mut Vec<Group>, choices: &Choices<'_, impl Fn(usize) -> usize>, tier: Tier) {
    groups.clear();
    for (place, &number) in choices.order.iter().enumerate() {
        let tier = if tier == Tier::Prefill && number >= choices.prefill { Tier::Decode } else { tier };
        let number = (choices.group)(number);
        match groups.last_mut() {
            Some(group) if (group.number, group.tier) == (number, tier) => group.places.end = place + 1,
            _ => groups.push(Group { number, tier, places: place..place + 1, inputs: 0..0 }),
        }
    }
}

/// Cuts the weights of the groups into chunks, large ones first.
fn deal(chunks: &mut Vec<Chunk>, parts: &[Part<'_>], groups: &[Group], threads: usize) {
    chunks.clear();
    let row_kernels = |part: &Part<'_>, group: &Group| group.batch(part.w).is_none();
    // What a row costs: its bytes, as often as there are inputs.
    let cost = |part: &Part<'_>, group: &Group| part.w.row_bytes().max(1) * group.places.len();
    let shares = if threads == 1 { 1 } else { 2 * threads };
    let all = || {
        parts
            .iter()
            .enumerate()
            .flat_map(|(i, part)| groups.iter().enumerate().map(move |(j, group)| (i, part, j, group)))
    };
    let mut left: usize =
        all().filter(|(_, part, _, group)| row_kernels(part, group)).map(|(_, p, _, g)| p.outputs * cost(p, g)).sum();
    for (i, part, j, group) in all().filter(|(_, part, _, group)| row_kernels(part, group)) {
        let (cost, mut first) = (cost(part, group), 0);
        let (least, most) = (CHUNK_BYTES / cost, CHUNK_OUTPUTS / group.places.len());
        while first < part.outputs {
            let rows = (left / shares / cost).min(most).max(least).max(1).next_multiple_of(ROWS_MULTIPLE);
            let rows = rows.min(part.outputs - first);
            chunks.push(Chunk { part: i, group: j, rows: first..first + rows });
            first += rows;
            left -= rows * cost;
        }
    }
}

/// Computes some weight rows for every input of a group.
fn chunk(work: &Work<'_>, part: &Part<'_>, group: &Group, rows: Range<usize>, order: &[usize]) {
    let (first, outputs) = (group.number * part.outputs + rows.start, rows.len());
    let numbers = &order[group.places.clone()];
    // SAFETY: each number belongs to one group, and no two chunks of a group have weight rows in common.
    let out = |number: usize| unsafe { part.out.cell(number, rows.clone()) };
    SCRATCH.with_borrow_mut(|(tile, decoded)| {
        if let [number] = numbers {
            return work.tile(out(*number), part.w, (first, outputs), group.inputs.clone(), decoded);
        }
        let tile = room(tile, numbers.len() * outputs);
        work.tile(tile, part.w, (first, outputs), group.inputs.clone(), decoded);
        numbers.iter().zip(tile.chunks_exact(outputs)).for_each(|(&number, tile)| out(number).copy_from_slice(tile));
    });
}

/// Puts the rows `row(0)`, `row(1)`, ... next to each other.
fn gather(inputs: &mut Vec<f32>, x: &Inputs<'_>, count: usize, row: &(dyn Fn(usize) -> usize + Sync), pool: &Pool) {
    let cols = x.cols;
    pool.chunks(room(inputs, count * cols), cols, &|place, out| {
        out.copy_from_slice(&x.values[row(place) * cols..][..cols])
    });
}

/// Room for a product of `rows` rows.
fn sized(product: &mut Option<Buf>, rows: usize, width: usize) -> &mut Buf {
    let buf = product.get_or_insert_with(|| Buf { rows: 0, decoding: 0, width, values: Vec::new() });
    buf.width = width;
    room(&mut buf.values, rows * width);
    buf
}
