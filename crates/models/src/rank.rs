//! What a reranker has after its last layer: a small classifier of one row per text. It is a page of numbers, so it is
//! computed here in f64 and on no backend. The code that pools the rows chooses the row.

use candor_gguf::Gguf;
use candor_ops::{Ops, Shapes, Unary};

use crate::{
    Error,
    arch::{Architecture, Labels},
    common::Common,
    config::Config,
    weights::Weights,
};

/// A reranker's head.
#[derive(Clone, Debug)]
pub struct Rank {
    dense: Option<Layer>,
    activation: Unary,
    norm: Option<(Vec<f32>, f32)>, // weight and epsilon
    output: Option<Layer>,
    labels: Labels,
}

#[derive(Clone, Debug)]
struct Layer {
    weight: Vec<f32>, // [out, in]
    bias: Option<Vec<f32>>,
    inputs: usize,
}

impl Rank {
    /// The head of a file's model, where it has one.
    ///
    /// # Errors
    /// If the file holds no model that is known, or the head does not fit it.
    pub fn from_gguf(gguf: &Gguf) -> Result<Option<Rank>, Error> {
        let (arch, config) = (Architecture::of(gguf)?, Config::from_gguf(gguf)?);
        Rank::load(&mut Weights::new(gguf, &mut Shapes::default()), arch, &config)
    }

    pub(crate) fn load<B: Ops>(
        w: &mut Weights<'_, B>,
        arch: &Architecture,
        common: &Common,
    ) -> Result<Option<Rank>, Error> {
        let dense = Layer::load(w, "cls", common.dim)?;
        let width = dense.as_ref().map_or(common.dim, Layer::outputs);
        let norm = match &dense {
            Some(_) => w.numbers("cls.norm.weight", width)?.map(|weight| (weight, common.eps)),
            None => None,
        };
        let output = Layer::load(w, "cls.output", width)?;
        let (activation, labels) = arch.rank;
        Ok((dense.is_some() || output.is_some()).then_some(Rank { dense, activation, norm, output, labels }))
    }

    /// How many numbers it gives for a row.
    pub fn labels(&self) -> usize {
        self.output.as_ref().or(self.dense.as_ref()).map_or(0, Layer::outputs)
    }

    /// The numbers for a row as wide as the stream; the first of them is a reranker's score.
    ///
    /// # Panics
    /// If the row has another width.
    pub fn scores(&self, row: &[f32]) -> Vec<f32> {
        let mut x: Vec<f64> = row.iter().copied().map(f64::from).collect();
        if let Some(dense) = &self.dense {
            x = dense.apply(&x);
            x.iter_mut().for_each(|x| *x = self.activation.at(*x));
        }
        if let Some((weight, eps)) = &self.norm {
            layer_norm(&mut x, weight, *eps);
        }
        if let Some(output) = &self.output {
            x = output.apply(&x);
        }
        if self.labels == Labels::Shares {
            let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            x.iter_mut().for_each(|x| *x = (*x - max).exp());
            let sum: f64 = x.iter().sum();
            x.iter_mut().for_each(|x| *x /= sum);
        }
        x.into_iter().map(|x| x as f32).collect()
    }
}

impl Layer {
    /// The matrix `name` of rows of `inputs`, where the file has it.
    fn load<B: Ops>(w: &mut Weights<'_, B>, name: &str, inputs: usize) -> Result<Option<Layer>, Error> {
        let weight = format!("{name}.weight");
        let Some(shape) = w.shape(&weight) else { return Ok(None) };
        let outputs = shape.get(1).map_or(1, |&rows| rows as usize);
        let weight = w.matrix_numbers(&weight, inputs, outputs)?;
        let bias = w.numbers(&format!("{name}.bias"), outputs)?;
        Ok(Some(Layer { weight, bias, inputs }))
    }

    fn outputs(&self) -> usize {
        self.weight.len() / self.inputs
    }

    fn apply(&self, x: &[f64]) -> Vec<f64> {
        assert_eq!(x.len(), self.inputs, "inputs of a classifier");
        let rows = self.weight.chunks_exact(self.inputs).enumerate();
        let product = |row: &[f32]| row.iter().zip(x).map(|(&w, &x)| f64::from(w) * x).sum::<f64>();
        let bias = |i: usize| self.bias.as_ref().map_or(0.0, |bias| f64::from(bias[i]));
        rows.map(|(i, row)| product(row) + bias(i)).collect()
    }
}

fn layer_norm(x: &mut [f64], weight: &[f32], eps: f32) {
    let count = x.len() as f64;
    let mean = x.iter().sum::<f64>() / count;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let scale = 1.0 / (variance + f64::from(eps)).sqrt();
    x.iter_mut().zip(weight).for_each(|(x, &weight)| *x = (*x - mean) * scale * f64::from(weight));
}
