//! The search that encoders of the IQ formats with codebooks share: scales and points of a block of 256 elements.
//!
//! A block has a scale `d`, a group of it a number `n`, and an element is `d * (2n + 1)` times a coordinate of a point. Wanted is the
//! least sum of `w * (x - decoded)^2`. First each group's scale is estimated as if all places of the lattice were points. That gives
//! `d`; then each group takes the best of a few numbers, with the best points of each; then `d` follows from the points, and so on.

use super::nearest::{Book, Costs, Digits};
use crate::half::{f16_to_f32, f32_to_f16};
use crate::lanes::Lanes;

/// What is known of the signs of elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Signs {
    /// Each has its own.
    Free,
    /// Of eight elements, an even number has a minus.
    Even,
    /// The levels have signs, and those of a group are all shifted, up or down.
    Shifted,
    /// The same of eight elements.
    ShiftedEach,
}

impl Signs {
    fn shifted(self) -> bool {
        matches!(self, Signs::Shifted | Signs::ShiftedEach)
    }

    /// The shifts to try with a group, and how many there are.
    fn shifts(self) -> ([f32; 2], usize) {
        match self {
            Signs::Free | Signs::Even => ([0.0; 2], 1),
            Signs::Shifted => ([SHIFT, -SHIFT], 2),
            Signs::ShiftedEach => ([SHIFT; 2], 1),
        }
    }
}

/// A format: points of `D` coordinates with `L` levels.
pub(super) trait Shape<const D: usize, const L: usize> {
    /// Elements of a group: 16 or 32.
    const GROUP: usize;
    /// The greatest number of a scale.
    const NUMBERS: i32;
    const SIGNS: Signs;
    /// What `d` is stored as, for a `d` of 1.
    const UNIT: f64;
    /// The levels.
    const LEVELS: [i8; L];
    /// The largest element of a group in steps of its scale: from the first to the last.
    const STEPS: (f32, f32);
    /// How much the mean square counts in weights: with importance, and alone.
    const SPREADS: (f32, f32);

    fn book() -> &'static Book;
}

/// The shift of [`Signs::Shifted`].
pub(super) const SHIFT: f32 = 0.125;

/// What a block becomes.
#[derive(Clone)]
pub(super) struct Found {
    /// The scale, a half.
    pub d: u16,
    /// Of each group.
    pub scales: [u8; 16],
    /// Of each `D` elements.
    pub points: [u16; 64],
    /// Of each eight elements: a bit for each minus, or whether the shift is one down.
    pub signs: [u8; 32],
}

/// A group with some scale.
#[derive(Clone, Copy)]
struct Group {
    cost: f32,
    points: [Digits; 8],
    signs: [u8; 4],
}

/// The weights of a block's elements and the elements, both scaled so that nothing over- or underflows.
struct Input {
    x: [f32; 256],
    w: [f32; 256],
    /// What `x` was divided by.
    by: f64,
}

