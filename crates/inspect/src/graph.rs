//! The operations of a model as a list, made by running its wiring on a backend that only writes down what it is
//! asked for. So every wiring that runs can be replayed, and knows nothing of it.

mod notes;

use std::collections::HashMap;

use candor::Gguf;
use candor_models::{Config, Decoder, Pass};
use candor_ops::{Columns, Heads, KvFormat, Norm, NormKind, Prims, Rope, Router, Step, Tensor, Unary};

use crate::{
    Key,
    attending::Attending,
    replay::{Recurring, Side, Tokens},
};
use notes::{Names, Notes};

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

/// The operations of a model, each after its inputs.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The operations.
    pub nodes: Vec<Node>,
    /// The model's dimensions.
    pub config: Config,
    /// `general.architecture`.
    pub arch: String,
    /// What the file says about rotation, for faults that misread it.
    pub rotary: Rotary,
    by_key: HashMap<Key, NodeId>,
}

/// The rotary numbers of a file's metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// `rope.freq_base`.
    pub base: f64,
    /// Elements of a head that turn.
    pub dims: usize,
    /// `rope.scaling.type`, where it scales.
    pub scaling: Option<String>,
    /// `rope.scaling.factor`.
    pub factor: f64,
    /// The context that the model will run with.
    pub context: f64,
    /// The context that it was trained on before it was scaled.
    pub original_context: f64,
    /// Turns within that context at which YaRN's ramp begins and ends.
    pub betas: (f64, f64),
}

impl Graph {
    /// Writes down the operations of the file's model.
    ///
    /// # Errors
    /// If the file is not a model that runs.
    pub fn new(gguf: &Gguf) -> Result<Graph, candor_models::Error> {
        let mut notes = Notes::default();
        let model = Decoder::load(gguf, &mut notes)?;
        let mut scratch = model.scratch(&mut notes, 1, 1);
        let config = model.config().clone();
        let mut kv = notes.kv(&config.kv_plan(1, 1, KvFormat::F32, KvFormat::F32));
        let step = Step { tokens: &[0], positions: &[0], sequences: &[0], outputs: &[0], decoding: 0 };
        notes.side = Side::Text;
        model.encode(&mut Pass { ops: &mut notes, s: &mut scratch, kv: &mut kv, step, tap: &mut Names });
        notes.side = Side::Tokens;
        model.forward(&mut Pass { ops: &mut notes, s: &mut scratch, kv: &mut kv, step, tap: &mut Names });
        notes.name_the_rest();
        let by_key = notes.nodes.iter().enumerate().map(|(id, node)| (node.key.clone(), id)).collect();
        let metadata = gguf.metadata();
        let arch = metadata.str("general.architecture")?.unwrap_or_default().to_owned();
        let number = |key: &str| metadata.f32(&format!("{arch}.{key}"));
        let rotary = Rotary {
            base: number("rope.freq_base")?.map_or(10_000.0, f64::from),
            dims: metadata
                .u32(&format!("{arch}.rope.dimension_count"))?
                .map_or(config.heads.key_dim, |dims| dims as usize),
            scaling: metadata.str(&format!("{arch}.rope.scaling.type"))?.map(str::to_owned),
            factor: number("rope.scaling.factor")?.map_or(1.0, f64::from),
            context: config.context as f64,
            original_context: metadata
                .u32(&format!("{arch}.rope.scaling.original_context_length"))?
                .map_or(config.context as f64, f64::from),
            betas: (
                number("rope.scaling.yarn_beta_fast")?.map_or(32.0, f64::from),
                number("rope.scaling.yarn_beta_slow")?.map_or(1.0, f64::from),
            ),
        };
        Ok(Graph { nodes: notes.nodes, config, arch, rotary, by_key })
    }

    /// The node whose output has this name.
    pub fn find(&self, key: &Key) -> Option<NodeId> {
        self.by_key.get(key).copied()
    }

