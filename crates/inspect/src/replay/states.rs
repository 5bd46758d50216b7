//! How operations with a state are computed, as data: convolutions along a sequence, and linear recurrences. Sums run in
//! f64; what a state keeps between rows is f32, as in every engine.

use candor_ops::{Decay, Recurrence, Tensor};

use super::weight::Matrix;
use crate::Value;

/// A causal convolution of each column along the tokens.
pub struct Conv {
    /// `[width, taps]`, the tap of the newest row last.
    pub weight: Matrix,
    /// Which row lies a number of rows before token `t`; `None` reads zeros.
    pub source: Box<dyn Fn(usize, usize) -> Option<usize>>,
}

impl Conv {
    /// The convolution of rows at these positions: before position 0 there is nothing.
    pub(super) fn new(weight: Matrix, positions: Vec<u32>) -> Conv {
        let known = move |t: usize, back: usize| t.checked_sub(back).filter(|_| back <= positions[t] as usize);
        Conv { weight, source: Box::new(known) }
    }

    pub(super) fn run(&self, x: &Value) -> Value {
        let (taps, mut out) = (self.weight.cols, Value::zeros(x.rows, x.width));
        for t in 0..x.rows {
            let rows: Vec<Option<&[f32]>> = (0..taps)
                .map(|tap| (self.source)(t, taps - 1 - tap).filter(|&row| row < x.rows).map(|row| x.row(row)))
                .collect();
            for (c, out) in out.row_mut(t).iter_mut().enumerate() {
                let taps = rows.iter().zip(self.weight.row(c));
                let sum: f64 = taps.map(|(row, &w)| row.map_or(0.0, |row| f64::from(row[c]) * f64::from(w))).sum();
                *out = sum as f32;
            }
        }
        out
    }
}

/// How the state of a recurrence fades.
#[derive(Clone, Debug)]
pub enum Fading {
    /// By a factor per head and key.
    Keys,
    /// By a factor per head.
    Heads,
    /// By `exp(time * rate)`, `[heads, key_dim]`.
    Rates(Tensor),
}

/// A recurrence as a wiring asks for it, without its inputs: queries, keys, values, decay, and where it erases what is read
/// from the state and what is added for that.
#[derive(Clone, Debug)]
pub struct Recurring {
    /// Heads, each with a state.
    pub heads: usize,
    /// Heads of queries and keys.
    pub key_heads: usize,
    /// Elements of a query or key.
    pub key_dim: usize,
    /// Elements of a value.
    pub value_dim: usize,
    /// How the state fades.
    pub fading: Fading,
    /// Whether something is taken back before something is added.
    pub erases: bool,
    /// What the newest key and value count for (RWKV-6), `[heads * key_dim]`.
    pub bonus: Option<Tensor>,
}

impl Recurring {
    pub(crate) fn of<B>(inputs: &Recurrence<'_, Tensor, B>) -> Recurring {
        let Recurrence { heads, key_heads, key_dim, value_dim, erase, bonus, .. } = *inputs;
        let fading = match inputs.decay {
            Decay::Keys(_) => Fading::Keys,
            Decay::Heads(_) => Fading::Heads,
            Decay::Rates { rate, .. } => Fading::Rates(rate.clone()),
        };
        Recurring { heads, key_heads, key_dim, value_dim, fading, erases: erase.is_some(), bonus: bonus.cloned() }
    }

    /// The weight that it reads, where it reads one.
    pub(crate) fn weight(&self) -> Option<&Tensor> {
        match &self.fading {
            Fading::Rates(rate) => Some(rate),
            _ => self.bonus.as_ref(),
        }
    }
}

/// What is done to a head's state before a token: the token, the state's elements, and how many values a row has.
pub type Kept = dyn Fn(usize, &mut [f32], usize);

/// A recurrence.
pub struct Recur {
    /// Its dimensions.
    pub shape: Recurring,
    /// `[heads, key_dim]`, where the state fades by rates.
    pub rates: Option<Matrix>,
    /// `[heads * key_dim]`.
    pub bonus: Option<Vec<f32>>,
    /// The factor of the state from time and rate.
    pub fade: fn(f64, f64) -> f64,
    /// What a given factor of the state is taken for.
    pub factor: fn(f64) -> f64,
    /// Whether the state is zero before token `t`.
    pub begins: Box<dyn Fn(usize) -> bool>,
    /// Whether the output is read before the newest key and value are added.
    pub late: bool,
    /// On what is taken back.
    pub erasing: f64,
    /// Which head of queries and keys a head has.
    pub group: fn(usize, &Recurring) -> usize,
    /// Whether token `t` goes through the state twice.
    pub twice: Box<dyn Fn(usize) -> bool>,
    /// What becomes of a head's state before token `t`: its elements, and how many values a row has.
    pub kept: Box<Kept>,
    /// On what enters the state, by the factor that the state fades by.
    pub held: fn(f64) -> f64,
    /// Whether the state fades along its values, not along its keys.
    pub fades_values: bool,
    /// Whether what enters fades at once.
    pub newest_fades: bool,
    /// On a head's queries, and on its keys.
    pub sizes: [fn(&[f32]) -> f64; 2],
}

