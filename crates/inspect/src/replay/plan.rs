//! How an operation is computed, as data: the right way by default. A fault is a small change of it, so that two faults
//! of one operation can stand side by side. Sums run in f64, results are rounded to f32.

use candor_ops::{Gate, Heads, NormKind, Rope, Router, Tensor, alibi_slope, relative_bucket};

use super::weight::Matrix;
use crate::{Value, attending::Attending};

/// Rows of a table.
pub struct Embed {
    /// Which row each token takes; rows outside of the table are zero.
    pub rows: Vec<i64>,
    /// On every element.
    pub factor: f64,
    /// `[vocabulary, width]`.
    pub table: Matrix,
}

impl Embed {
    pub(super) fn run(&self) -> Value {
        let mut out = Value::zeros(self.rows.len(), self.table.cols);
        for (t, &row) in self.rows.iter().enumerate() {
            if let Some(row) = usize::try_from(row).ok().filter(|&row| row < self.table.rows) {
                for (out, &x) in out.row_mut(t).iter_mut().zip(self.table.row(row)) {
                    *out = (f64::from(x) * self.factor) as f32;
                }
            }
        }
        out
    }
}

/// Rows of a table of learned positions, added to a value.
pub struct Positions {
    /// Which row each token takes; rows outside of the table add nothing.
    pub rows: Vec<i64>,
    /// `[positions, width]`.
    pub table: Matrix,
}

impl Positions {
    pub(super) fn run(&self, x: &Value) -> Value {
        let mut out = x.clone();
        for (t, &row) in self.rows.iter().enumerate() {
            if let Some(row) = usize::try_from(row).ok().filter(|&row| row < self.table.rows) {
                out.row_mut(t).iter_mut().zip(self.table.row(row)).for_each(|(x, &y)| *x += y);
            }
        }
        out
    }
}

/// What a norm divides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// `sqrt(mean(x^2) + eps)`.
    RootMeanSquare,
    /// `sqrt(mean(x^2)) + eps`.
    RootMeanSquarePlusEps,
    /// The same with one element fewer in the mean.
    RootMeanSquareUnbiased,
    /// `mean(x^2) + eps`.
    MeanSquare,
    /// `sqrt(sum(x^2) + eps)`.
    RootSumSquare,
    /// `1 / sqrt(mean(x^2) + eps)`.
    Inverse,
    /// One.
    Nothing,
}

/// Over which elements the mean runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Runs of as many elements as the weight has.
    Runs,
    /// A token's whole row.
    Row,
    /// All of the first rows, as many as are said; each row behind them by itself.
    Batch(usize),
}

/// A norm.
pub struct Norm {
    /// `[run]` or as wide as a row; empty where there is no weight.
    pub weight: Vec<f32>,
    /// As wide as the weight; empty where there is no bias.
    pub bias: Vec<f32>,
    /// Elements that are normed together.
    pub run: usize,
    /// Added to the mean square.
    pub eps: f64,
    /// What is divided by.
    pub divisor: Divisor,
    /// Over which elements.
    pub scope: Scope,
    /// Whether the mean is taken away first, as in LayerNorm.
    pub centred: bool,
    /// Whether squares are those of what differs from the mean, as in LayerNorm.
    pub deviation: bool,
    /// What happens to a square before it is added.
    pub square: fn(f64) -> f64,
}

impl Norm {
    pub(crate) fn new(norm: &candor_ops::Norm, weight: Vec<f32>, bias: Vec<f32>) -> Norm {
        let centred = norm.kind == NormKind::Layer;
        let divisor = if norm.kind == NormKind::L2 { Divisor::RootSumSquare } else { Divisor::RootMeanSquare };
        let (run, eps) = (norm.run, f64::from(norm.eps));
        Norm { weight, bias, run, eps, divisor, scope: Scope::Runs, centred, deviation: centred, square: |x| x }
    }

