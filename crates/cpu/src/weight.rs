//! Weights: matrices where the file has them, vectors as floats.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use candor_kernels::{BatchKernels, Kernels, MatKernels};
use candor_ops::{Error, Tensor};

use crate::Batching;

/// A weight of a model; may be shared by any number of sessions.
#[derive(Clone)]
pub struct Weight(pub(crate) Kind, Arc<Decoded>);

/// A small weight as floats, made when they are first asked for: row by row, and as an operation wants them.
#[derive(Default)]
struct Decoded {
    rows: OnceLock<Vec<f32>>,
    arranged: OnceLock<Vec<f32>>,
}

#[derive(Clone)]
pub(crate) enum Kind {
    /// Norms and biases, decoded once.
    Vector(Vec<f32>),
    /// Multiplied in its stored form, or decoded row by row where the instruction set has no kernel for it.
    Matrix { tensor: Tensor, kernels: Option<MatKernels>, batch: Option<BatchKernels> },
}

/// What decides by which kernels inputs are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// Inputs of a prompt: the batch kernels, however few there are.
    Prefill,
    /// Inputs that decode: the row kernels, however many there are.
    Decode,
    /// Whatever is faster for as many.
    Fastest,
}

impl Weight {
    pub(crate) fn new(tensor: Tensor, kernels: &Kernels, batching: Batching) -> Result<Weight, Error> {
        tensor.check()?;
        if tensor.rows == 1 {
            let mut values = vec![0.0; tensor.cols];
            tensor.format.decode(&tensor.bytes, &mut values);
            return Ok(Weight(Kind::Vector(values), Arc::default()));
        }
        let batch = match batching {
            Batching::ByRole | Batching::Fastest => (kernels.batch)(tensor.format),
            Batching::Invariant => None,
        };
        let kernels = (kernels.mat)(tensor.format);
        Ok(Weight(Kind::Matrix { tensor, kernels, batch }, Arc::default()))
    }

    /// The elements of a vector.
    pub(crate) fn vector(&self) -> &[f32] {
        match &self.0 {
            Kind::Vector(values) => values,
            Kind::Matrix { tensor, .. } => panic!("{} is a matrix where a vector belongs", tensor.name),
        }
    }

    /// All elements of a small weight, row after row.
    pub(crate) fn numbers(&self) -> &[f32] {
        match &self.0 {
            Kind::Vector(values) => values,
            Kind::Matrix { tensor, .. } => self.1.rows.get_or_init(|| {
                let mut values = vec![0.0; tensor.rows * tensor.cols];
                for (row, out) in values.chunks_exact_mut(tensor.cols).enumerate() {
                    tensor.format.decode(tensor.row(row), out);
                }
                values
            }),
        }
    }

    /// The same in another order, which `arrange` makes of them the first time. A weight has one such order all its life.
    pub(crate) fn arranged(&self, arrange: impl FnOnce(&[f32]) -> Vec<f32>) -> &[f32] {
        self.1.arranged.get_or_init(|| arrange(self.numbers()))
    }

    /// Some rows of a matrix as a matrix of their own.
    pub(crate) fn part(&self, rows: Range<usize>) -> Weight {
        match &self.0 {
            Kind::Vector(_) => panic!("a vector where a matrix belongs"),
            Kind::Matrix { tensor, kernels, batch } => {
                let bytes = tensor.bytes.slice(rows.start * self.row_bytes()..rows.end * self.row_bytes());
                let tensor = Tensor { name: String::new(), rows: rows.len(), bytes, ..*tensor };
                Weight(Kind::Matrix { tensor, kernels: *kernels, batch: *batch }, Arc::default())
            }
        }
    }

    /// Outputs of a matrix.
    pub(crate) fn rows(&self) -> usize {
        match &self.0 {
            Kind::Vector(_) => 1,
            Kind::Matrix { tensor, .. } => tensor.rows,
        }
    }

    /// Bytes of a row as it lies in memory.
    pub(crate) fn row_bytes(&self) -> usize {
        match &self.0 {
            Kind::Vector(values) => values.len() * 4,
            Kind::Matrix { tensor, .. } => tensor.bytes.len() / tensor.rows.max(1),
        }
    }

    /// Some rows of a matrix as they lie in memory.
    pub(crate) fn bytes(&self, rows: Range<usize>) -> &[u8] {
        match &self.0 {
            Kind::Vector(_) => panic!("a vector where a matrix belongs"),
            Kind::Matrix { tensor, .. } => &tensor.bytes[rows.start * self.row_bytes()..rows.end * self.row_bytes()],
        }
    }

    /// Whether the row kernel wants its inputs as 8-bit blocks.
    pub(crate) fn q8(&self) -> bool {
        matches!(&self.0, Kind::Matrix { kernels: Some(kernels), .. } if kernels.q8)
    }

    /// The batch kernels, where they are what multiplies that number of inputs of a tier.
    pub(crate) fn batch(&self, tier: Tier, inputs: usize) -> Option<&BatchKernels> {
        match (&self.0, tier) {
            (Kind::Matrix { batch: Some(batch), .. }, Tier::Prefill) => Some(batch),
            (Kind::Matrix { batch: Some(batch), .. }, Tier::Fastest) if inputs >= batch.least => Some(batch),
            _ => None,
        }
    }

    /// Decodes a row.
    pub(crate) fn decode(&self, row: usize, out: &mut [f32]) {
        match &self.0 {
            Kind::Vector(values) => out.copy_from_slice(values),
            Kind::Matrix { tensor, .. } => tensor.format.decode(tensor.row(row), out),
        }
    }
}
