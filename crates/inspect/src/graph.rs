//! The operations of a model as a list, made by running its wiring on a backend that only writes down what it is
//! asked for. So every wiring that runs can be replayed, and knows nothing of it.

use std::collections::HashMap;

use candor::gguf::Gguf;
use candor::models::{Config, Decoder, Pass};
use candor::ops::{
    Attention, Columns, Error as OpsError, Heads, KvFormat, KvPlan, Norm, NormKind, Ops, Prims, Recurrence, Rope,
    Router, Step, Tap, Tensor, Unary,
};

use crate::{
    Key,
    attending::Attending,
    formula::{self, Formula, Weighted},
};

/// Index of a node in its graph.
pub type NodeId = usize;

/// What a node computes.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Rows of a table, by token.
    Embed(Tensor),
    /// RMS norm with a weight, over runs of `width` elements: a row, or a head.
    Norm {
        /// The weight, `[width]`.
        weight: Tensor,
        /// Elements normed together.
        width: usize,
        /// Added to the mean square.
        eps: f32,
    },
    /// Product with a matrix stored as `[out][in]`.
    MatMul(Tensor),
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
    /// `x / (1 + exp(-x))`.
    Silu,
    /// Another function of one number.
    Unary(Unary),
    /// Choice of experts: an expert and its weight, so many times a row.
    Route {
        /// How they are chosen.
        router: Router,
        /// Added to what is chosen by.
        bias: Option<Tensor>,
    },
    /// Product of two values.
    Mul,
    /// Sum of two values.
    Add,
    /// Any other operation, by its definition.
    Formula(Formula),
}

impl Kind {
    /// The weight that the node reads.
    pub fn weight(&self) -> Option<&Tensor> {
        match self {
            Kind::Embed(weight) | Kind::Norm { weight, .. } | Kind::MatMul(weight) | Kind::Bias(weight) => Some(weight),
            Kind::SoftMax(attending) => attending.weight(),
            Kind::Route { bias, .. } => bias.as_ref(),
            Kind::Formula(formula) => formula.weight.as_ref(),
            _ => None,
        }
    }

    /// The operation in ggml's words.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Embed(_) => "get_rows",
            Kind::Norm { .. } => "rms_norm",
            Kind::MatMul(_) => "mul_mat",
            Kind::Bias(_) | Kind::Add => "add",
            Kind::Rope { .. } => "rope",
            Kind::Scores(_) => "kq",
            Kind::SoftMax(_) => "soft_max",
            Kind::Mix(_) => "kqv",
            Kind::Silu => "silu",
            Kind::Unary(f) => formula::unary_name(*f),
            Kind::Route { .. } => "route",
            Kind::Mul => "mul",
            Kind::Formula(formula) => formula.name,
        }
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
}

impl Graph {
    /// Writes down the operations of the file's model.
    ///
    /// # Errors
    /// If the file is not a model that runs.
    pub fn new(gguf: &Gguf) -> Result<Graph, candor::models::Error> {
        let mut notes = Notes::default();
        let model = Decoder::load(gguf, &mut notes)?;
        let mut scratch = model.scratch(&mut notes, 1, 1);
        let config = model.config().clone();
        let mut kv = notes.kv(&config.kv_plan(1, 1, KvFormat::F32, KvFormat::F32));
        let step = Step { tokens: &[0], positions: &[0], sequences: &[0], outputs: &[0] };
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
    pub fn counts(&self, id: NodeId, tokens: usize) -> impl Fn(usize, usize) -> bool + use<> {
        let mask = |node: &Node| match &node.kind {
            Kind::SoftMax(attending) if node.inputs.contains(&id) => Some(attending.mask),
            _ => None,
        };
        let scores = matches!(self.nodes[id].kind, Kind::Scores(_));
        let mask = if scores { self.nodes[id + 1..].iter().find_map(mask) } else { None };
        move |row, col| mask.is_none_or(|mask| mask.seen(row, tokens).contains(&(col % tokens)))
    }

    /// Elements per row of a node's output over `tokens` tokens.
    pub fn width(&self, id: NodeId, tokens: usize) -> usize {
        match &self.nodes[id].kind {
            Kind::Scores(heads) => heads.heads * tokens,
            Kind::SoftMax(attending) => attending.heads.heads * tokens,
            _ => self.nodes[id].width,
        }
    }
}

/// The backend that writes down.
#[derive(Default)]
struct Notes {
    nodes: Vec<Node>,
}

/// A buffer: who wrote it last, whether anyone did, and how wide it is.
struct Buffer {
    node: NodeId,
    written: bool,
    width: usize,
}

/// Who wrote the keys, values and states of a layer.
#[derive(Clone, Copy, Default)]
struct Kept {
    k: NodeId,
    v: NodeId,
}

impl Buffer {
    fn becomes(&mut self, node: NodeId) {
        (self.node, self.written) = (node, true);
    }
}

/// Gives the taps' names to nodes.
struct Names;

impl Tap<Notes> for Names {
    fn tap(&mut self, notes: &mut Notes, name: &'static str, layer: Option<usize>, x: &Buffer) {
        let node = &mut notes.nodes[x.node];
        node.key = Key::new(name, layer);
        node.tapped = true;
    }
}

impl Notes {
    fn push(&mut self, kind: Kind, inputs: Vec<NodeId>, width: usize) -> NodeId {
        let per_token = inputs.first().map_or(1, |&input| self.nodes[input].per_token);
        self.nodes.push(Node { kind, inputs, key: Key::new("", None), tapped: false, width, per_token });
        self.nodes.len() - 1
    }

