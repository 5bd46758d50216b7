//! What convolutions and recurrences mean, in f64, on states of their own; and how far the f32 states of a right backend
//! may have moved away from them.

use candor_ops::{Decay, Recurrence, Step};

use crate::{formulas::Expected, ledger::FLOOR};

/// A state of all sequences, and how far a backend's may be off.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    values: Vec<f64>,
    /// Per sequence and column of each head's matrix: the length of the column's error.
    slack: Vec<f64>,
}

impl State {
    /// Zeros.
    pub(crate) fn new(len: usize) -> State {
        State { values: vec![0.0; len], slack: Vec::new() }
    }
}

/// `out[t][c] = sum_j w[c][j] * x[t - (taps - 1) + j][c]`; the rows before the step are the state, `[taps - 1, width]`.
pub(crate) fn convolved(state: &mut State, x: &[f32], (w, taps): (&[f32], usize), step: &Step) -> Vec<Expected> {
    let width = w.len() / taps.max(1);
    // This many products and sums, each rounded by at most 2^-24 of what is added up. States hold f32 inputs exactly.
    let bound = (taps + 4) as f64 * f64::from(f32::EPSILON);
    let mut out = Vec::with_capacity(x.len());
    for (t, row) in x.chunks_exact(width.max(1)).enumerate() {
        let kept = (taps - 1) * width;
        let before = &mut state.values[step.sequences[t] as usize * kept..][..kept];
        if step.positions[t] == 0 {
            before.fill(0.0);
        }
        for (c, (&x, w)) in row.iter().zip(w.chunks_exact(taps)).enumerate() {
            let past = (0..taps - 1).map(|j| before[j * width + c]).chain([f64::from(x)]);
            let terms = past.zip(w).map(|(x, &w)| x * f64::from(w));
            let (value, scale) = terms.fold((0.0, 0.0), |(sum, size): (f64, f64), x| (sum + x, size + x.abs()));
            out.push(Expected { value, scale, bound });
        }
        if taps > 1 {
            before.copy_within(width.., 0);
            before[(taps - 2) * width..].iter_mut().zip(row).for_each(|(out, &x)| *out = x.into());
        }
    }
    out
}

