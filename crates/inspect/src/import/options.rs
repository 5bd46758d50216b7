//! What the user says of a dump.

use std::sync::Arc;

use crate::names::{NameMap, ProjectionBias, Wiring};

/// What a reader has to be given because the dump does not say it.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Elements per row of a raw `.bin` file whose name does not say its shape.
    pub width: Option<usize>,
    /// Names only the user knows.
    pub names: NameMap,
    /// Whether `q_proj` and `k_proj` are traced with their bias.
    pub bias: ProjectionBias,
    /// What the model has: names that are its own, and modules by the weights that they hold, mean that.
    pub wiring: Option<Arc<Wiring>>,
    /// The ids of the tokens, where the user knows them.
    pub tokens: Option<Vec<u32>>,
}