    fn in_place(&mut self, x: &mut Buffer, kind: Kind, others: &[NodeId]) {
        let inputs = [x.node].into_iter().chain(others.iter().copied()).collect();
        x.node = self.push(kind, inputs, x.width);
    }

    fn change(&mut self, x: &mut Buffer, formula: Formula, others: &[NodeId]) {
        self.in_place(x, Kind::Formula(formula), others);
    }

    fn make(&mut self, out: &mut Buffer, formula: Formula, inputs: Vec<NodeId>) {
        let node = self.push(Kind::Formula(formula), inputs, out.width);
        out.becomes(node);
    }

    /// Names values inside of fusions: by their weight where llama.cpp has a name, by operation else.
    fn name_the_rest(&mut self) {
        let mut layer = None;
        for id in 0..self.nodes.len() {
            let node = &self.nodes[id];
            if !node.key.name.is_empty() {
                layer = node.key.layer.or(layer);
                continue;
            }
            let consumer = self.nodes[id + 1..].iter().find(|other| other.inputs.contains(&id));
            let biased = consumer.is_some_and(|next| matches!(next.kind, Kind::Bias(_)));
            let weight = node.kind.weight().map_or("", |weight| weight.name.as_str());
            let block = [("attn_output.", "attn_out"), ("ffn_down.", "ffn_out")];
            let block = block.into_iter().find(|(part, _)| weight.contains(part)).map(|(_, name)| name);
            let name = match (&node.kind, block) {
                (Kind::MatMul(_), Some(name)) if biased => format!("{name}.mul_mat"),
                (Kind::MatMul(_) | Kind::Bias(_), Some(name)) => name.to_owned(),
                (Kind::Scores(_), _) => "kq".to_owned(),
                (Kind::SoftMax(_), _) => "kq_soft_max".to_owned(),
                (Kind::Silu, _) => "ffn_silu".to_owned(),
                (kind, _) => match consumer {
                    Some(next) if !next.key.name.is_empty() => format!("{}.{}", next.key.name, kind.name()),
                    _ => format!("node{id}.{}", kind.name()),
                },
            };
            self.nodes[id].key = Key::new(name, layer);
        }
    }
}

impl Prims for Notes {
    type Weight = Tensor;
    type Buf = Buffer;
    /// Keys and values of each layer.
    type Kv = Vec<Kept>;
    type Rope = Rope;
    type Snapshot = ();
    /// The choice of experts, and how many a row goes to.
    type Routes = (NodeId, usize);

    fn weight(&mut self, tensor: Tensor) -> Result<Tensor, OpsError> {
        Ok(tensor)
    }

    fn buffer(&mut self, _rows: usize, width: usize) -> Buffer {
        Buffer { node: 0, written: false, width }
    }

    fn kv(&mut self, plan: &KvPlan) -> Vec<Kept> {
        vec![Kept::default(); plan.layers.len()]
    }