/// Finds the block for elements with some importance.
#[inline(always)]
pub(super) fn fit<V: Lanes, S: Shape<D, L>, const D: usize, const L: usize>(
    values: &[f32; 256],
    importance: Option<&[f32; 256]>,
) -> Found {
    let mut best = Found { d: 0, scales: [0; 16], points: [0; 64], signs: [0; 32] };
    let Some(input) = Input::new::<S, D, L>(values, importance) else { return best };
    let book = S::book();
    let groups = 256 / S::GROUP;
    let scales = estimates::<V, S, D, L>(book, &input);
    let start = scales.iter().fold(0f32, |a, &b| a.max(b)) / (2 * S::NUMBERS + 1) as f32;
    let mut least = 0.0;
    for factor in FACTORS {
        let mut d = start * factor;
        let mut scales = scales;
        for _ in 0..ROUNDS {
            let half = stored::<S, D, L>(d, input.by);
            d = (f64::from(f16_to_f32(half)) / S::UNIT / input.by) as f32;
            if d == 0.0 {
                break;
            }
            let mut found = [Group { cost: 0.0, points: [0; 8], signs: [0; 4] }; 16];
            let mut numbers = [0; 16];
            let (mut sum_xq, mut sum_q2, mut cost) = (0.0, 0.0, 0.0);
            for g in 0..groups {
                let (x, w) = input.group::<S, D, L>(g);
                (found[g], numbers[g]) = group::<S, D, L>(book, x, w, scales[g], d);
                let (xq, q2) = sums::<S, D, L>(x, w, &found[g]);
                let by = (2 * numbers[g] + 1) as f32;
                scales[g] = if q2 > 0.0 { xq / q2 } else { 0.0 };
                sum_xq += by * xq;
                sum_q2 += by * by * q2;
                cost += found[g].cost;
            }
            // The best scale for these points.
            let next = if sum_q2 > 0.0 { sum_xq / sum_q2 } else { 0.0 };
            let other = stored::<S, D, L>(next, input.by);
            let at = (f64::from(f16_to_f32(other)) / S::UNIT / input.by) as f32;
            let other_cost = at * (at * sum_q2 - 2.0 * sum_xq);
            let (half, cost) = if other_cost < cost { (other, other_cost) } else { (half, cost) };
            if cost < least {
                least = cost;
                best.d = half;
                for g in 0..groups {
                    best.scales[g] = numbers[g] as u8;
                    let runs = S::GROUP / D;
                    for r in 0..runs {
                        best.points[g * runs + r] = book.number(found[g].points[r]);
                    }
                    let eights = S::GROUP / 8;
                    best.signs[g * eights..][..eights].copy_from_slice(&found[g].signs[..eights]);
                }
            }
            d = next;
        }
    }
    best
}

/// How many scales [`estimates`] tries with places of the lattice, and at most with points.
const STEPS: usize = 20;
const PEAKS: usize = 3;

const FACTORS: [f32; 1] = [1.0];
const ROUNDS: usize = 2;

/// The half that stands for a scale: finite.
fn stored<S: Shape<D, L>, const D: usize, const L: usize>(d: f32, by: f64) -> u16 {
    f32_to_f16((f64::from(d) * S::UNIT * by) as f32).min(0x7bff)
}

impl Input {
    /// Elements of a group, and weights.
    #[inline(always)]
    fn group<S: Shape<D, L>, const D: usize, const L: usize>(&self, number: usize) -> (&[f32], &[f32]) {
        let range = number * S::GROUP..(number + 1) * S::GROUP;
        (&self.x[range.clone()], &self.w[range])
    }

    /// Nothing where all elements are zero.
    #[inline(always)]
    fn new<S: Shape<D, L>, const D: usize, const L: usize>(
        values: &[f32; 256],
        importance: Option<&[f32; 256]>,
    ) -> Option<Input> {
        let magnitude = super::magnitude(values);
        if magnitude == 0.0 || !magnitude.is_finite() {
            return None;
        }
        let by = f64::from(magnitude);
        let x = values.map(|value| (f64::from(value) / by) as f32);
        let mean = (x.iter().map(|x| x * x).sum::<f32>()) / 256.0;
        let greatest = importance.map_or(0.0, |importance| importance.iter().fold(0f32, |a, &b| a.max(b)));
        let mut w = [0.0; 256];
        match importance.filter(|_| greatest > 0.0 && greatest.is_finite()) {
            Some(importance) => {
                for i in 0..256 {
                    w[i] = importance[i] / greatest * (S::SPREADS.0 * mean + x[i] * x[i]).sqrt();
                }
            }
            None => {
                for i in 0..256 {
                    w[i] = S::SPREADS.1 * mean + x[i] * x[i];
                }
            }
        }
        Some(Input { x, w, by })
    }
}

