//! The searches for scales that encoders share. They are ggml's, to the bit: same candidates, same order of float operations.
//!
//! Groups lie side by side: `x[i]` is element `i` of as many groups as there are lanes. So each group keeps ggml's order of sums.
//! Where ggml leaves a loop early or branches, each lane keeps its own value instead.

use crate::lanes::Lanes;
pub(super) use crate::lanes::nearest;

/// Largest magnitude that counts as zero.
pub(super) const NOTHING: f32 = 1e-15;

/// C's cast to an integer as x86-64 does it: the least one for all that has no room.
#[inline(always)]
pub(super) fn integer(x: f32) -> i32 {
    if x.abs() < 2_147_483_648.0 { x as i32 } else { i32::MIN }
}

/// Groups of `N`, from number `first` on, of a run of them.
#[inline(always)]
pub(super) fn groups<V: Lanes, const N: usize>(run: &[f32], first: usize) -> [V; N] {
    let mut x = [V::all(0.0); N];
    for i in 0..N {
        x[i] = V::each(|lane| run[(first + lane) * N + i]);
    }
    x
}

/// Puts the quants of groups into a row of them, from group number `first` on.
#[inline(always)]
pub(super) fn put<V: Lanes, const N: usize>(row: &mut [u8], first: usize, quants: &[V; N]) {
    for i in 0..N {
        let numbers = quants[i].numbers();
        for lane in 0..V::COUNT {
            row[(first + lane) * N + i] = numbers[lane] as u8;
        }
    }
}

/// Puts what was found for groups where it belongs.
#[inline(always)]
pub(super) fn place<V: Lanes>(all: &mut [f32], first: usize, found: V) {
    all[first..first + V::COUNT].copy_from_slice(&found.numbers()[..V::COUNT]);
}

/// Sum of each group, in order.
#[inline(always)]
pub(super) fn sum<V: Lanes>(x: &[V]) -> V {
    let mut sum = V::all(0.0);
    for &x in x {
        sum = sum + x;
    }
    sum
}

/// Sum of squares, in order.
#[inline(always)]
pub(super) fn squares<V: Lanes>(x: &[V]) -> V {
    let mut sum = V::all(0.0);
    for &x in x {
        sum = sum + x * x;
    }
    sum
}

/// How much each element counts: its importance, more so the larger it is against `spread`, a mean square.
#[inline(always)]
pub(super) fn weights<V: Lanes, const N: usize>(x: &[V; N], importance: &[V; N], spread: f32) -> [V; N] {
    let mut w = *importance;
    for i in 0..N {
        w[i] = w[i] * (V::all(spread) + x[i] * x[i]).sqrt();
    }
    w
}

/// Each element's square.
#[inline(always)]
pub(super) fn squared<V: Lanes, const N: usize>(x: &[V; N]) -> [V; N] {
    let mut squares = *x;
    for square in &mut squares {
        *square = *square * *square;
    }
    squares
}

/// Magnitude of the largest element of each group, and that element: the first of equals.
#[inline(always)]
pub(super) fn largest<V: Lanes>(x: &[V]) -> (V, V) {
    let (mut magnitude, mut value) = (V::all(0.0), V::all(0.0));
    for &x in x {
        let larger = magnitude.less(x.abs());
        value = V::select(larger, x, value);
        magnitude = V::select(larger, x.abs(), magnitude);
    }
    (magnitude, value)
}

/// The scale of greatest magnitude, the first of equals.
#[inline(always)]
pub(super) fn extreme_scale(scales: &[f32]) -> f32 {
    largest(scales).1
}

/// Scales of groups whose quants run from `-levels` to `levels - 1`.
pub(super) struct Symmetric<V> {
    pub scale: V,
    /// What elements are multiplied by.
    inverse: V,
    magnitude: V,
    levels: i32,
}

impl<V: Lanes> Symmetric<V> {
    /// The quant of an element that the search ended with, raised by `levels`; 0 in groups of zeros.
    #[inline(always)]
    pub fn quant(&self, x: V) -> V {
        let quant = V::all(self.levels as f32) + (self.inverse * x).nearest().between(-self.levels, self.levels - 1);
        V::select(self.magnitude.less(V::all(NOTHING)), V::all(0.0), quant)
    }
}

/// Tries 19 scales around the one that makes the largest element `-levels`, by weighted squared error.
#[inline(always)]
pub(super) fn symmetric<V: Lanes, const N: usize>(x: &[V; N], w: &[V; N], levels: i32) -> Symmetric<V> {
    let (magnitude, value) = largest(x);
    let zero = V::all(0.0);
    let mut inverse = V::all(-levels as f32) / value;
    let (sum_xq, sum_q2) = symmetric_sums(x, w, inverse, levels);
    let none = sum_q2.abs().less(V::all(f32::from_bits(1)));
    let mut scale = V::select(none, zero, sum_xq / sum_q2);
    let mut best = scale * sum_xq;
    for step in (-9..0).chain(1..10) {
        let candidate = V::all(-(levels as f32 + 0.1 * step as f32)) / value;
        let (sum_xq, sum_q2) = symmetric_sums(x, w, candidate, levels);
        let better = V::both(zero.less(sum_q2), (best * sum_q2).less(sum_xq * sum_xq));
        let found = sum_xq / sum_q2;
        scale = V::select(better, found, scale);
        best = V::select(better, found * sum_xq, best);
        inverse = V::select(better, candidate, inverse);
    }
    let scale = V::select(magnitude.less(V::all(NOTHING)), zero, scale);
    Symmetric { scale, inverse, magnitude, levels }
}