    pub(crate) fn run(&self, x: &Value) -> Value {
        let mut out = x.clone();
        let (first, scope) = match self.scope {
            Scope::Runs => (0, self.run),
            Scope::Row => (0, x.width),
            Scope::Batch(rows) => (rows * x.width, x.width),
        };
        let first = first.min(x.data.len());
        let (together, rest) = out.data.split_at_mut(first);
        self.fill(&x.data[..first], together, first);
        self.fill(&x.data[first..], rest, scope);
        out
    }

    /// Norms as many elements together each time.
    fn fill(&self, x: &[f32], out: &mut [f32], scope: usize) {
        let scope = scope.max(1);
        for (index, (x, out)) in x.chunks(scope).zip(out.chunks_mut(scope)).enumerate() {
            let len = x.len() as f64;
            let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / len;
            let around = if self.deviation { mean } else { 0.0 };
            let sum: f64 = x.iter().map(|&x| (self.square)((f64::from(x) - around).powi(2))).sum();
            let (square, taken) = (sum / len, if self.centred { mean } else { 0.0 });
            let factor = match self.divisor {
                Divisor::RootMeanSquare => 1.0 / (square + self.eps).sqrt(),
                Divisor::RootMeanSquareUnbiased => 1.0 / (sum / (len - 1.0).max(1.0) + self.eps).sqrt(),
                Divisor::MeanSquare => 1.0 / (square + self.eps),
                Divisor::RootMeanSquarePlusEps => 1.0 / (square.sqrt() + self.eps),
                Divisor::RootSumSquare => 1.0 / (sum + self.eps).sqrt(),
                Divisor::Inverse => (square + self.eps).sqrt(),
                Divisor::Nothing => 1.0,
            };
            for (at, (out, &x)) in out.iter_mut().zip(x).enumerate() {
                let of = |list: &[f32], none: f64| match list.len() {
                    0 => none,
                    len => f64::from(list[(index * scope + at) % len]),
                };
                *out = ((f64::from(x) - taken) * factor * of(&self.weight, 1.0) + of(&self.bias, 0.0)) as f32;
            }
        }
    }
}

/// A rotation.
pub struct Turn {
    /// Elements of a head that turn together, in the order in which they are computed, and radians per position.
    pub pairs: Vec<(usize, usize, f64)>,
    /// Where each row stands.
    pub positions: Vec<f64>,
    /// On what is rotated.
    pub magnitude: f64,
    /// Width of a head.
    pub head_dim: usize,
    /// On the sine of the second element in the first: -1, as it turns.
    pub negated: f64,
    /// What happens to an angle before it is used.
    pub angle: fn(f64) -> f64,
    /// What happens to a sine or cosine before it is used.
    pub store: fn(f64) -> f64,
    /// Whether a head's index stands for its token's position.
    pub by_head: bool,
    /// Whether a head's elements lie as many heads apart instead of side by side.
    pub across: bool,
}

impl Turn {
    pub(crate) fn new(rope: &Rope, head_dim: usize, positions: &[u32]) -> Turn {
        let pairs = rope.frequencies.iter().enumerate().map(|(pair, &frequency)| {
            let (i, j) = rope.elements(pair);
            (i, j, frequency)
        });
        Turn {
            pairs: pairs.collect(),
            positions: positions.iter().copied().map(f64::from).collect(),
            magnitude: rope.magnitude,
            head_dim,
            negated: -1.0,
            angle: |angle| angle,
            store: |x| x,
            by_head: false,
            across: false,
        }
    }

    /// What each pair does at a position.
    fn turns(&self, position: f64) -> Vec<(usize, usize, f64, f64)> {
        let turn = |&(i, j, frequency): &(usize, usize, f64)| {
            let (sin, cos) = (self.angle)(position * frequency).sin_cos();
            (i, j, (self.store)(cos) * self.magnitude, (self.store)(sin) * self.magnitude)
        };
        self.pairs.iter().map(turn).collect()
    }

