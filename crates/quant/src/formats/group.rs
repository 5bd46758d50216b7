//! A group of 16 or 32 elements that share a scale, as points of a codebook: the best ones for a scale, and what they cost.
//!
//! A cost is the weighted squared error less that of zeros: `w * q * (q - 2 * x)` for an element `x` that becomes `q`.

use super::nearest::{Book, Costs, Digits};
use super::shape::{SHIFT, Shape, Signs};

/// A group with some scale.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub cost: f32,
    pub points: [Digits; 8],
    /// Of each eight elements: a bit for each minus, or whether the shift is one down.
    pub signs: [u8; 4],
}

/// The best points of a group for the two numbers on both sides of a scale, and which number is the better one.
#[inline(always)]
pub(super) fn group<S: Shape<D, L>, const D: usize, const L: usize>(
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
pub(super) fn points<S: Shape<D, L>, const D: usize, const L: usize>(
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
pub(super) fn sums<S: Shape<D, L>, const D: usize, const L: usize>(x: &[f32], w: &[f32], group: &Group) -> (f32, f32) {
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
