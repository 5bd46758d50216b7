//! The searches for scales that encoders share. They are ggml's, to the bit: same candidates, same order of float operations.
//!
//! Groups lie side by side: `x[i]` is element `i` of `L` groups. So each group keeps ggml's order of sums, and a loop over the
//! groups becomes vector code. Where ggml leaves a loop early or branches, each lane keeps its own value instead.

/// Largest magnitude that counts as zero.
pub(super) const NOTHING: f32 = 1e-15;

/// The nearest integer of magnitudes below 2^22, ties to even. What it makes of others is ggml's, too, NaN included: 0.
#[inline(always)]
pub(super) fn nearest(x: f32) -> i32 {
    ((x + 12_582_912.0).to_bits() & 0x7f_ffff) as i32 - 0x40_0000
}

/// C's cast to an integer as x86-64 does it: the least one for all that has no room.
#[inline(always)]
pub(super) fn integer(x: f32) -> i32 {
    if x.abs() < 2_147_483_648.0 { x as i32 } else { i32::MIN }
}

/// `L` groups of `N` from one run of them.
#[inline(always)]
pub(super) fn groups<const L: usize, const N: usize>(run: &[f32]) -> [[f32; L]; N] {
    let mut groups = [[0.0; L]; N];
    for (lane, group) in run.as_chunks::<N>().0.iter().enumerate().take(L) {
        for i in 0..N {
            groups[i][lane] = group[i];
        }
    }
    groups
}

/// The quants of groups, group after group.
#[inline(always)]
pub(super) fn in_a_row<const L: usize, const N: usize, const ALL: usize>(quants: &[[i32; L]; N]) -> [u8; ALL] {
    let mut row = [0; ALL];
    for (lane, group) in row.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        for i in 0..N {
            group[i] = quants[i][lane] as u8;
        }
    }
    row
}

/// `f` of each element of each group.
#[inline(always)]
pub(super) fn each<T: Copy + Default, const L: usize, const N: usize>(f: impl Fn(usize, usize) -> T) -> [[T; L]; N] {
    let mut out = [[T::default(); L]; N];
    for i in 0..N {
        for lane in 0..L {
            out[i][lane] = f(i, lane);
        }
    }
    out
}

/// Sum of each group, in order.
#[inline(always)]
pub(super) fn sums<const L: usize, const N: usize>(x: &[[f32; L]; N]) -> [f32; L] {
    let mut sums = [0.0; L];
    for x in x {
        for lane in 0..L {
            sums[lane] += x[lane];
        }
    }
    sums
}

/// Sum of squares, in order.
#[inline(always)]
pub(super) fn squares(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |sum, x| sum + x * x)
}

/// How much each element counts: its importance, more so the larger it is against `spread`, a mean square.
#[inline(always)]
pub(super) fn weights<const L: usize, const N: usize>(
    x: &[[f32; L]; N],
    importance: &[[f32; L]; N],
    spread: f32,
) -> [[f32; L]; N] {
    each(|i, lane| importance[i][lane] * (spread + x[i][lane] * x[i][lane]).sqrt())
}

/// Magnitude of the largest element of each group, and that element: the first of equals.
#[inline(always)]
pub(super) fn largest<const L: usize, const N: usize>(x: &[[f32; L]; N]) -> ([f32; L], [f32; L]) {
    let (mut magnitude, mut value) = ([0.0; L], [0.0; L]);
    for x in x {
        for lane in 0..L {
            let larger = x[lane].abs() > magnitude[lane];
            value[lane] = if larger { x[lane] } else { value[lane] };
            magnitude[lane] = if larger { x[lane].abs() } else { magnitude[lane] };
        }
    }
    (magnitude, value)
}

/// Scales of groups whose quants run from `-levels` to `levels - 1`.
pub(super) struct Symmetric<const L: usize> {
    pub scale: [f32; L],
    /// What elements are multiplied by.
    inverse: [f32; L],
    magnitude: [f32; L],
    levels: i32,
}

impl<const L: usize> Symmetric<L> {
    /// The quants that the search ended with, raised by `levels`; 0 for groups of zeros.
    #[inline(always)]
    pub fn quants<const N: usize>(&self, x: &[[f32; L]; N]) -> [[i32; L]; N] {
        each(|i, lane| {
            let quant = self.levels + nearest(self.inverse[lane] * x[i][lane]).clamp(-self.levels, self.levels - 1);
            if self.magnitude[lane] < NOTHING { 0 } else { quant }
        })
    }
}