/// The best scales of groups. They are looked for as if all places of the lattice were points and signs were free; of the scales that
/// are better than those beside them, the best [`PEAKS`] are tried with points.
#[inline(always)]
fn estimates<V: Lanes, S: Shape<D, L>, const D: usize, const L: usize>(book: &Book, input: &Input) -> [f32; 16] {
    let mut scales = [0.0; 16];
    let (shifts, count) = if S::SIGNS.shifted() { ([SHIFT, -SHIFT], 2) } else { ([0.0; 2], 1) };
    for first in (0..256 / S::GROUP).step_by(V::COUNT) {
        // Scores and scales of each group: of each step, with nothing before and after.
        let mut tried = [[[(0.0, 0.0); STEPS + 2]; 2]; 8];
        for (side, &shift) in shifts[..count].iter().enumerate() {
            let levels = S::LEVELS.map(|level| f32::from(level) + shift);
            lattice::<V, S, D, L>(input, first, &levels, |step, lane, found| tried[lane][side][step + 1] = found);
        }
        for (lane, tried) in tried.iter().enumerate().take(V::COUNT) {
            let (x, w) = input.group::<S, D, L>(first + lane);
            let mut peaks = [(0.0, 0.0, 0.0); PEAKS];
            for (tried, &shift) in tried.iter().zip(&shifts[..count]) {
                for step in 1..=STEPS {
                    let (score, scale) = tried[step];
                    if score > 0.0 && score >= tried[step - 1].0 && score > tried[step + 1].0 {
                        let mut peak = (score, scale, shift);
                        for place in peaks.iter_mut().filter(|place| score > place.0) {
                            std::mem::swap(&mut peak, place);
                        }
                    }
                }
            }
            scales[first + lane] = if peaks[1].0 > 0.0 { highest::<S, D, L>(book, x, w, &peaks) } else { peaks[0].1 };
        }
    }
    scales
}

/// The scale among some that is best with points.
#[inline(always)]
fn highest<S: Shape<D, L>, const D: usize, const L: usize>(
    book: &Book,
    x: &[f32],
    w: &[f32],
    peaks: &[(f32, f32, f32); PEAKS],
) -> f32 {
    let (mut best, mut scale) = (0.0, 0.0);
    for &(_, peak, shift) in peaks.iter().filter(|peak| peak.0 > 0.0) {
        let (xq, q2) = sums::<S, D, L>(x, w, &points::<S, D, L>(book, x, w, peak, shift));
        if q2 > 0.0 && xq > 0.0 && xq * xq > best * q2 {
            scale = xq / q2;
            best = scale * xq;
        }
    }
    scale
}

/// Rounds groups to levels with [`STEPS`] scales each. Gives, for each step and lane, how much less than zeros they cost with the best
/// scale for the levels found, and that scale; nothing where there is no scale.
#[inline(always)]
fn lattice<V: Lanes, S: Shape<D, L>, const D: usize, const L: usize>(
    input: &Input,
    first: usize,
    levels: &[f32; L],
    mut give: impl FnMut(usize, usize, (f32, f32)),
) {
    let zero = V::all(0.0);
    let (mut x, mut w) = ([zero; 32], [zero; 32]);
    let mut magnitude = zero;
    for i in 0..S::GROUP {
        x[i] = V::each(|lane| input.x[(first + lane) * S::GROUP + i]);
        w[i] = V::each(|lane| input.w[(first + lane) * S::GROUP + i]);
        magnitude = magnitude.greatest(x[i].abs());
        x[i] = if S::SIGNS.shifted() { x[i] } else { x[i].abs() };
    }
    let (from, to) = S::STEPS;
    for step in 0..STEPS {
        let inverse = V::all(from + (to - from) * step as f32 / (STEPS - 1) as f32) / magnitude;
        let (mut xq, mut q2) = (zero, zero);
        for i in 0..S::GROUP {
            let scaled = x[i] * inverse;
            let mut q = V::all(levels[0]);
            for l in 1..L {
                let above = V::all(0.5 * (levels[l - 1] + levels[l])).less(scaled);
                q = V::select(above, V::all(levels[l]), q);
            }
            let weighted = w[i] * q;
            xq = xq + weighted * x[i];
            q2 = q2 + weighted * q;
        }
        let scale = V::select(V::both(zero.less(xq), zero.less(q2)), xq / q2, zero);
        let (scores, scales) = ((scale * xq).numbers(), scale.numbers());
        for lane in 0..V::COUNT {
            give(step, lane, (scores[lane], scales[lane]));
        }
    }
}