/// Weighted sums of elements times quants, and of squares of quants.
#[inline(always)]
fn symmetric_sums<V: Lanes, const N: usize>(x: &[V; N], w: &[V; N], inverse: V, levels: i32) -> (V, V) {
    let (mut sum_xq, mut sum_q2) = (V::all(0.0), V::all(0.0));
    for i in 0..N {
        let q = (inverse * x[i]).nearest().between(-levels, levels - 1);
        sum_xq = sum_xq + w[i] * x[i] * q;
        sum_q2 = sum_q2 + w[i] * q * q;
    }
    (sum_xq, sum_q2)
}

/// Scale and quants (raised by `levels`) of groups, each quant moved in turn while that lessens the error. Squares are weights.
#[inline(always)]
pub(super) fn moved<V: Lanes, const N: usize>(x: &[V; N], levels: i32) -> (V, [V; N]) {
    let (magnitude, value) = largest(x);
    let zero = V::all(0.0);
    let inverse = V::all(-levels as f32) / value;
    let mut quants = [zero; N];
    let (mut sum_xq, mut sum_q2) = (zero, zero);
    for (&x, quant) in x.iter().zip(&mut quants) {
        let q = (inverse * x).nearest().between(-levels, levels - 1);
        *quant = q;
        sum_xq = sum_xq + x * x * x * q;
        sum_q2 = sum_q2 + x * x * q * q;
    }
    for _ in 0..5 {
        let mut moves = false;
        for (&x, quant) in x.iter().zip(&mut quants) {
            let (w, q) = (x * x, *quant);
            let (xq, q2) = (sum_xq - w * x * q, sum_q2 - w * q * q);
            let other = (x * q2 / xq).nearest().between(-levels, levels - 1);
            let (new_xq, new_q2) = (xq + w * x * other, q2 + w * other * other);
            let differs = zero.less((other - q).abs());
            let sound = V::both(zero.less(xq), zero.less(new_q2));
            let better = (sum_xq * sum_xq * new_q2).less(new_xq * new_xq * sum_q2);
            let better = V::both(V::both(differs, sound), better);
            *quant = V::select(better, other, q);
            sum_xq = V::select(better, new_xq, sum_xq);
            sum_q2 = V::select(better, new_q2, sum_q2);
            moves |= V::any(better);
        }
        if !moves {
            break;
        }
    }
    let nothing = magnitude.less(V::all(NOTHING));
    let scale = V::select(zero.less(sum_q2), sum_xq / sum_q2, zero);
    for quant in &mut quants {
        *quant = V::select(nothing, zero, *quant + V::all(levels as f32));
    }
    (V::select(nothing, zero, scale), quants)
}

/// How [`affine`] searches.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    /// Greatest quant.
    pub levels: i32,
    /// What is added to `levels` at first, and each time.
    pub from: f32,
    pub by: f32,
    pub count: i32,
    /// The error is the distance, not its square.
    pub distance: bool,
    /// Numbers without room for an integer are clamped.
    pub clamped: bool,
}

impl Steps {
    /// With importance.
    pub const fn fine(levels: i32) -> Steps {
        Steps { levels, from: -0.9, by: 0.05, count: 36, distance: false, clamped: true }
    }

    #[inline(always)]
    fn quant<V: Lanes>(self, x: V) -> V {
        if self.clamped {
            let (zero, levels) = (V::all(0.0), V::all(self.levels as f32));
            V::select(zero.less(x), x.least(levels).nearest(), zero)
        } else {
            x.nearest().between(0, self.levels)
        }
    }

    #[inline(always)]
    fn loss<V: Lanes>(self, off: V) -> V {
        if self.distance { off.abs() } else { off * off }
    }
}

/// Scales and minima of groups: a value is `scale * q + minimum`, no minimum is above 0.
pub(super) struct Affine<V: Lanes> {
    pub scale: V,
    pub minimum: V,
    steps: Steps,
    /// Which groups have a range: the others are zeros.
    some: V::Mask,
    /// What made the quants: a factor, what was taken away before, and 1 where no step was better than the range itself.
    inverse: V,
    start: V,
    first: V,
}

impl<V: Lanes> Affine<V> {
    /// The quant of an element that the search ended with.
    #[inline(always)]
    pub fn quant(&self, x: V) -> V {
        let (x, zero) = (self.inverse * (x - self.start), V::all(0.0));
        let by_range = x.nearest().between(0, self.steps.levels);
        let quant = V::select(zero.less(self.first), by_range, self.steps.quant(x));
        V::select(self.some, quant, zero)
    }
}

