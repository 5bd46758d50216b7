//! What a model's matrices are multiplied with, for whom it matters.

use std::sync::{Arc, Mutex};

/// A product of a step with a matrix of the file. Where the matrix is taken apart, the part with its first row is told.
#[derive(Clone, Copy, Debug)]
pub struct Product<'a> {
    /// The file's name of the matrix.
    pub weight: &'a str,
    /// Elements of a row.
    pub columns: usize,
    /// The rows that it is multiplied with, `[rows, columns]`.
    pub inputs: &'a [f32],
    /// Which matrix each row meets.
    pub stack: Stack<'a>,
}

/// Whether a weight is one matrix or several, one below the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stack<'a> {
    /// One.
    One,
    /// One for each head: a token has a row for each.
    Heads(usize),
    /// Experts.
    Experts {
        /// The experts of each token and their weights, `[T, used]`. A token has a row, or one for each of its experts.
        chosen: &'a [(u32, f32)],
        /// How many experts a token has.
        used: usize,
    },
}

/// Hears of products as they are made. Listening changes no bit of what is computed.
pub trait Listener: Send {
    /// Whether to read what this matrix is multiplied with.
    fn wants(&self, weight: &str) -> bool;

    /// Takes a product.
    fn product(&mut self, product: Product<'_>);
}

/// A listener that several backends tell.
pub type SharedListener = Arc<Mutex<dyn Listener>>;