/// The best points of a group for the two numbers on both sides of a scale, and which number is the better one.
#[inline(always)]
fn group<S: Shape<D, L>, const D: usize, const L: usize>(
    book: &Book,
    x: &[f32],
    w: &[f32],
    scale: f32,
    d: f32,
) -> (Group, i32) {
    let below = (0.5 * (scale / d - 1.0)).clamp(0.0, (S::NUMBERS - 1) as f32) as i32;
    let (shifts, count) = S::SIGNS.shifts();
    let mut ways = [(f32::INFINITY, 0, 0.0); 4];
    for (i, way) in ways.iter_mut().take(2 * count).enumerate() {
        let (number, shift) = (below + (i / count) as i32, shifts[i % count]);
        *way = (least::<S, D, L>(x, w, d * (2 * number + 1) as f32, shift), number, shift);
    }
    let mut best = (Group { cost: f32::INFINITY, points: [0; 8], signs: [0; 4] }, below);
    // Those that promise most come first, so that others need no points.
    ways.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    for (least, number, shift) in ways {
        if least >= best.0.cost {
            break;
        }
        let group = points::<S, D, L>(book, x, w, d * (2 * number + 1) as f32, shift);
        if group.cost < best.0.cost {
            best = (group, number);
        }
    }
    best
}

/// The best points of a group for a scale and a shift.
#[inline(always)]
fn points<S: Shape<D, L>, const D: usize, const L: usize>(
    book: &Book,
    x: &[f32],
    w: &[f32],
    scale: f32,
    shift: f32,
) -> Group {
    let mut group = Group { cost: 0.0, points: [0; 8], signs: [0; 4] };
    for (i, (x, w)) in x.as_chunks::<8>().0.iter().zip(w.as_chunks::<8>().0).enumerate() {
        let mut x = *x;
        if !S::SIGNS.shifted() {
            let mut minus = (0..8).fold(0, |minus, j| minus | u8::from(x[j] < 0.0) << j);
            x = x.map(f32::abs);
            if S::SIGNS == Signs::Even && minus.count_ones() % 2 == 1 {
                let other = flipped::<S, D, L>(&x, w, scale);
                x[other] = -x[other];
                minus ^= 1 << other;
            }
            group.signs[i] = minus;
        } else {
            group.signs[i] = u8::from(shift < 0.0);
        }
        let (mut cost, mut points) = eight::<S, D, L>(book, &x, w, scale, shift);
        if S::SIGNS == Signs::ShiftedEach && least::<S, D, L>(&x, w, scale, -shift) < cost {
            let (other_cost, other) = eight::<S, D, L>(book, &x, w, scale, -shift);
            if other_cost < cost {
                (cost, points) = (other_cost, other);
                group.signs[i] ^= 1;
            }
        }
        group.cost += cost;
        group.points[i * (8 / D)..][..8 / D].copy_from_slice(&points[..8 / D]);
    }
    group
}

/// What elements cost at least: if all places of the lattice were points, and signs were free.
#[inline(always)]
fn least<S: Shape<D, L>, const D: usize, const L: usize>(x: &[f32], w: &[f32], scale: f32, shift: f32) -> f32 {
    let (shifts, count) =
        if S::SIGNS == Signs::ShiftedEach && x.len() > 8 { ([shift, -shift], 2) } else { ([shift; 2], 1) };
    let mut sum = 0.0;
    for (x, w) in x.as_chunks::<8>().0.iter().zip(w.as_chunks::<8>().0) {
        let x = if S::SIGNS.shifted() { *x } else { x.map(f32::abs) };
        let mut best = f32::INFINITY;
        for &shift in &shifts[..count] {
            let mut costs = [f32::INFINITY; 8];
            for level in S::LEVELS {
                let q = scale * (f32::from(level) + shift);
                for j in 0..8 {
                    let cost = w[j] * q * (q - 2.0 * x[j]);
                    costs[j] = if cost < costs[j] { cost } else { costs[j] };
                }
            }
            best = best.min(total(costs));
        }
        sum += best;
    }
    sum
}