impl Recur {
    pub(super) fn new(shape: &Recurring, positions: Vec<u32>) -> Recur {
        let rates = match &shape.fading {
            Fading::Rates(rate) => Some(Matrix::decode(rate)),
            _ => None,
        };
        Recur {
            rates,
            bonus: shape.bonus.as_ref().map(|bonus| Matrix::decode(bonus).values),
            shape: shape.clone(),
            fade: |time, rate| (time * rate).exp(),
            factor: |factor| factor,
            begins: Box::new(move |t| positions[t] == 0),
            late: false,
            erasing: 1.0,
            group: |h, shape| h / (shape.heads / shape.key_heads.max(1)).max(1),
            twice: Box::new(|_| false),
            kept: Box::new(|_, _, _| {}),
            held: |_| 1.0,
            fades_values: false,
            newest_fades: false,
            sizes: [|_| 1.0; 2],
        }
    }

    /// Inputs are in the order of [`Recurrence::buffers`].
    pub(super) fn run(&self, inputs: &[&Value]) -> Value {
        let Recurring { heads, key_dim: dim, value_dim, erases, .. } = self.shape;
        let [q, k, v, decay] = [inputs[0], inputs[1], inputs[2], inputs[3]];
        let mut out = Value::zeros(v.rows, heads * value_dim);
        let mut states = vec![0.0f32; heads * dim * value_dim];
        let times = |t: usize| std::iter::repeat_n(t, 1 + usize::from((self.twice)(t)));
        for t in (0..v.rows).flat_map(times) {
            if (self.begins)(t) {
                states.fill(0.0);
            }
            for (h, state) in states.chunks_exact_mut(dim * value_dim).enumerate() {
                (self.kept)(t, state, value_dim);
                let shared = (self.group)(h, &self.shape) * dim;
                let [of_query, of_key] = [0, 1].map(|n| (self.sizes[n])(&[q, k][n].row(t)[shared..][..dim]));
                let of_head = |x: &Value, i: usize| f64::from(x.row(t)[h * dim + i]);
                let fading: Vec<f64> = (0..dim)
                    .map(|i| match (&self.shape.fading, &self.rates) {
                        (Fading::Rates(_), Some(rates)) => {
                            (self.fade)(f64::from(decay.row(t)[h]), f64::from(rates.values[h * dim + i]))
                        }
                        (Fading::Keys, _) => (self.factor)(of_head(decay, i)),
                        _ => (self.factor)(f64::from(decay.row(t)[h])),
                    })
                    .collect();
                let held: Vec<f64> = fading
                    .iter()
                    .map(|&fade| of_key * (self.held)(fade) * if self.newest_fades { fade } else { 1.0 })
                    .collect();
                for j in 0..value_dim {
                    let value = f64::from(v.row(t)[h * value_dim + j]);
                    let erased: f64 = match erases {
                        true => (0..dim).map(|i| of_head(inputs[4], i) * f64::from(state[i * value_dim + j])).sum(),
                        false => 0.0,
                    };
                    let mut sum = 0.0;
                    for i in 0..dim {
                        let old = f64::from(state[i * value_dim + j]);
                        let added = f64::from(k.row(t)[shared + i]) * value * held[i];
                        let back = if erases { of_head(inputs[5], i) * erased * self.erasing } else { 0.0 };
                        let new = old * fading[if self.fades_values { j } else { i }] + back + added;
                        state[i * value_dim + j] = new as f32;
                        let seen = match (&self.bonus, self.late) {
                            (Some(bonus), _) => old + f64::from(bonus[h * dim + i]) * added,
                            (None, true) => old,
                            (None, false) => new,
                        };
                        sum += f64::from(q.row(t)[shared + i]) * of_query * seen;
                    }
                    out.row_mut(t)[h * value_dim + j] = sum as f32;
                }
            }
        }
        out
    }
}