/// Tries 19 scales around the one that makes the largest element `-levels`, by weighted squared error.
#[inline(always)]
pub(super) fn symmetric<const L: usize, const N: usize>(
    x: &[[f32; L]; N],
    w: &[[f32; L]; N],
    levels: i32,
) -> Symmetric<L> {
    let (magnitude, value) = largest(x);
    let (mut scale, mut inverse, mut best) = ([0.0; L], [0.0; L], [0.0; L]);
    for step in (0..1).chain(-9..0).chain(1..10) {
        let first = step == 0;
        let mut candidate = [0.0; L];
        let (mut sum_xq, mut sum_q2) = ([0.0; L], [0.0; L]);
        for lane in 0..L {
            candidate[lane] = -(levels as f32 + 0.1 * step as f32) / value[lane];
        }
        for i in 0..N {
            for lane in 0..L {
                let q = nearest(candidate[lane] * x[i][lane]).clamp(-levels, levels - 1) as f32;
                sum_xq[lane] += w[i][lane] * x[i][lane] * q;
                sum_q2[lane] += w[i][lane] * q * q;
            }
        }
        for lane in 0..L {
            let fits = if first { sum_q2[lane] != 0.0 } else { sum_q2[lane] > 0.0 };
            let found = if fits { sum_xq[lane] / sum_q2[lane] } else { 0.0 };
            let better = first || (fits && sum_xq[lane] * sum_xq[lane] > best[lane] * sum_q2[lane]);
            scale[lane] = if better { found } else { scale[lane] };
            best[lane] = if better { found * sum_xq[lane] } else { best[lane] };
            inverse[lane] = if better { candidate[lane] } else { inverse[lane] };
        }
    }
    for lane in 0..L {
        scale[lane] = if magnitude[lane] < NOTHING { 0.0 } else { scale[lane] };
    }
    Symmetric { scale, inverse, magnitude, levels }
}

/// Scale and quants (raised by `levels`) of groups, each quant moved in turn while that lessens the error. Squares are weights.
#[inline(always)]
pub(super) fn moved<const L: usize, const N: usize>(x: &[[f32; L]; N], levels: i32) -> ([f32; L], [[i32; L]; N]) {
    let (magnitude, value) = largest(x);
    let mut quants = [[0f32; L]; N];
    let (mut sum_xq, mut sum_q2) = ([0.0; L], [0.0; L]);
    for i in 0..N {
        for lane in 0..L {
            let (x, inverse) = (x[i][lane], -levels as f32 / value[lane]);
            let q = nearest(inverse * x).clamp(-levels, levels - 1) as f32;
            quants[i][lane] = q;
            sum_xq[lane] += x * x * x * q;
            sum_q2[lane] += x * x * q * q;
        }
    }
    for _ in 0..5 {
        let mut moves = 0;
        for i in 0..N {
            for lane in 0..L {
                let (x, q) = (x[i][lane], quants[i][lane]);
                let w = x * x;
                let (xq, q2) = (sum_xq[lane] - w * x * q, sum_q2[lane] - w * q * q);
                let other = nearest(x * q2 / xq).clamp(-levels, levels - 1) as f32;
                let (new_xq, new_q2) = (xq + w * x * other, q2 + w * other * other);
                let better = xq > 0.0
                    && other != q
                    && new_q2 > 0.0
                    && new_xq * new_xq * sum_q2[lane] > sum_xq[lane] * sum_xq[lane] * new_q2;
                quants[i][lane] = if better { other } else { q };
                sum_xq[lane] = if better { new_xq } else { sum_xq[lane] };
                sum_q2[lane] = if better { new_q2 } else { sum_q2[lane] };
                moves |= i32::from(better);
            }
        }
        if moves == 0 {
            break;
        }
    }
    let mut scale = [0.0; L];
    for lane in 0..L {
        let some = magnitude[lane] >= NOTHING && sum_q2[lane] > 0.0;
        scale[lane] = if some { sum_xq[lane] / sum_q2[lane] } else { 0.0 };
    }
    let quants = each(|i, lane| if magnitude[lane] < NOTHING { 0 } else { quants[i][lane] as i32 + levels });
    (scale, quants)
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
    fn quant(self, x: f32) -> i32 {
        if self.clamped {
            let quant = nearest(if x < self.levels as f32 { x } else { self.levels as f32 });
            if x > 0.0 { quant } else { 0 }
        } else {
            nearest(x).clamp(0, self.levels)
        }
    }
}

/// Scales and minima of groups: a value is `scale * q + minimum`, no minimum is above 0.
pub(super) struct Affine<const L: usize> {
    pub scale: [f32; L],
    pub minimum: [f32; L],
    steps: Steps,
    constant: [bool; L],
    /// What made the quants: a factor, what was taken away before, and whether no step was better than the range itself.
    inverse: [f32; L],
    start: [f32; L],
    first: [bool; L],
}

impl<const L: usize> Affine<L> {
    /// The quants that the search ended with.
    #[inline(always)]
    pub fn quants<const N: usize>(&self, x: &[[f32; L]; N]) -> [[i32; L]; N] {
        each(|i, lane| {
            let x = self.inverse[lane] * (x[i][lane] - self.start[lane]);
            let quant = if self.first[lane] { nearest(x).clamp(0, self.steps.levels) } else { self.steps.quant(x) };
            if self.constant[lane] { 0 } else { quant }
        })
    }
}

