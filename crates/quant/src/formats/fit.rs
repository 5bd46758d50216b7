//! The search that encoders of the IQ formats with codebooks share: scales and points of a block of 256 elements.
//!
//! A block has a scale `d`, a group of it a number `n`, and an element is `d * (2n + 1)` times a coordinate of a point. Wanted is the
//! least sum of `w * (x - decoded)^2`. First each group's scale is estimated as if all places of the lattice were points. That gives
//! `d`; then each group takes the best of a few numbers, with the best points of each; then `d` follows from the points, and so on.

use super::group::{Group, group, points, sums};
use super::nearest::Book;
use super::shape::{SHIFT, Shape};
use crate::half::{f16_to_f32, f32_to_f16};
use crate::lanes::Lanes;

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
    let mut scales = estimates::<V, S, D, L>(book, &input);
    let mut d = scales.iter().fold(0f32, |a, &b| a.max(b)) / (2 * S::NUMBERS + 1) as f32;
    let mut least = 0.0;
    for _ in 0..ROUNDS {
        let half = stored::<S, D, L>(d, input.by);
        d = scale_of::<S, D, L>(half, input.by);
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
        let at = scale_of::<S, D, L>(other, input.by);
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
    best
}

/// How many scales [`estimates`] tries with places of the lattice, and at most with points.
const STEPS: usize = 20;
const PEAKS: usize = 3;

/// How often points and the scale of the block follow from each other.
const ROUNDS: usize = 2;

/// The half that is stored for a scale of elements that were divided by `by`: finite.
fn stored<S: Shape<D, L>, const D: usize, const L: usize>(d: f32, by: f64) -> u16 {
    f32_to_f16((f64::from(d.max(0.0)) * S::UNIT * by) as f32).min(0x7bff)
}

/// The scale that a half stands for.
fn scale_of<S: Shape<D, L>, const D: usize, const L: usize>(half: u16, by: f64) -> f32 {
    (f64::from(f16_to_f32(half)) / S::UNIT / by) as f32
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