    pub(crate) fn run(&self, x: &Value) -> Value {
        let mut out = if self.across { across(x, self.head_dim) } else { x.clone() };
        for (t, &position) in self.positions.iter().enumerate() {
            let mut turns = self.turns(position);
            for (h, head) in out.row_mut(t).chunks_exact_mut(self.head_dim).enumerate() {
                if self.by_head {
                    turns = self.turns(h as f64);
                }
                for &(i, j, cos, sin) in &turns {
                    let (a, b) = (f64::from(head[i]), f64::from(head[j]));
                    head[i] = (a * cos + self.negated * b * sin) as f32;
                    head[j] = (a * sin + b * cos) as f32;
                }
            }
        }
        out
    }
}

/// Rows of `[head_dim, heads]` as rows of `[heads, head_dim]`.
pub(crate) fn across(x: &Value, head_dim: usize) -> Value {
    let (mut out, heads) = (x.clone(), x.width / head_dim.max(1));
    for t in 0..x.rows {
        let old = x.row(t);
        out.row_mut(t).iter_mut().enumerate().for_each(|(at, out)| *out = old[at % head_dim * heads + at / head_dim]);
    }
    out
}

/// Which row of the keys (or values) a query at token `t` reads where it means position `p`; `None` reads zeros.
pub type Source = Box<dyn Fn(usize, usize) -> Option<usize>>;

/// Elements of a key or value row that a query head reads: the first and how many.
pub type Slices = Vec<(usize, usize)>;

fn slices(heads: &Heads, dim: usize) -> Slices {
    (0..heads.heads).map(|h| (h / (heads.heads / heads.kv_heads) * dim, dim)).collect()
}

/// Queries times keys.
pub struct Scores {
    /// Query heads.
    pub heads: Heads,
    /// What each head reads of a key row.
    pub slices: Slices,
    /// Which row.
    pub source: Source,
    /// What happens to a score at once.
    pub store: fn(f64) -> f64,
}

impl Scores {
    pub(crate) fn new(heads: Heads) -> Scores {
        let slices = slices(&heads, heads.key_dim);
        Scores { heads, slices, source: Box::new(|_, p| Some(p)), store: |score| score }
    }

    pub(crate) fn run(&self, q: &Value, k: &Value) -> Value {
        let (tokens, keys, dim) = (q.rows, k.rows, self.heads.key_dim);
        let mut out = Value::zeros(tokens, self.heads.heads * keys);
        for t in 0..tokens {
            for (h, &(start, len)) in self.slices.iter().enumerate() {
                let query = &q.row(t)[h * dim..][..dim];
                for p in 0..keys {
                    let Some(row) = (self.source)(t, p).filter(|&row| row < k.rows) else { continue };
                    let key = &k.row(row)[start..][..len];
                    let score: f64 = query.iter().zip(key).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum();
                    out.data[(t * self.heads.heads + h) * keys + p] = (self.store)(score) as f32;
                }
            }
        }
        out
    }
}

/// What a softmax sums over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Positions, for each query.
    Keys,
    /// Queries, for each position.
    Queries,
    /// Heads, for each query and position.
    Heads,
}

/// When the mask acts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Masking {
    /// Before the softmax.
    Before,
    /// After it, so that rows no longer sum to one.
    After,
    /// Before the softmax, by taking away no more than this.
    Weak(f64),
    /// Before the cap, which makes it the least score that the cap lets through.
    BeforeCap,
}

/// Scale, mask and softmax.
pub struct SoftMax {
    /// Query heads.
    pub heads: Heads,
    /// On scores.
    pub scale: f64,
    /// Whether token `t` sees position `p`.
    pub visible: Box<dyn Fn(usize, usize) -> bool>,
    /// Added to the score of head `h`, token `t`, position `p`.
    pub bias: Box<dyn Fn(usize, usize, usize) -> f64>,
    /// What the scaled score is squashed to, before the bias.
    pub cap: Option<f64>,
    /// How a score is squashed to a cap: `c * tanh(s / c)`.
    pub squash: fn(f64, f64) -> f64,
    /// Whether the cap comes before the scale.
    pub cap_first: bool,
    /// Whether position `p` is in memory when token `t` is computed, seen or not.
    pub stored: Box<dyn Fn(usize, usize) -> bool>,
    /// Slots of zeros that token `t` sees besides.
    pub empty: Box<dyn Fn(usize) -> usize>,
    /// A score per head that takes its share of the sum.
    pub sinks: Option<Vec<f64>>,
    /// Whether the largest score is taken from sinks, too.
    pub shifted_sinks: bool,
    /// Rows of the first call, where a softmax over queries runs over those of one call: each row behind them is alone.
    pub together: usize,
    /// For which tokens sinks count.
    pub sunk: Box<dyn Fn(usize) -> bool>,
    /// What is summed over.
    pub axis: Axis,
    /// When the mask acts.
    pub masking: Masking,
    /// The exponential of a shifted score.
    pub exp: fn(f64, f64) -> f64,
}