/// Tries steps around the range of each group; for each, the best scale and minimum are those of a weighted regression.
#[inline(always)]
pub(super) fn affine<V: Lanes, const N: usize>(x: &[V; N], w: &[V; N], steps: Steps) -> Affine<V> {
    let zero = V::all(0.0);
    let (mut least, mut greatest) = (x[0], x[0]);
    let (mut sum_w, mut sum_x) = (w[0], w[0] * x[0]);
    for (&x, &w) in x[1..].iter().zip(&w[1..]) {
        least = x.least(least);
        greatest = x.greatest(greatest);
        sum_w = sum_w + w;
        sum_x = sum_x + w * x;
    }
    let levels = V::all(steps.levels as f32);
    let least = V::select(zero.less(least), zero, least);
    let mut inverse = levels / (greatest - least);
    let mut scale = V::all(1.0) / inverse;
    let (mut minimum, mut start, mut first) = (least, least, V::all(1.0));
    let mut best = zero;
    for (&x, &w) in x.iter().zip(w) {
        let q = (inverse * (x - minimum)).nearest().between(0, steps.levels);
        best = best + w * steps.loss(scale * q + minimum - x);
    }
    let mut quants = [zero; N];
    for step in 0..=steps.count {
        let more = V::all(steps.from + steps.by * step as f32 + steps.levels as f32);
        let candidate = more / (greatest - minimum);
        let (mut sum_q, mut sum_q2, mut sum_xq) = (zero, zero, zero);
        for i in 0..N {
            let (x, w) = (x[i], w[i]);
            let q = steps.quant(candidate * (x - minimum));
            quants[i] = q;
            sum_q = sum_q + w * q;
            sum_q2 = sum_q2 + w * q * q;
            sum_xq = sum_xq + w * q * x;
        }
        let determinant = sum_w * sum_q2 - sum_q * sum_q;
        let shift = (sum_q2 * sum_x - sum_q * sum_xq) / determinant;
        let above = zero.less(shift);
        let slope = V::select(above, sum_xq / sum_q2, (sum_w * sum_xq - sum_x * sum_q) / determinant);
        let shift = V::select(above, zero, shift);
        let mut error = zero;
        for i in 0..N {
            error = error + w[i] * steps.loss(slope * quants[i] + shift - x[i]);
        }
        let better = V::both(zero.less(determinant), error.less(best));
        best = V::select(better, error, best);
        scale = V::select(better, slope, scale);
        inverse = V::select(better, candidate, inverse);
        start = V::select(better, minimum, start);
        minimum = V::select(better, shift, minimum);
        first = V::select(better, zero, first);
    }
    // ggml stops at groups without a range: that is what is left of them.
    let some = least.less(greatest);
    Affine {
        scale: V::select(some, scale, zero),
        minimum: V::select(some, minimum, least),
        steps,
        some,
        inverse,
        start,
        first,
    }
}

/// One scale for `N` numbers that aren't negative, and their quants up to `levels`.
#[inline(always)]
pub(super) fn positive<const N: usize>(x: &[f32; N], w: &[f32; N], levels: i32) -> (f32, [u8; N]) {
    let greatest = x.iter().fold(0.0, |greatest, &x| if greatest > x { greatest } else { x });
    if greatest < NOTHING {
        return (0.0, [0; N]);
    }
    let error = |inverse: f32, quant: fn(f32, i32) -> f32| {
        let scale = 1.0 / inverse;
        (0..N).fold(0.0, |sum, i| {
            let off = x[i] - scale * quant(inverse * x[i], levels);
            sum + w[i] * off * off
        })
    };
    let mut inverse = levels as f32 / greatest;
    let mut best = error(inverse, |x, _| f32::from(nearest(x) as u8));
    for step in (-4..0).chain(1..5) {
        let candidate = (0.1 * step as f32 + levels as f32) / greatest;
        let found = error(candidate, |x, levels| nearest(x).min(levels) as f32);
        if found < best {
            (best, inverse) = (found, candidate);
        }
    }
    let mut quants = [0; N];
    let (mut sum_xq, mut sum_q2) = (0.0, 0.0);
    for i in 0..N {
        let quant = nearest(inverse * x[i]).min(levels);
        quants[i] = quant as u8;
        let q = quant as f32;
        sum_xq += w[i] * x[i] * q;
        sum_q2 += w[i] * q * q;
    }
    for _ in 0..5 {
        let mut moves = false;
        for i in 0..N {
            let (x, w, q) = (x[i], w[i], f32::from(quants[i]));
            let (xq, q2) = (sum_xq - w * x * q, sum_q2 - w * q * q);
            if xq > 0.0 && q2 > 0.0 {
                let other = nearest(x * q2 / xq).min(levels);
                if other != i32::from(quants[i]) {
                    let q = other as f32;
                    let (xq, q2) = (xq + w * x * q, q2 + w * q * q);
                    if xq * xq * sum_q2 > sum_xq * sum_xq * q2 {
                        quants[i] = other as u8;
                        (sum_xq, sum_q2) = (xq, q2);
                        moves = true;
                    }
                }
            }
        }
        if !moves {
            break;
        }
    }
    (if sum_q2 > 0.0 { sum_xq / sum_q2 } else { 0.0 }, quants)
}
