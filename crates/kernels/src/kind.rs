//! What tables of 128-bit registers share of formats whose rows are taken by eight blocks of 32 columns.

use crate::weights::Minima;

/// Columns that the kernels take at a time: eight blocks of 32.
pub const GROUP: usize = 256;

/// What the blocks of a format have besides a scale.
pub trait Kind {
    /// Which minima.
    const MINIMA: Minima;
    /// An integer factor for each half.
    const FACTORS: bool;
}

/// A scale alone.
pub struct Plain;
/// A minimum too.
pub struct Shifted;
/// A factor for each half.
pub struct Halves;
/// A factor and a minimum for each half.
pub struct ShiftedHalves;

impl Kind for Plain {
    const MINIMA: Minima = Minima::None;
    const FACTORS: bool = false;
}

impl Kind for Shifted {
    const MINIMA: Minima = Minima::Whole;
    const FACTORS: bool = false;
}

impl Kind for Halves {
    const MINIMA: Minima = Minima::None;
    const FACTORS: bool = true;
}

impl Kind for ShiftedHalves {
    const MINIMA: Minima = Minima::Halves;
    const FACTORS: bool = true;
}

/// The end of a row and zeros.
pub fn padded<T: Copy + Default, const N: usize>(rest: &[T]) -> [T; N] {
    let mut group = [T::default(); N];
    group[..rest.len()].copy_from_slice(rest);
    group
}
