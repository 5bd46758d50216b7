//! What distinguishes the IQ formats of codebook points, for the encoder that they share.

use super::nearest::Book;

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
    pub fn shifted(self) -> bool {
        matches!(self, Signs::Shifted | Signs::ShiftedEach)
    }

    /// The shifts to try with a group, and how many there are.
    pub fn shifts(self) -> ([f32; 2], usize) {
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