/// Tries steps around the range of each group; for each, the best scale and minimum are those of a weighted regression.
#[inline(always)]
pub(super) fn affine<const L: usize, const N: usize>(x: &[[f32; L]; N], w: &[[f32; L]; N], steps: Steps) -> Affine<L> {
    let (mut least, mut greatest) = (x[0], x[0]);
    let (mut sum_w, mut sum_x) = (w[0], w[0]);
    for lane in 0..L {
        sum_x[lane] *= x[0][lane];
    }
    for i in 1..N {
        for lane in 0..L {
            let (x, w) = (x[i][lane], w[i][lane]);
            least[lane] = if x < least[lane] { x } else { least[lane] };
            greatest[lane] = if x > greatest[lane] { x } else { greatest[lane] };
            sum_w[lane] += w;
            sum_x[lane] += w * x;
        }
    }
    let levels = steps.levels as f32;
    let (mut scale, mut inverse, mut constant) = ([0.0; L], [0.0; L], [false; L]);
    for lane in 0..L {
        least[lane] = if least[lane] > 0.0 { 0.0 } else { least[lane] };
        constant[lane] = greatest[lane] <= least[lane];
        inverse[lane] = levels / (greatest[lane] - least[lane]);
        scale[lane] = 1.0 / inverse[lane];
    }
    let (mut minimum, mut start, mut first) = (least, least, [true; L]);
    let loss = |off: f32| if steps.distance { off.abs() } else { off * off };
    let mut best = [0.0; L];
    for i in 0..N {
        for lane in 0..L {
            let x = x[i][lane];
            let q = nearest(inverse[lane] * (x - minimum[lane])).clamp(0, steps.levels) as f32;
            best[lane] += w[i][lane] * loss(scale[lane] * q + minimum[lane] - x);
        }
    }
    for step in 0..=steps.count {
        let mut candidate = [0.0; L];
        for lane in 0..L {
            candidate[lane] = (steps.from + steps.by * step as f32 + levels) / (greatest[lane] - minimum[lane]);
        }
        let mut quants = [[0f32; L]; N];
        let (mut sum_q, mut sum_q2, mut sum_xq) = ([0.0; L], [0.0; L], [0.0; L]);
        for i in 0..N {
            for lane in 0..L {
                let (x, w) = (x[i][lane], w[i][lane]);
                let q = steps.quant(candidate[lane] * (x - minimum[lane])) as f32;
                quants[i][lane] = q;
                sum_q[lane] += w * q;
                sum_q2[lane] += w * q * q;
                sum_xq[lane] += w * q * x;
            }
        }
        let (mut determinant, mut slope, mut shift, mut error) = ([0.0; L], [0.0; L], [0.0; L], [0.0; L]);
        for lane in 0..L {
            determinant[lane] = sum_w[lane] * sum_q2[lane] - sum_q[lane] * sum_q[lane];
            slope[lane] = (sum_w[lane] * sum_xq[lane] - sum_x[lane] * sum_q[lane]) / determinant[lane];
            shift[lane] = (sum_q2[lane] * sum_x[lane] - sum_q[lane] * sum_xq[lane]) / determinant[lane];
            let above = shift[lane] > 0.0;
            slope[lane] = if above { sum_xq[lane] / sum_q2[lane] } else { slope[lane] };
            shift[lane] = if above { 0.0 } else { shift[lane] };
        }
        for i in 0..N {
            for lane in 0..L {
                error[lane] += w[i][lane] * loss(slope[lane] * quants[i][lane] + shift[lane] - x[i][lane]);
            }
        }
        for lane in 0..L {
            let better = determinant[lane] > 0.0 && error[lane] < best[lane];
            best[lane] = if better { error[lane] } else { best[lane] };
            scale[lane] = if better { slope[lane] } else { scale[lane] };
            inverse[lane] = if better { candidate[lane] } else { inverse[lane] };
            start[lane] = if better { minimum[lane] } else { start[lane] };
            minimum[lane] = if better { shift[lane] } else { minimum[lane] };
            first[lane] = first[lane] & !better;
        }
    }
    for lane in 0..L {
        scale[lane] = if constant[lane] { 0.0 } else { scale[lane] };
        minimum[lane] = if constant[lane] { least[lane] } else { minimum[lane] };
    }
    Affine { scale, minimum, steps, constant, inverse, start, first }
}

/// One scale for `N` numbers that aren't negative, and their quants up to `levels`.
#[inline(always)]
pub(super) fn positive<const N: usize>(x: &[f32; N], w: &[f32; N], levels: i32) -> (f32, [u8; N]) {
    let greatest = x.iter().fold(0.0, |greatest, &x| if greatest > x { greatest } else { x });
    if greatest < NOTHING {
        return (0.0, [0; N]);
    }
    let error = |inverse: f32, quant: &dyn Fn(f32) -> f32| {
        let scale = 1.0 / inverse;
        (0..N).fold(0.0, |sum, i| {
            let off = x[i] - scale * quant(inverse * x[i]);
            sum + w[i] * off * off
        })
    };
    let mut inverse = levels as f32 / greatest;
    let mut best = error(inverse, &|x| f32::from(nearest(x) as u8));
    for step in (-4..0).chain(1..5) {
        let candidate = (0.1 * step as f32 + levels as f32) / greatest;
        let found = error(candidate, &|x| nearest(x).min(levels) as f32);
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