    fn routes(&mut self, _: usize, used: usize) -> (NodeId, usize) {
        (0, used)
    }

    fn rope_table(&mut self, rope: Rope) -> Rope {
        rope
    }

    fn embed(&mut self, out: &mut Buffer, table: &Tensor, _: &Step) {
        let node = self.push(Kind::Embed(table.clone()), Vec::new(), out.width);
        out.becomes(node);
    }

    fn rms_norm(&mut self, out: &mut Buffer, x: &Buffer, w: &Tensor, eps: f32) {
        let node = self.push(Kind::Norm { weight: w.clone(), width: w.cols, eps }, vec![x.node], out.width);
        out.becomes(node);
    }

    fn norm(&mut self, x: &mut Buffer, norm: Norm, weight: Option<&Tensor>, bias: Option<&Tensor>) {
        match (norm.kind, weight, bias) {
            (NormKind::Rms, Some(weight), None) if weight.cols == norm.run => {
                let weight = weight.clone();
                self.in_place(x, Kind::Norm { weight, width: norm.run, eps: norm.eps }, &[]);
            }
            _ => self.change(x, formula::norm(norm, weight, bias), &[]),
        }
    }

    fn matmul(&mut self, out: &mut Buffer, x: &Buffer, w: &Tensor) {
        let node = self.push(Kind::MatMul(w.clone()), vec![x.node], w.rows);
        out.becomes(node);
    }

    fn matmul_rows(&mut self, out: &mut Buffer, x: &Buffer, w: &Tensor, _: &Step) {
        self.matmul(out, x, w);
    }

    fn add_bias(&mut self, x: &mut Buffer, bias: &Tensor) {
        // A bias of what was just added to the stream belongs to what was added: engines name that sum.
        if let (Kind::Add, &[stream, product]) = (&self.nodes[x.node].kind, self.nodes[x.node].inputs.as_slice()) {
            let (biased, width) = (x.node, x.width);
            self.nodes[biased].kind = Kind::Bias(bias.clone());
            self.nodes[biased].inputs = vec![product];
            x.node = self.push(Kind::Add, vec![stream, biased], width);
            return;
        }
        self.in_place(x, Kind::Bias(bias.clone()), &[]);
    }

    fn rope(&mut self, x: &mut Buffer, rope: &Rope, head_dim: usize, _: &Step) {
        self.in_place(x, Kind::Rope { rope: rope.clone(), head_dim }, &[]);
    }

    fn kv_write(&mut self, kv: &mut Self::Kv, layer: usize, k: &Buffer, v: &Buffer, _: &Step) {
        kv[layer] = Kept { k: k.node, v: v.node };
    }

    fn attend(
        &mut self,
        out: &mut Buffer,
        q: &Buffer,
        kv: &Self::Kv,
        layer: usize,
        attention: Attention<'_, Tensor>,
        _: &Step,
    ) {
        let Kept { k, v } = kv[layer];
        let heads = attention.heads;
        let scores = self.push(Kind::Scores(heads), vec![q.node, k], heads.heads);
        let attending = Box::new(Attending::new(&attention));
        let weights = self.push(Kind::SoftMax(attending), vec![scores], heads.heads);
        let mix = self.push(Kind::Mix(heads), vec![weights, v], heads.heads * heads.value_dim);
        out.becomes(mix);
    }

    fn unary(&mut self, x: &mut Buffer, f: Unary) {
        match f {
            Unary::Silu => self.in_place(x, Kind::Silu, &[]),
            _ => self.in_place(x, Kind::Unary(f), &[]),
        }
    }

    fn mul(&mut self, x: &mut Buffer, y: &Buffer) {
        self.in_place(x, Kind::Mul, &[y.node]);
    }

    fn add(&mut self, x: &mut Buffer, y: &Buffer) {
        self.in_place(x, Kind::Add, &[y.node]);
    }

    fn copy(&mut self, out: &mut Buffer, x: &Buffer, columns: Columns) {
        // What the copy leaves of the buffer belongs to the value too.
        let before = out.written.then_some(out.node);
        let inputs = [x.node].into_iter().chain(before).collect();
        let formula = formula::copy(columns, out.width);
        self.make(out, formula, inputs);
    }

