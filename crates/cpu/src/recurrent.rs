//! Layers whose past is a state of fixed size: short convolutions and linear recurrences.
//!
//! Rows of a sequence follow each other, so what is dealt out to threads is columns and heads.

use candor_ops::{Decay, Recurrence, Step};

use crate::pool::Pool;
use crate::split::Split;
use crate::{Buf, Kv, Weight};

/// Columns of a convolution that a thread takes at a time.
const COLUMNS: usize = 256;

/// See [`candor_ops::Prims::conv`]. `w` is `[width][taps]`.
pub(crate) fn conv(
    out: &mut Buf,
    (kv, place): (&mut Kv, (usize, usize)),
    x: &Buf,
    (w, taps): (&[f32], usize),
    step: &Step,
    pool: &Pool,
) {
    let width = x.width;
    let (states, len) = kv.states(place);
    let states = Split::new(states, len.max(1));
    let out = Split::new(&mut out.values[..x.rows * width], width);
    pool.run(width.div_ceil(COLUMNS), &|index| {
        let columns = index * COLUMNS..width.min((index + 1) * COLUMNS);
        for (t, (&sequence, &position)) in step.sequences.iter().zip(step.positions).enumerate() {
            // SAFETY: each index is run once, and no two have columns in common; one borrow is used at a time.
            let state = |tap: usize| unsafe {
                states.cell(sequence as usize, tap * width + columns.start..tap * width + columns.end)
            };
            let row = &x.row(t)[columns.clone()];
            // SAFETY: as above.
            let out = unsafe { out.cell(t, columns.clone()) };
            for ((out, x), c) in out.iter_mut().zip(row).zip(columns.clone()) {
                *out = w[c * taps + taps - 1] * x;
            }
            for tap in 0..taps - 1 {
                let past = state(tap);
                if position == 0 {
                    past.fill(0.0);
                }
                for ((out, x), c) in out.iter_mut().zip(past.iter()).zip(columns.clone()) {
                    *out += w[c * taps + tap] * x;
                }
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
    pool: &Pool,
) {
    let Recurrence { heads, key_heads, key_dim: dim, value_dim, q, k, v, decay, erase, bonus } = inputs;
    let (states, len) = kv.states(place);
    let states = Split::new(states, len);
    let out = Split::new(&mut out.values[..v.rows * v.width], v.width);
    let rates = match decay {
        Decay::Rates { rate, .. } => rate.numbers(),
        Decay::Keys(_) | Decay::Heads(_) => Vec::new(),
    };
    let bonus = bonus.map(Weight::numbers);
    // Heads of one value are many and small.
    let together = (256 / value_dim).max(1);
    pool.run(heads.div_ceil(together), &|index| {
        let (mut factors, mut erased) = (vec![0.0f32; dim], vec![0.0f32; value_dim]);
        for h in index * together..heads.min((index + 1) * together) {
            let shared = h / (heads / key_heads) * dim;
            for (t, (&sequence, &position)) in step.sequences.iter().zip(step.positions).enumerate() {
                let size = dim * value_dim;
                // SAFETY: each head belongs to one index, and each index is run once.
                let (state, out) = unsafe {
                    (
                        states.cell(sequence as usize, h * size..(h + 1) * size),
                        out.cell(t, h * value_dim..(h + 1) * value_dim),
                    )
                };
                if position == 0 {
                    state.fill(0.0);
                }
                let own = |x: &'_ Buf| -> Vec<f32> { x.row(t)[h * dim..(h + 1) * dim].to_vec() };
                match decay {
                    Decay::Keys(x) => factors.copy_from_slice(&x.row(t)[h * dim..(h + 1) * dim]),
                    Decay::Heads(x) => factors.fill(x.row(t)[h]),
                    Decay::Rates { time, .. } => {
                        let time = time.row(t)[h];
                        let rates = &rates[h * dim..(h + 1) * dim];
                        factors.iter_mut().zip(rates).for_each(|(factor, rate)| *factor = (time * rate).exp());
                    }
                }
                let (q, k) = (&q.row(t)[shared..shared + dim], &k.row(t)[shared..shared + dim]);
                let v = &v.row(t)[h * value_dim..(h + 1) * value_dim];
                erased.fill(0.0);
                let back = erase.map(|(a, b)| {
                    for (state, a) in state.chunks_exact(value_dim).zip(own(a)) {
                        erased.iter_mut().zip(state).for_each(|(sum, s)| *sum += a * s);
                    }
                    own(b)
                });
                out.fill(0.0);
                for (i, state) in state.chunks_exact_mut(value_dim).enumerate() {
                    let (factor, back) = (factors[i], back.as_ref().map_or(0.0, |back| back[i]));
                    let bonus = bonus.as_ref().map(|bonus| bonus[h * dim + i]);
                    for (((s, &v), &erased), out) in state.iter_mut().zip(v).zip(&erased).zip(out.iter_mut()) {
                        let (old, added) = (*s, k[i] * v);
                        *s = old * factor + back * erased + added;
                        *out += q[i] * bonus.map_or(*s, |bonus| old + bonus * added);
                    }
                }
            }
        }
    });
}
