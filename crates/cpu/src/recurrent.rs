//! Layers whose past is a state of fixed size: short convolutions and linear recurrences.
//!
//! Rows of a sequence follow each other, so what is dealt out to threads is columns and heads.

use std::cell::RefCell;
use std::ops::Range;

use candor_kernels::{F32Kernels, KeyScan, Scan};
use candor_ops::{Decay, Recurrence, Step};

use crate::buffer::room;
use crate::kv::Order;
use crate::pool::Pool;
use crate::split::Split;
use crate::{Buf, Kv, Weight};

/// Products that are worth handing to another thread; to Miri, which takes a thousand times as long, fewer are.
const PIECE: usize = if cfg!(miri) { 1 << 8 } else { 16 << 10 };
/// Columns and small heads come in whole cache lines.
const LINE: usize = 64;

thread_local! {
    /// Factors of a head's keys.
    static FADING: RefCell<Vec<f32>> = RefCell::default();
}

/// Columns, each of which costs `cost` products, cut into pieces for threads.
fn pieces(pool: &Pool, columns: usize, cost: usize, piece: &(dyn Fn(Range<usize>) + Sync)) {
    let size = (PIECE / cost.max(1)).next_multiple_of(LINE).max(LINE);
    pool.run(columns.div_ceil(size), &|index| piece(index * size..columns.min((index + 1) * size)));
}

/// Rows of `cols` numbers, column after column.
fn columns(numbers: &[f32], cols: usize) -> Vec<f32> {
    (0..cols).flat_map(|col| numbers.iter().skip(col).step_by(cols).copied()).collect()
}

/// See [`candor_ops::Prims::conv`].
pub(crate) fn conv(
    out: &mut Buf,
    (kv, place): (&mut Kv, (usize, usize)),
    x: &Buf,
    w: &Weight,
    step: &Step,
    pool: &Pool,
) {
    let width = x.width;
    let taps = w.numbers().len() / width;
    let w = w.arranged(|w| columns(w, taps));
    let (states, len) = kv.states(place, Order::Defined);
    let states = Split::new(states, len.max(1));
    let out = Split::new(&mut out.values[..x.rows * width], width);
    let (before, last) = w.split_at((taps - 1) * width);
    pieces(pool, width, x.rows * taps, &|columns| {
        for (t, (&sequence, &position)) in step.sequences.iter().zip(step.positions).enumerate() {
            // SAFETY: no two pieces have columns in common, and taps are borrowed once at a time.
            let state = |tap: usize| unsafe {
                states.cell(sequence as usize, tap * width + columns.start..tap * width + columns.end)
            };
            let row = &x.row(t)[columns.clone()];
            // SAFETY: as above.
            let out = unsafe { out.cell(t, columns.clone()) };
            out.iter_mut().zip(row).zip(&last[columns.clone()]).for_each(|((out, x), w)| *out = w * x);
            for (tap, w) in before.chunks_exact(width).enumerate() {
                let past = state(tap);
                if position == 0 {
                    past.fill(0.0);
                }
                out.iter_mut().zip(&*past).zip(&w[columns.clone()]).for_each(|((out, x), w)| *out += w * x);
            }
            for tap in 1..taps {
                let next = if tap == taps - 1 { row } else { &*state(tap) };
                state(tap - 1).copy_from_slice(next);
            }
        }
    });
}

/// See [`candor_ops::Recurrence`].
pub(crate) fn recur(
    out: &mut Buf,
    (kv, place): (&mut Kv, (usize, usize)),
    inputs: Recurrence<'_, Weight, Buf>,
    step: &Step,
    (pool, f32): (&Pool, &F32Kernels),
) {
    let rows = inputs.v.rows;
    let out = &mut out.values[..rows * inputs.v.width];
    match inputs {
        Recurrence {
            value_dim: 1, key_heads: 1, erase: None, bonus: None, decay: Decay::Rates { time, rate }, ..
        } => {
            let dim = inputs.key_dim;
            let blocks = |rates: &[f32]| rates.chunks(LINE * dim).flat_map(|block| columns(block, dim)).collect();
            let (states, _) = kv.states(place, Order::Blocks { heads: LINE, keys: dim });
            by_keys(out, states, &inputs, (time, rate.arranged(blocks)), step, (pool, f32));
        }
        _ => by_heads(out, kv.states(place, Order::Defined).0, &inputs, step, (pool, f32)),
    }
}

