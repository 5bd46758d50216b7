//! The table of repairs: each undoes a fault that converters are known to make.

mod attention;
mod norms;
mod numbers;
mod positions;
mod tensors;

use super::repair::Repair;

/// Every repair.
pub(super) fn repairs() -> impl Iterator<Item = &'static Repair> {
    let parts = [attention::REPAIRS, positions::REPAIRS, norms::REPAIRS, numbers::REPAIRS, tensors::REPAIRS];
    parts.into_iter().flatten()
}
