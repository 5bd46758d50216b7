//! What encoders compute with: a number of each of several groups of a block. With `f32`, one group, they are ggml's encoders; with
//! vectors they make the same bytes, several groups at once.

use std::ops::{Add, Div, Mul, Sub};

/// A number of each of [`Lanes::COUNT`] groups. Operations are those of `f32`, each rounded on its own, lane by lane.
pub trait Lanes: Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> {
    /// How many: 1, 2, 4 or 8.
    const COUNT: usize;

    /// Which lanes something is true of.
    type Mask: Copy;

    /// The same number in each.
    fn all(x: f32) -> Self;

    /// A number for each, by its place.
    fn each(of: impl Fn(usize) -> f32) -> Self;

    /// The numbers, in the first places.
    fn numbers(self) -> [f32; 8];

    /// Magnitudes.
    fn abs(self) -> Self;

    /// Square roots.
    fn sqrt(self) -> Self;

    /// What [`nearest`] makes, as floats.
    fn nearest(self) -> Self;

    /// Where `self < other`; nowhere with NaN.
    fn less(self, other: Self) -> Self::Mask;

    /// Where both are true.
    fn both(a: Self::Mask, b: Self::Mask) -> Self::Mask;

    /// One number where the mask is true, another elsewhere.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;

    /// Whether it is true somewhere.
    fn any(mask: Self::Mask) -> bool;

    /// `self` where it is less, else `other`.
    #[inline(always)]
    fn least(self, other: Self) -> Self {
        Self::select(self.less(other), self, other)
    }

    /// `self` where it is greater, else `other`.
    #[inline(always)]
    fn greatest(self, other: Self) -> Self {
        Self::select(other.less(self), self, other)
    }

    /// Between two numbers, of what is no NaN.
    #[inline(always)]
    fn between(self, low: i32, high: i32) -> Self {
        self.greatest(Self::all(low as f32)).least(Self::all(high as f32))
    }
}

/// ggml's nearest integer: of magnitudes below 2^22, ties to even. What it makes of others is ggml's, too; of NaN, 0.
#[inline(always)]
pub fn nearest(x: f32) -> i32 {
    ((x + 12_582_912.0).to_bits() & 0x7f_ffff) as i32 - 0x40_0000
}

impl Lanes for f32 {
    const COUNT: usize = 1;

    type Mask = bool;

    #[inline(always)]
    fn all(x: f32) -> f32 {
        x
    }

    #[inline(always)]
    fn each(of: impl Fn(usize) -> f32) -> f32 {
        of(0)
    }

    #[inline(always)]
    fn numbers(self) -> [f32; 8] {
        [self, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    }

    #[inline(always)]
    fn abs(self) -> f32 {
        f32::abs(self)
    }

    #[inline(always)]
    fn sqrt(self) -> f32 {
        f32::sqrt(self)
    }

    #[inline(always)]
    fn nearest(self) -> f32 {
        nearest(self) as f32
    }

    #[inline(always)]
    fn less(self, other: f32) -> bool {
        self < other
    }

    #[inline(always)]
    fn both(a: bool, b: bool) -> bool {
        a && b
    }

    #[inline(always)]
    fn select(mask: bool, yes: f32, no: f32) -> f32 {
        if mask { yes } else { no }
    }

    #[inline(always)]
    fn any(mask: bool) -> bool {
        mask
    }
}