    /// The same model with other operations, as another wiring would have them.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Vec<Node>)) -> Graph {
        change(&mut self.nodes);
        self.by_key = self.nodes.iter().enumerate().map(|(id, node)| (node.key.clone(), id)).collect();
        self
    }

    /// Whether an element of a node's output can matter: scores of positions that nobody sees are masked.
    pub fn counts(&self, id: NodeId, tokens: &Tokens) -> impl Fn(usize, usize) -> bool + use<> {
        let mask = |node: &Node| match &node.kind {
            Kind::SoftMax(attending) if node.inputs.contains(&id) => Some(attending.mask),
            _ => None,
        };
        let scores = matches!(self.nodes[id].kind, Kind::Scores(_));
        let mask = if scores { self.nodes[id + 1..].iter().find_map(mask) } else { None };
        let keys = tokens.rows(self.keys(id));
        move |row, col| mask.is_none_or(|mask| mask.seen(row, keys).contains(&(col % keys)))
    }

    /// Elements of a token's row of a node's output over those tokens; what its experts have lies side by side.
    pub fn width(&self, id: NodeId, tokens: &Tokens) -> usize {
        match &self.nodes[id].kind {
            Kind::Scores(heads) => heads.heads * tokens.rows(self.keys(id)),
            Kind::SoftMax(attending) => attending.heads.heads * tokens.rows(self.keys(id)),
            _ => self.nodes[id].width * self.nodes[id].per_token,
        }
    }

    /// Whose keys a node's scores or weights are of, or whose values it mixes: a decoder looks at the text, too.
    pub fn keys(&self, id: NodeId) -> Side {
        let node = &self.nodes[id];
        match (&node.kind, node.inputs.as_slice()) {
            (Kind::Scores(_) | Kind::Mix(_), &[_, keys]) => self.nodes[keys].side,
            (Kind::SoftMax(_), &[scores]) => self.keys(scores),
            _ => node.side,
        }
    }
}

#[cfg(test)]
mod tests {
    use candor::Gguf;
    use candor_testing::Tiny;

    use super::*;

    #[test]
    fn every_value_has_a_name_of_its_own() {
        let graph = Graph::new(&Gguf::from_bytes(Tiny::default().bytes().into()).unwrap()).unwrap();
        let layer = |layer: usize| {
            "attn_norm Qcur.mul_mat Kcur.mul_mat Vcur Qcur Kcur kq kq_soft_max kqv_out attn_out ffn_inp ffn_norm ffn_gate \
             ffn_up ffn_silu ffn_swiglu ffn_out l_out"
                .split_whitespace()
                .map(move |name| format!("{name}-{layer}"))
        };
        let mut expected = vec!["inp_embd".to_owned()];
        expected.extend(layer(0).chain(layer(1)));
        expected.extend(["result_norm".to_owned(), "result_output".to_owned()]);
        assert_eq!(graph.nodes.iter().map(|node| node.key.to_string()).collect::<Vec<_>>(), expected);
        assert_eq!(graph.by_key.len(), graph.nodes.len());
    }

    #[test]
    fn a_bias_of_what_was_added_is_part_of_it() {
        let tiny = Tiny { layers: 1, ..Tiny::default() };
        let mut writer = tiny.writer();
        let (len, bytes) = (tiny.dim as u64, vec![0; tiny.dim * 4]);
        writer.tensor("blk.0.attn_output.bias", candor::Format::F32, &[len], bytes).unwrap();
        let graph = Graph::new(&Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()).unwrap();
        let node = |name: &str| &graph.nodes[graph.find(&Key::new(name, Some(0))).unwrap()];
        let input = |name: &str, at: usize| graph.nodes[node(name).inputs[at]].key.name.as_str();
        assert!(matches!(node("attn_out").kind, Kind::Bias(_)));
        assert_eq!(input("attn_out", 0), "attn_out.mul_mat");
        assert!(matches!(node("ffn_inp").kind, Kind::Add) && node("ffn_inp").tapped);
        assert_eq!((input("ffn_inp", 0), input("ffn_inp", 1)), ("inp_embd", "attn_out"));
    }
}
