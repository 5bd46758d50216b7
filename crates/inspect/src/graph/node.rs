//! One operation of a model: what it computes, of which other ones, and the name of its output.

use candor_ops::{Columns, Heads, Norm, NormKind, Rope, Router, Tensor, Unary};

use crate::{
    Key,
    attending::Attending,
    replay::{Recurring, Side},
};

/// Index of a node in its graph.
pub type NodeId = usize;

/// A part of a choice of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// Pairs of an expert and its weight.
    Both,
    /// The experts.
    Experts,
    /// Their weights.
    Weights,
}

/// What is done with the outputs of chosen experts.
#[derive(Clone, Debug)]
pub enum Weighted {
    /// Addition of their biases, `[experts, width]`.
    Bias(Tensor),
    /// Multiplication by their weights.
    Scale,
    /// Sum of as many.
    Sum(usize),
}

/// What a node computes.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Rows of a table, by token.
    Embed(Tensor),
    /// Rows of a table of learned positions, added to a value.
    Positions(Tensor),
    /// A norm of runs of elements: of a row, or of heads.
    Norm {
        /// What is divided by what.
        norm: Norm,
        /// On each element: as wide as a run, or as a row.
        weight: Option<Tensor>,
        /// Added at last.
        bias: Option<Tensor>,
    },
    /// Product with a matrix stored as `[out][in]`.
    MatMul(Tensor),
    /// Product with one of several matrices, stacked as `[matrices * out][in]`. Inputs: x, and where rows choose theirs the
    /// choice; else each head of x has its own.
    Stacked {
        /// The matrices.
        weight: Tensor,
        /// How many.
        matrices: usize,
        /// Whether rows choose.
        routed: bool,
    },
    /// Addition of a vector.
    Bias(Tensor),
    /// Rotation of pairs by position.
    Rope {
        /// The rotation.
        rope: Rope,
        /// Width of a head.
        head_dim: usize,
    },
    /// Scores of queries against keys, before scale and mask. Inputs: q, k.
    Scores(Heads),
    /// Scale, cap, biases, mask and softmax.
    SoftMax(Box<Attending>),
    /// Values weighted by the softmax, heads side by side. Inputs: weights, v.
    Mix(Heads),
    /// A function of one number, for each element.
    Unary(Unary),
    /// Product with a vector, the same for every row.
    Scale(Tensor),
    /// A copy of columns. Inputs: what is read, and where the copy leaves columns as they were what was there before.
    Copy {
        /// Which columns go where.
        columns: Columns,
    },
    /// Causal convolution of each column along the tokens, `[width, taps]`.
    Conv(Tensor),
    /// A linear recurrence along the tokens.
    Recur(Box<Recurring>),
    /// Choice of experts, a number of times a row.
    Route {
        /// How they are chosen.
        router: Router,
        /// Added to what is chosen by.
        bias: Option<Tensor>,
        /// What of the choice.
        part: Chosen,
    },
    /// Biases, weights or the sum of chosen experts' outputs. Inputs: the outputs, the choice.
    Weighted(Weighted),
    /// Product of two values.
    Mul,
    /// Sum of two values.
    Add,
    /// Equal groups of a row, each times one number of the other value's row.
    MulGroups,
    /// The product of each of a row's groups with that of the other value's.
    DotGroups,
}

impl Kind {
    /// The weight that the node reads.
    pub fn weight(&self) -> Option<&Tensor> {
        match self {
            Kind::Embed(weight)
            | Kind::Positions(weight)
            | Kind::MatMul(weight)
            | Kind::Stacked { weight, .. }
            | Kind::Bias(weight)
            | Kind::Scale(weight)
            | Kind::Conv(weight) => Some(weight),
            Kind::Norm { weight, bias, .. } => weight.as_ref().or(bias.as_ref()),
            Kind::Recur(recurring) => recurring.weight(),
            Kind::Weighted(Weighted::Bias(bias)) => Some(bias),
            Kind::SoftMax(attending) => attending.weight(),
            Kind::Route { bias, .. } => bias.as_ref(),
            _ => None,
        }
    }

    /// The matrix that the first input is multiplied with: engines round that input as the matrix's format asks.
    pub fn product(&self) -> Option<&Tensor> {
        match self {
            Kind::MatMul(weight) | Kind::Stacked { weight, .. } => Some(weight),
            _ => None,
        }
    }

    /// How many matrices the weight is.
    pub fn matrices(&self) -> usize {
        match self {
            Kind::Stacked { matrices, .. } => *matrices,
            _ => 1,
        }
    }

    /// The operation in ggml's words.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Embed(_) => "get_rows",
            Kind::Norm { norm, .. } => match norm.kind {
                NormKind::Rms => "rms_norm",
                NormKind::Layer => "norm",
                NormKind::L2 => "l2_norm",
            },
            Kind::MatMul(_) | Kind::Stacked { routed: false, .. } => "mul_mat",
            Kind::Stacked { .. } => "mul_mat_id",
            Kind::Bias(_) | Kind::Positions(_) | Kind::Add => "add",
            Kind::Rope { .. } => "rope",
            Kind::Scores(_) => "kq",
            Kind::SoftMax(_) => "soft_max",
            Kind::Mix(_) => "kqv",
            Kind::Unary(f) => unary_name(*f),
            Kind::Route { .. } => "route",
            Kind::Mul | Kind::Scale(_) => "mul",
            Kind::Copy { .. } => "cpy",
            Kind::Conv(_) => "ssm_conv",
            Kind::Recur(_) => "recur",
            Kind::Weighted(Weighted::Bias(_)) => "add_id",
            Kind::Weighted(Weighted::Scale) => "mul",
            Kind::Weighted(Weighted::Sum(_)) => "add",
            Kind::MulGroups => "mul",
            Kind::DotGroups => "dot",
        }
    }
}

/// The function in ggml's words where it has them.
fn unary_name(f: Unary) -> &'static str {
    match f {
        Unary::Gelu | Unary::GeluErf => "gelu",
        Unary::GeluQuick => "gelu_quick",
        Unary::Relu | Unary::ReluSquared => "relu",
        Unary::Sigmoid => "sigmoid",
        Unary::Tanh => "tanh",
        Unary::Softplus => "softplus",
        Unary::Exp => "exp",
        Unary::Affine { .. } => "scale",
        Unary::Clamp { .. } => "clamp",
        Unary::SoftCap(_) => "softcap",
        Unary::Xielu { .. } => "xielu",
        Unary::Silu => "silu",
    }
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it computes.
    pub kind: Kind,
    /// Of which nodes.
    pub inputs: Vec<NodeId>,
    /// The name of its output.
    pub key: Key,
    /// Whether the engine's own traces hold the output.
    pub tapped: bool,
    /// Elements per row; for scores per position.
    pub width: usize,
    /// Rows of each token: as many as it has experts, else one.
    pub per_token: usize,
    /// Whose rows they are.
    pub side: Side,
}

/// What the names of an encoder's values begin with, where there is a decoder, too.
pub(crate) const ENCODER: &str = "enc_";
