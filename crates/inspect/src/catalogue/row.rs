//! What rows of the catalogue have in common, and ranges of numbers that several of them search.

use crate::{
    fault::{Fault, Fit, Harm, Steps},
    replay::Place,
};

/// What rows have in common.
pub(super) const ROW: Fault = Fault {
    name: "",
    entry: "",
    variants: &[0.0],
    fit: None,
    wants: any,
    edits: &[],
    harm: Harm::Harmful,
    cause: "",
    remedy: "",
    source: "",
};

/// Whole numbers up to that of a trace's tokens.
pub(super) const UP_TO_TOKENS: Fit = Fit { range: (1.0, 512.0), steps: Steps::Whole, numbers: |_| Vec::new() };

/// Factors of any size.
pub(super) const FACTORS: Fit = Fit { range: (1e-3, 1e3), steps: Steps::Factors, numbers: |_| Vec::new() };

pub(super) fn any(_: &Place<'_>) -> bool {
    true
}