/// [`Recurrence`], head by head and column by column of the state.
///
/// One step rounds a column by at most `gamma` times the length of what it is made of, without signs. What was off before
/// fades with the slowest key; where rows erase, the column keeps its error, as a stable recurrence makes none larger.
pub(crate) fn recurred(state: &mut State, inputs: &Recurrence<'_, Vec<f32>, Vec<f32>>, step: &Step) -> Vec<Expected> {
    let Recurrence { heads, key_heads, key_dim: dim, value_dim, q, k, v, decay, erase, bonus } = *inputs;
    let gamma = (dim as f64 + 16.0) * f64::from(f32::EPSILON);
    let (size, columns) = (inputs.state_len(), heads * value_dim);
    state.slack.resize(state.values.len() / size.max(1) * columns, 0.0);
    let mut out = Vec::with_capacity(v.len());
    for (t, (&sequence, &position)) in step.sequences.iter().zip(step.positions).enumerate() {
        let values = &mut state.values[sequence as usize * size..][..size];
        let slack = &mut state.slack[sequence as usize * columns..][..columns];
        if position == 0 {
            values.fill(0.0);
            slack.fill(0.0);
        }
        for (h, values) in values.chunks_exact_mut(dim * value_dim).enumerate() {
            let shared = (t * key_heads + h / (heads / key_heads)) * dim;
            let (q, k) = (&q[shared..][..dim], &k[shared..][..dim]);
            let own = |x: &Vec<f32>, i: usize| f64::from(x[(t * heads + h) * dim + i]);
            // The factor, and how much coarser than one rounding it may be: an exponential by its argument.
            let factor = |i: usize| match decay {
                Decay::Keys(factors) => (own(factors, i), 1.0),
                Decay::Heads(factors) => (f64::from(factors[t * heads + h]), 1.0),
                Decay::Rates { time, rate } => {
                    let exponent = f64::from(time[t * heads + h]) * f64::from(rate[h * dim + i]);
                    (exponent.exp(), 1.0 + exponent.abs())
                }
            };
            let factors: Vec<(f64, f64)> = (0..dim).map(factor).collect();
            let slowest = factors.iter().fold(0.0, |most: f64, factor| most.max(factor.0.abs()));
            let fading = if erase.is_some() { 1.0 } else { slowest };
            let length = q.iter().map(|&q| f64::from(q).powi(2)).sum::<f64>().sqrt();
            for j in 0..value_dim {
                let value = f64::from(v[(t * heads + h) * value_dim + j]);
                let read = |i: usize| erase.map_or(0.0, |(a, _)| own(a, i) * values[i * value_dim + j]);
                let (erased, erased_size) =
                    (0..dim).map(read).fold((0.0, 0.0), |(sum, size): (f64, f64), x| (sum + x, size + x.abs()));
                let (mut sum, mut scale, mut made) = (0.0, 0.0, 0.0);
                for i in 0..dim {
                    let (old, (factor, coarse)) = (values[i * value_dim + j], factors[i]);
                    let (added, back) = (f64::from(k[i]) * value, erase.map_or(0.0, |(_, b)| own(b, i)));
                    let new = old * factor + back * erased + added;
                    let parts = (old * factor).abs() * coarse + back.abs() * erased_size + added.abs();
                    values[i * value_dim + j] = new;
                    made += parts * parts;
                    let bonus = bonus.map(|bonus| f64::from(bonus[h * dim + i]) * added);
                    let (seen, seen_size) = bonus.map_or((new, parts), |bonus| (old + bonus, old.abs() + bonus.abs()));
                    sum += f64::from(q[i]) * seen;
                    scale += f64::from(q[i]).abs() * seen_size;
                }
                let slack = &mut slack[h * value_dim + j];
                let before = *slack;
                *slack = fading * before + gamma * made.sqrt();
                let state = if bonus.is_some() { before } else { *slack };
                let scale = scale.max(FLOOR);
                out.push(Expected { value: sum, scale, bound: (length * state) / scale + gamma });
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Step<'_> = Step { tokens: &[], positions: &[0, 1], sequences: &[0, 0], outputs: &[], decoding: 0 };

    #[test]
    fn a_convolution_looks_back() {
        let mut state = State::new(1);
        let values = |state: &mut State, positions: &[u32]| -> Vec<f64> {
            let step = Step { positions, ..STEP };
            convolved(state, &[1.0, 2.0], (&[10.0, 1.0], 2), &step).iter().map(|x| x.value).collect()
        };
        assert_eq!(values(&mut state, &[0, 1]), [1.0, 12.0]);
        assert_eq!(values(&mut state, &[2, 3]), [21.0, 12.0]);
        assert_eq!(values(&mut state, &[0, 1]), [1.0, 12.0], "position 0 begins anew");
    }

    /// `S` is 3 after the first row; the second halves it, erases twice what is read from it and adds 5.
    #[test]
    fn a_recurrence_fades_erases_and_adds() {
        let [one, v, decay, a, b] = [[1.0; 2], [3.0, 5.0], [0.5; 2], [2.0; 2], [-1.0; 2]].map(Vec::from);
        let inputs = Recurrence {
            heads: 1,
            key_heads: 1,
            key_dim: 1,
            value_dim: 1,
            q: &one,
            k: &one,
            v: &v,
            decay: Decay::Heads(&decay),
            erase: None,
            bonus: None,
        };
        let values = |inputs: &Recurrence<'_, Vec<f32>, Vec<f32>>| -> Vec<f64> {
            recurred(&mut State::new(1), inputs, &STEP).iter().map(|x| x.value).collect()
        };
        assert_eq!(values(&inputs), [3.0, 6.5]);
        assert_eq!(values(&Recurrence { erase: Some((&a, &b)), ..inputs }), [3.0, 0.5]);
        let bonus = vec![10.0];
        assert_eq!(values(&Recurrence { bonus: Some(&bonus), ..inputs }), [30.0, 53.0]);
    }
}