/// The sum of eight numbers.
#[inline(always)]
fn total(all: [f32; 8]) -> f32 {
    ((all[0] + all[4]) + (all[1] + all[5])) + ((all[2] + all[6]) + (all[3] + all[7]))
}

/// Which of eight elements costs least with the other sign.
#[inline(always)]
fn flipped<S: Shape<D, L>, const D: usize, const L: usize>(a: &[f32; 8], w: &[f32; 8], scale: f32) -> usize {
    let q = S::LEVELS.map(|level| scale * f32::from(level));
    let mut costs = [f32::INFINITY; 8];
    for q in q {
        for j in 0..8 {
            costs[j] = costs[j].min(w[j] * q * (q - 2.0 * a[j]));
        }
    }
    for j in 0..8 {
        costs[j] = w[j] * q[0] * (q[0] + 2.0 * a[j]) - costs[j];
    }
    (1..8).fold(0, |least, j| if costs[j] < costs[least] { j } else { least })
}

/// The best points of eight elements: one, or two of four coordinates. The cost is the error less that of zeros.
#[inline(always)]
fn eight<S: Shape<D, L>, const D: usize, const L: usize>(
    book: &Book,
    x: &[f32; 8],
    w: &[f32; 8],
    scale: f32,
    shift: f32,
) -> (f32, [Digits; 2]) {
    let q = S::LEVELS.map(|level| scale * (f32::from(level) + shift));
    let mut costs: Costs = [[0.0; 8]; 16];
    let mut best = [0u32; 8];
    for l in 0..L {
        for j in 0..8 {
            costs[l][j] = w[j] * q[l] * (q[l] - 2.0 * x[j]);
        }
    }
    for l in 1..L {
        let middle = 0.5 * (q[l - 1] + q[l]);
        for j in 0..8 {
            best[j] += u32::from(x[j] > middle);
        }
    }
    if D == 8 {
        let mut pairs: Costs = [[0.0; 8]; 16];
        for low in 0..L {
            for high in 0..L {
                for k in 0..4 {
                    pairs[high * L + low][k] = costs[low][k] + costs[high][k + 4];
                }
            }
        }
        let digit = |k: usize| ((best[k] + L as u32 * best[k + 4]) << (4 * k)) as Digits;
        let place = (digit(0) | digit(1)) | (digit(2) | digit(3));
        let (point, cost) = book.nearest::<0>(&pairs, place);
        (cost, [point, 0])
    } else {
        let digit = |k: usize| (best[k] << (4 * (k % 4))) as Digits;
        let place = |from: usize| (digit(from) | digit(from + 1)) | (digit(from + 2) | digit(from + 3));
        let (first, cost) = book.nearest::<0>(&costs, place(0));
        let (second, other) = book.nearest::<4>(&costs, place(4));
        (cost + other, [first, second])
    }
}

/// Weighted sums of a group: elements times coordinates, and squares of coordinates.
#[inline(always)]
fn sums<S: Shape<D, L>, const D: usize, const L: usize>(x: &[f32], w: &[f32], group: &Group) -> (f32, f32) {
    let (mut sum_xq, mut sum_q2) = (0.0, 0.0);
    for i in 0..S::GROUP {
        let (eight, j) = (i / 8, i % 8);
        let digits = group.points[i / D];
        let digit = |k: usize| usize::from(digits >> (4 * k)) & 15;
        let level = if D == 8 { digit(j % 4) / L.pow(j as u32 / 4) % L } else { digit(j % 4) };
        let level = f32::from(S::LEVELS[level]);
        let q = match S::SIGNS {
            Signs::Shifted | Signs::ShiftedEach => level + if group.signs[eight] != 0 { -SHIFT } else { SHIFT },
            _ if (group.signs[eight] >> j) & 1 == 1 => -level,
            _ => level,
        };
        sum_xq += w[i] * x[i] * q;
        sum_q2 += w[i] * q * q;
    }
    (sum_xq, sum_q2)
}
