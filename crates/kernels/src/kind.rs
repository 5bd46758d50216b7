//! What tables of 128-bit registers share of formats whose rows are taken by eight blocks of 32 columns.

use crate::Q8Row;
use crate::order::SEGMENT_BLOCKS;
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

/// Sums of a row's quants times their scales, from block `start` on: of whole blocks, or of their first and second halves.
#[inline]
pub fn scale_sums<K: Kind>([first, second]: [&mut [f32; SEGMENT_BLOCKS]; 2], row: Q8Row<'_>, start: usize) {
    let blocks = row.scales[start..].iter().zip(&row.sums.as_chunks::<2>().0[start..]);
    for ((first, second), (scale, &[a, b])) in first.iter_mut().zip(second).zip(blocks) {
        match K::MINIMA {
            Minima::None => {}
            Minima::Whole => *first = scale * (i32::from(a) + i32::from(b)) as f32,
            Minima::Halves => (*first, *second) = (scale * f32::from(a), scale * f32::from(b)),
        }
    }
}