impl SoftMax {
    /// Where queries stand, and keys, says `positions`; `together` is how many rows are computed at once, before others
    /// follow one by one.
    pub(super) fn new(attending: &Attending, positions: [Vec<u32>; 2], together: usize) -> SoftMax {
        let Attending { heads, mask, soft_cap, alibi, sinks, relative } = attending;
        let (heads, mask, alibi) = (*heads, *mask, *alibi);
        let [places, keys] =
            positions.map(|list| list.into_iter().map(|position| position as usize).collect::<Vec<usize>>());
        let len = keys.iter().max().map_or(0, |last| last + 1);
        let seen = (places.clone(), keys.clone());
        let table = relative.as_ref().map(|(table, most)| (Matrix::decode(table), *most));
        let bias = move |h: usize, t: usize, p: usize| {
            let slope = alibi.map_or(0.0, |max| alibi_slope(h, heads.heads, max));
            let learned = table.as_ref().map_or(0.0, |(table, most)| {
                let distance = keys[p] as i64 - places[t] as i64;
                f64::from(table.row(relative_bucket(distance, mask.is_both(), table.rows, *most))[h])
            });
            learned - slope * places[t].abs_diff(keys[p]) as f64
        };
        SoftMax {
            heads,
            scale: f64::from(heads.scale),
            visible: Box::new(move |t, p| mask.seen(seen.0[t], len).contains(&seen.1[p])),
            bias: Box::new(bias),
            cap: soft_cap.map(f64::from),
            squash: |score, cap| cap * (score / cap).tanh(),
            cap_first: false,
            stored: Box::new(move |t, p| p < together || p <= t),
            empty: Box::new(|_| 0),
            shifted_sinks: true,
            together: usize::MAX,
            sunk: Box::new(|_| true),
            sinks: sinks.as_ref().map(|sinks| Matrix::decode(sinks).values.into_iter().map(f64::from).collect()),
            axis: Axis::Keys,
            masking: Masking::Before,
            exp: |score, max| (score - max).exp(),
        }
    }