/// Heads of one value with a key in common, as in Mamba. States and rates lie in blocks of [`LINE`] heads, `[K][heads]`
/// each, so that many heads go at once; were a block all heads, its rows would lie a power of two apart, which caches bear
/// badly.
fn by_keys(
    out: &mut [f32],
    states: &mut [f32],
    inputs: &Recurrence<'_, Weight, Buf>,
    (time, rates): (&Buf, &[f32]),
    step: &Step,
    (pool, f32): (&Pool, &F32Kernels),
) {
    let Recurrence { heads, key_dim: dim, q, k, v, .. } = *inputs;
    let (states, out) = (Split::new(states, heads * dim), Split::new(out, heads));
    pieces(pool, heads, v.rows * dim, &|some| {
        for first in some.clone().step_by(LINE) {
            let block = first..some.end.min(first + LINE);
            let place = block.start * dim..block.end * dim;
            for (t, (&sequence, &position)) in step.sequences.iter().zip(step.positions).enumerate() {
                // SAFETY: no two pieces have heads in common, and pieces are whole blocks.
                let (state, out) =
                    unsafe { (states.cell(sequence as usize, place.clone()), out.cell(t, block.clone())) };
                if position == 0 {
                    state.fill(0.0);
                }
                let row = KeyScan {
                    q: q.row(t),
                    k: k.row(t),
                    v: &v.row(t)[block.clone()],
                    time: &time.row(t)[block.clone()],
                    rate: &rates[place.clone()],
                };
                (f32.scan_keys)(out, state, row);
            }
        }
    });
}

/// Head by head, the state of each `[K][V]`.
fn by_heads(
    out: &mut [f32],
    states: &mut [f32],
    inputs: &Recurrence<'_, Weight, Buf>,
    step: &Step,
    (pool, f32): (&Pool, &F32Kernels),
) {
    let Recurrence { heads, key_heads, key_dim: dim, value_dim, q, k, v, decay, erase, bonus } = *inputs;
    let size = dim * value_dim;
    let (states, out) = (Split::new(states, heads * size), Split::new(out, v.width));
    let bonus = bonus.map(Weight::numbers);
    let together = (PIECE / (size * v.rows).max(1)).clamp(1, heads);
    pool.run(heads.div_ceil(together), &|index| {
        FADING.with_borrow_mut(|fading| {
            let fading = room(fading, dim);
            for h in index * together..heads.min((index + 1) * together) {
                let (own, values) = (h * dim..(h + 1) * dim, h * value_dim..(h + 1) * value_dim);
                let shared = h / (heads / key_heads) * dim..(h / (heads / key_heads) + 1) * dim;
                for (t, (&sequence, &position)) in step.sequences.iter().zip(step.positions).enumerate() {
                    // SAFETY: each head belongs to one index, and each index is run once.
                    let state = unsafe { states.cell(sequence as usize, h * size..(h + 1) * size) };
                    // SAFETY: as above.
                    let out = unsafe { out.cell(t, values.clone()) };
                    if position == 0 {
                        state.fill(0.0);
                    }
                    let fade = match decay {
                        Decay::Keys(factors) => &factors.row(t)[own.clone()],
                        Decay::Heads(factors) => {
                            fading.fill(factors.row(t)[h]);
                            &*fading
                        }
                        Decay::Rates { time, rate } => {
                            fading.copy_from_slice(&rate.numbers()[own.clone()]);
                            (f32.scale)(fading, time.row(t)[h]);
                            (f32.exp_sum)(fading, 0.0);
                            &*fading
                        }
                    };
                    let row = Scan {
                        q: &q.row(t)[shared.clone()],
                        k: &k.row(t)[shared.clone()],
                        v: &v.row(t)[values.clone()],
                        fade,
                        erase: erase.map(|(a, b)| (&a.row(t)[own.clone()], &b.row(t)[own.clone()])),
                        bonus: bonus.map(|bonus| &bonus[own.clone()]),
                    };
                    (f32.scan)(out, state, row);
                }
            }
        });
    });
}