    fn add_positions(&mut self, x: &mut Buffer, table: &Tensor, _: &Step) {
        self.change(x, formula::add_positions(table), &[]);
    }

    fn mul_columns(&mut self, x: &mut Buffer, w: &Tensor) {
        self.change(x, formula::mul_columns(w), &[]);
    }

    fn mul_groups(&mut self, x: &mut Buffer, y: &Buffer) {
        self.change(x, formula::mul_groups(), &[y.node]);
    }

    fn dot_groups(&mut self, out: &mut Buffer, x: &Buffer, y: &Buffer) {
        let formula = formula::dot_groups(out.width);
        self.make(out, formula, vec![x.node, y.node]);
    }

    fn matmul_heads(&mut self, out: &mut Buffer, x: &Buffer, w: &Tensor, heads: usize) {
        let formula = formula::matmul_heads(w, heads, out.width);
        self.make(out, formula, vec![x.node]);
    }

    fn conv(&mut self, out: &mut Buffer, _: &mut Self::Kv, _: (usize, usize), x: &Buffer, w: &Tensor, _: &Step) {
        self.make(out, formula::conv(w), vec![x.node]);
    }

    fn recur(
        &mut self,
        out: &mut Buffer,
        _: &mut Self::Kv,
        _: (usize, usize),
        inputs: Recurrence<'_, Tensor, Buffer>,
        _: &Step,
    ) {
        let nodes = inputs.buffers().into_iter().map(|x| x.node).collect();
        self.make(out, formula::recur(&inputs), nodes);
    }

    fn route(&mut self, routes: &mut (NodeId, usize), logits: &Buffer, bias: Option<&Tensor>, router: Router) {
        let kind = Kind::Route { router, bias: bias.cloned() };
        routes.0 = self.push(kind, vec![logits.node], 2 * router.used);
    }

    fn chosen(&mut self, _: &(NodeId, usize), out: &mut Vec<(u32, f32)>) {
        out.clear();
    }

    fn matmul_experts(&mut self, out: &mut Buffer, x: &Buffer, w: &Tensor, routes: &(NodeId, usize)) {
        let formula = formula::experts(Weighted::Matrix(w.clone(), out.width));
        self.make(out, formula, vec![x.node, routes.0]);
        self.nodes[out.node].per_token = routes.1;
    }

    fn add_bias_experts(&mut self, x: &mut Buffer, bias: &Tensor, routes: &(NodeId, usize)) {
        self.change(x, formula::experts(Weighted::Bias(bias.clone())), &[routes.0]);
    }

    fn scale_experts(&mut self, x: &mut Buffer, routes: &(NodeId, usize)) {
        self.change(x, formula::experts(Weighted::Scale), &[routes.0]);
    }

    fn sum_experts(&mut self, out: &mut Buffer, x: &Buffer, routes: &(NodeId, usize)) {
        self.make(out, formula::experts(Weighted::Sum(routes.1)), vec![x.node, routes.0]);
        self.nodes[out.node].per_token = 1;
    }

    /// Nothing comes from elsewhere: a graph is that of a whole model.
    fn upload(&mut self, _: &mut Buffer, _: usize, _: &[f32]) {}

    fn snapshot(&mut self, _: &Buffer) {}

    fn download(&mut self, (): &(), out: &mut Vec<f32>) {
        out.clear();
    }
}

impl Ops for Notes {}

#[cfg(test)]
mod tests {
    use candor::gguf::Gguf;
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
        writer.tensor("blk.0.attn_output.bias", candor::gguf::Format::F32, &[len], bytes).unwrap();
        let graph = Graph::new(&Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()).unwrap();
        let node = |name: &str| &graph.nodes[graph.find(&Key::new(name, Some(0))).unwrap()];
        let input = |name: &str, at: usize| graph.nodes[node(name).inputs[at]].key.name.as_str();
        assert!(matches!(node("attn_out").kind, Kind::Bias(_)));
        assert_eq!(input("attn_out", 0), "attn_out.mul_mat");
        assert!(matches!(node("ffn_inp").kind, Kind::Add) && node("ffn_inp").tapped);
        assert_eq!((input("ffn_inp", 0), input("ffn_inp", 1)), ("inp_embd", "attn_out"));
    }
}