    pub(super) fn run(&self, scores: &Value) -> Value {
        let (tokens, heads) = (scores.rows, self.heads.heads);
        let keys = scores.width / heads;
        let at = |t: usize, h: usize, p: usize| (t * heads + h) * keys + p;
        // Lines of what is normalised together, of each head or, where heads are, of each token.
        let (outer, lines, along) = match self.axis {
            Axis::Keys => (heads, tokens, keys),
            Axis::Queries => (heads, keys, tokens),
            Axis::Heads => (tokens, keys, heads),
        };
        let mut out = Value::zeros(tokens, scores.width);
        let score = |h: usize, t: usize, p: usize| {
            let seen = (self.visible)(t, p);
            if !seen && (self.masking == Masking::Before || !(self.stored)(t, p)) {
                return f64::NEG_INFINITY;
            }
            let raw = f64::from(scores.data[at(t, h, p)]);
            let capped = |score: f64| self.cap.map_or(score, |cap| (self.squash)(score, cap));
            let score = if self.cap_first { capped(raw) * self.scale } else { capped(raw * self.scale) };
            match self.masking {
                Masking::Weak(less) if !seen => score + (self.bias)(h, t, p) - less,
                Masking::BeforeCap if !seen => self.cap.map_or(f64::NEG_INFINITY, |cap| -cap),
                _ => score + (self.bias)(h, t, p),
            }
        };
        for first in 0..outer {
            for line in 0..lines {
                let place = |i: usize| match self.axis {
                    Axis::Keys => (first, line, i),
                    Axis::Queries => (first, i, line),
                    Axis::Heads => (i, first, line),
                };
                let empty = if self.axis == Axis::Keys { (self.empty)(line) } else { 0 };
                let sunk = self.axis == Axis::Queries || self.axis == Axis::Keys && (self.sunk)(line);
                let sinks = self.sinks.as_ref().filter(|_| sunk);
                let line: Vec<f64> = (0..along)
                    .map(|i| {
                        let (h, t, p) = place(i);
                        score(h, t, p)
                    })
                    .collect();
                let max = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let exps: Vec<f64> =
                    line.iter().map(|&s| if s == f64::NEG_INFINITY { 0.0 } else { (self.exp)(s, max) }).collect();
                let shift = if self.shifted_sinks { max } else { 0.0 };
                let sink = sinks.map_or(0.0, |sinks| (sinks[first] - shift).exp());
                let call = if self.axis == Axis::Queries { self.together.min(along) } else { along };
                let sum: f64 = exps[..call].iter().sum::<f64>() + sink + empty as f64 * (self.exp)(0.0, max);
                for (i, exp) in exps.into_iter().enumerate() {
                    let (h, t, p) = place(i);
                    // A row that is alone has all of what it sees, and keys of later calls are not there yet.
                    let sum = match self.together {
                        usize::MAX => sum,
                        _ if exp == 0.0 => 1.0,
                        _ if i < call => sum,
                        _ => exp,
                    };
                    // Heads of what nobody sees are not summed at all.
                    let seen = (self.masking != Masking::After && self.axis != Axis::Heads) || (self.visible)(t, p);
                    // A line that sees nothing divides zero by zero in every engine that does not guard it.
                    out.data[at(t, h, p)] = if seen { (exp / sum) as f32 } else { 0.0 };
                }
            }
        }
        out
    }
}

/// Values weighted by attention.
pub struct Mix {
    /// Query heads.
    pub heads: Heads,
    /// What each head reads of a value row.
    pub slices: Slices,
    /// Which row.
    pub source: Source,
}

impl Mix {
    pub(super) fn new(heads: Heads) -> Mix {
        Mix { slices: slices(&heads, heads.value_dim), heads, source: Box::new(|_, p| Some(p)) }
    }

    pub(super) fn run(&self, weights: &Value, v: &Value) -> Value {
        let (tokens, heads, dim) = (weights.rows, self.heads.heads, self.heads.value_dim);
        let keys = weights.width / heads;
        let mut out = Value::zeros(tokens, heads * dim);
        let mut sum = vec![0.0f64; dim];
        for t in 0..tokens {
            for (h, &(start, len)) in self.slices.iter().enumerate() {
                sum.fill(0.0);
                for p in 0..keys {
                    let weight = f64::from(weights.data[(t * heads + h) * keys + p]);
                    let Some(row) = (self.source)(t, p).filter(|&row| row < v.rows && weight != 0.0) else { continue };
                    for (sum, &v) in sum.iter_mut().zip(&v.row(row)[start..][..len]) {
                        *sum += weight * f64::from(v);
                    }
                }
                for (out, &sum) in out.row_mut(t)[h * dim..].iter_mut().zip(&sum) {
                    *out = sum as f32;
                }
            }
        }
        out
    }
}

/// What chosen experts are weighed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighing {
    /// What the router makes of their logits.
    Gated,
    /// What they were chosen by, a bias included.
    Ranked,
    /// The softmax over all logits, whatever they were chosen by.
    Softmax,
    /// Their logits.
    Logits,
    /// As much each, together one.
    Alike,
    /// One each.
    One,
}

