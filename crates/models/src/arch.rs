//! The architectures: what they differ in, and a table with a row for each.

mod kinds;
mod needs;
mod registry;
mod row;

pub(crate) use kinds::{
    Activation, AttentionTemperature, DECODER, ENCODER, Labels, LogitScale, NormWeights, ONE, QkNorm, Residual,
    Rotation, Stack, Stacks, Width, Windows,
};
pub use registry::ARCHITECTURES;
pub use row::Architecture;