/// A choice of experts.
pub struct Choice {
    /// How they are chosen.
    pub router: Router,
    /// Added to what is chosen by.
    pub bias: Option<Vec<f32>>,
    /// What happens to a logit at once.
    pub logit: fn(f64) -> f64,
    /// Whether the gate's function is applied to its own result.
    pub twice: bool,
    /// The order of experts, the greatest first, from index and number.
    pub rank: fn(usize, f64) -> f64,
    /// How many of the best are passed over.
    pub passed_over: usize,
    /// How many of a group's best experts say what the group is worth.
    pub judges: usize,
    /// What the chosen are weighed with.
    pub weighing: Weighing,
    /// Of `n` weights, the one that the chosen expert of this rank gets.
    pub order: fn(usize, usize) -> usize,
    /// Taken from logits before the chosen are weighed.
    pub unweighed: Option<Vec<f32>>,
    /// Whether the bias is on logits, and so in weights too.
    pub bias_on_logits: bool,
    /// Whether expert `i` is of the group `i` modulo their number.
    pub groups_in_turn: bool,
    /// By which row's logits a row's experts are chosen.
    pub chosen_by: Box<dyn Fn(usize) -> usize>,
    /// Rows of the first call, where an expert takes no more than its fair share of a call's rows.
    pub capacity: Option<usize>,
}

impl Choice {
    pub(super) fn new(router: Router, bias: Option<&Tensor>) -> Choice {
        Choice {
            router,
            bias: bias.map(|bias| Matrix::decode(bias).values),
            logit: |logit| logit,
            twice: false,
            rank: |_, x| x,
            passed_over: 0,
            judges: 2,
            weighing: Weighing::Gated,
            order: |rank, _| rank,
            unweighed: None,
            bias_on_logits: false,
            groups_in_turn: false,
            chosen_by: Box::new(|row| row),
            capacity: None,
        }
    }

    /// An expert and its weight, a number of times a row.
    pub(super) fn run(&self, logits: &Value) -> Value {
        let mut out = Value::zeros(logits.rows, 2 * self.router.used);
        for t in 0..logits.rows {
            let by = (self.chosen_by)(t).min(logits.rows - 1);
            let chosen = self.choose(logits.row(t), logits.row(by));
            for (pair, (expert, weight)) in out.row_mut(t).chunks_exact_mut(2).zip(chosen) {
                pair.copy_from_slice(&[expert as f32, weight as f32]);
            }
        }
        if let Some(first) = self.capacity.map(|first| first.min(out.rows)) {
            let mut taken = vec![0; self.router.experts];
            let full = (first * self.router.used).div_ceil(self.router.experts.max(1));
            for pair in out.data[..first * 2 * self.router.used].chunks_exact_mut(2) {
                let taken = &mut taken[pair[0] as usize];
                *taken += 1;
                pair[1] = if *taken > full { 0.0 } else { pair[1] };
            }
        }
        out
    }

    /// The experts of one row by the logits of one, the best first, and their weights. Of equals the first is taken.
    fn choose(&self, logits: &[f32], by: &[f32]) -> Vec<(usize, f64)> {
        let Router { used, gate, normalized, scale, .. } = self.router;
        if let Gate::SparseMixer(_) = gate {
            return self.router.choose(logits, self.bias.as_deref());
        }
        let bias = |i: usize| self.bias.as_ref().map_or(0.0, |bias| f64::from(bias[i]));
        let read = |logits: &[f32]| -> Vec<f64> {
            let early = |i: usize| if self.bias_on_logits { bias(i) } else { 0.0 };
            logits.iter().enumerate().map(|(i, &x)| (self.logit)(x.into()) + early(i)).collect()
        };
        let logits = read(logits);
        let open = |logits: &[f64]| match gate {
            Gate::Softmax => softened(logits),
            Gate::Sigmoid => logits.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect(),
            _ => logits.to_vec(),
        };
        let gated = |logits: &[f64]| if self.twice { open(&open(logits)) } else { open(logits) };
        let gates = gated(&logits);
        let late = |i: usize| if self.bias_on_logits { 0.0 } else { bias(i) };
        let ranked: Vec<f64> = gated(&read(by)).iter().enumerate().map(|(i, x)| x + late(i)).collect();
        // Numbers that are none sort last, so that the choice is defined.
        let number = |x: f64| if x.is_nan() { f64::NEG_INFINITY } else { x };
        let mut order: Vec<usize> = self.allowed(&ranked);
        let rank = |i: &usize| number((self.rank)(*i, ranked[*i]));
        order.sort_by(|a, b| rank(b).total_cmp(&rank(a)).then(a.cmp(b)));
        let chosen: Vec<usize> = order.into_iter().skip(self.passed_over).take(used).collect();
        let of = |from: &[f64]| -> Vec<f64> { chosen.iter().map(|&i| from[i]).collect() };
        let mut weights = match (self.weighing, &self.unweighed) {
            (Weighing::Gated, None) => of(&gates),
            (Weighing::Gated, Some(less)) => {
                let logits: Vec<f64> = logits.iter().zip(less).map(|(x, &less)| x - f64::from(less)).collect();
                of(&gated(&logits))
            }
            (Weighing::Ranked, _) => of(&ranked),
            (Weighing::Softmax, _) => of(&softened(&logits)),
            // What takes the place of the weights is not changed any more.
            (Weighing::Logits, _) => return chosen.iter().map(|&i| (i, logits[i])).collect(),
            (Weighing::Alike, _) => return chosen.iter().map(|&i| (i, 1.0 / chosen.len() as f64)).collect(),
            (Weighing::One, _) => return chosen.iter().map(|&i| (i, 1.0)).collect(),
        };
        if gate == Gate::SoftmaxOfChosen {
            weights = softened(&weights);
        }
        if normalized {
            let sum = weights.iter().sum::<f64>().max(6.103_515_625e-5);
            weights.iter_mut().for_each(|weight| *weight /= sum);
        }
        let ranked = (0..weights.len()).map(|rank| weights[(self.order)(rank, weights.len())] * f64::from(scale));
        chosen.into_iter().zip(ranked).collect()
    }

    /// The experts of the groups that may be chosen from.
    fn allowed(&self, ranked: &[f64]) -> Vec<usize> {
        let (groups, used) = self.router.groups;
        if groups <= 1 {
            return (0..ranked.len()).collect();
        }
        let size = (ranked.len() / groups).max(1);
        let members = |group: usize| -> Vec<usize> {
            match self.groups_in_turn {
                true => (group..ranked.len()).step_by(groups).collect(),
                false => (group * size..(group + 1) * size).collect(),
            }
        };
        let worth = |group: usize| {
            let mut group: Vec<f64> = members(group).into_iter().map(|expert| ranked[expert]).collect();
            group.sort_by(|a, b| b.total_cmp(a));
            group.iter().take(self.judges).sum::<f64>()
        };
        let worths: Vec<f64> = (0..groups).map(worth).collect();
        let mut order: Vec<usize> = (0..groups).collect();
        order.sort_by(|&a, &b| worths[b].total_cmp(&worths[a]).then(a.cmp(&b)));
        order.into_iter().take(used).flat_map(members).collect()
    }
}

fn softened(scores: &[f64]) -> Vec<f64> {
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exps: Vec<f64> = scores.iter().map(|x| (x - max).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.into_iter().map(|x| x / sum).collect()
}

#[cfg(test)]
mod tests {
    use candor_testing::Random;

    use super::*;

    #[test]
    fn experts_are_chosen_as_the_router_does() {
        let mut random = Random(11);
        let mut numbers = |count: usize| -> Vec<f32> { (0..count).map(|_| 4.0 * random.signed()).collect() };
        for gate in [Gate::Softmax, Gate::SoftmaxOfChosen, Gate::Sigmoid, Gate::SparseMixer(0.2)] {
            for (groups, normalized) in [((1, 1), false), ((4, 2), true), ((2, 1), false)] {
                let router = Router { experts: 16, used: 3, gate, groups, normalized, scale: 2.5 };
                let (logits, bias) = (numbers(16), numbers(16));
                for bias in [None, Some(bias)] {
                    let expected = router.choose(&logits, bias.as_deref());
                    let got = Choice { bias, ..Choice::new(router, None) }.choose(&logits, &logits);
                    let same = got.iter().zip(&expected).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-12);
                    assert!(same && got.len() == 3, "{got:?}, expected {expected:?}");
                }
            }
        }
    }
}
