//! The backend that writes down what it is asked for.

mod states;

use std::collections::{HashMap, HashSet};

use candor_ops::{
    Attention, CHOSEN, Columns, Error as OpsError, KvPlan, Mask, Norm, NormKind, Ops, Prims, Recurrence, Rope, Router,
    Step, Tap, Tensor, Unary,
};

use super::node::{Chosen, ENCODER, Kind, Node, NodeId, Weighted};
use crate::{
    Key,
    attending::Attending,
    replay::{Recurring, Side},
};

/// The backend that writes down.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) nodes: Vec<Node>,
    /// Values in the order in which they are shown, and how many operations come before each.
    pub(super) shown: Vec<(Key, usize)>,
    /// Whose tokens are looked up.
    pub(super) side: Side,
    /// Values that have a second name by now, and the node that has it: what reads them reads that.
    renamed: HashMap<NodeId, NodeId>,
}

/// A buffer: who wrote it last, whether anyone did, and how wide it is.
pub(super) struct Buffer {
    node: NodeId,
    written: bool,
    width: usize,
}

/// Who wrote the keys, values and states of a layer.
#[derive(Clone, Copy, Default)]
pub(super) struct Kept {
    k: NodeId,
    v: NodeId,
}

impl Buffer {
    fn becomes(&mut self, node: NodeId) {
        (self.node, self.written) = (node, true);
    }
}

/// Gives the taps' names to nodes.
pub(super) struct Names;

impl Tap<Notes> for Names {
    /// What is in a fusion is noted as it is, and named by [`Notes::name_the_rest`].
    fn wants(&mut self, _: &'static str, _: Option<usize>) -> bool {
        false
    }

    fn tap(&mut self, notes: &mut Notes, name: &'static str, layer: Option<usize>, x: &Buffer) {
        // What was copied whole may have a name already: then the copy is a value of its own.
        let node = match notes.nodes[x.node].tapped {
            true => {
                let width = notes.nodes[x.node].width;
                let copy = notes.push(Kind::Copy { columns: Columns::run(width, 0, 0) }, vec![x.node], width);
                // Attention reads queries, keys and values as a trace has them in the end, and a layer what the one before
                // gives out.
                if matches!(name, "Qcur" | "Kcur" | "Vcur" | "l_out") {
                    notes.renamed.insert(x.node, copy);
                }
                copy
            }
            false => x.node,
        };
        notes.shown.push((Key::new(name, layer), notes.nodes.len()));
        let node = &mut notes.nodes[node];
        node.key = Key::new(name, layer);
        node.tapped = true;
    }

    fn chosen(&mut self, notes: &mut Notes, layer: Option<usize>, routes: &(NodeId, usize)) {
        let Node { kind: Kind::Route { router, bias, .. }, inputs, .. } = notes.nodes[routes.0].clone() else { return };
        for (name, part) in CHOSEN.into_iter().zip([Chosen::Experts, Chosen::Weights]) {
            let node = notes.push(Kind::Route { router, bias: bias.clone(), part }, inputs.clone(), routes.1);
            notes.nodes[node].key = Key::new(name, layer);
            notes.nodes[node].tapped = true;
        }
        let after = notes.nodes.len();
        notes.shown.extend(CHOSEN.map(|name| (Key::new(name, layer), after)));
    }
}

impl Notes {
    fn push(&mut self, kind: Kind, inputs: Vec<NodeId>, width: usize) -> NodeId {
        let inputs: Vec<NodeId> =
            inputs.into_iter().map(|input| self.renamed.get(&input).copied().unwrap_or(input)).collect();
        let per_token = inputs.first().map_or(1, |&input| self.nodes[input].per_token);
        let side = inputs.first().map_or(self.side, |&input| self.nodes[input].side);
        self.nodes.push(Node { kind, inputs, key: Key::new("", None), tapped: false, width, per_token, side });
        self.nodes.len() - 1
    }

    /// Whether a node has scores of one side for keys of the other.
    fn crosses(&self, id: NodeId) -> bool {
        let node = &self.nodes[id];
        matches!(node.kind, Kind::Scores(_)) && node.inputs.iter().any(|&input| self.nodes[input].side != node.side)
    }

    fn in_place(&mut self, x: &mut Buffer, kind: Kind, others: &[NodeId]) {
        let inputs = [x.node].into_iter().chain(others.iter().copied()).collect();
        x.node = self.push(kind, inputs, x.width);
    }

    /// Names values inside of fusions: by their weight where llama.cpp has a name, by operation else.
    pub(super) fn name_the_rest(&mut self) {
        let named = self.nodes.iter().filter(|node| !node.key.name.is_empty());
        let mut taken: HashSet<Key> = named.map(|node| node.key.clone()).collect();
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
            let block = [
                ("cross_attn_o.", "cross_out"),
                ("attn_o.", "attn_out"),
                ("attn_output.", "attn_out"),
                ("ffn_down.", "ffn_out"),
            ];
            let encodes = weight.starts_with("enc.") || node.side == Side::Text;
            let stack = if encodes && self.nodes.iter().any(|node| node.side == Side::Tokens) { ENCODER } else { "" };
            let crosses = node.inputs.iter().any(|&input| self.crosses(input)) || self.crosses(id);
            let across = if crosses { "_cross" } else { "" };
            let block = block.into_iter().find(|(part, _)| weight.contains(part)).map(|(_, name)| name);
            let state = states::name(&self.nodes, id, consumer);
            let name = match (&node.kind, block) {
                _ if state.is_some() => state.unwrap_or_default(),
                (Kind::MatMul(_), Some(name)) if biased => format!("{stack}{name}.mul_mat"),
                (Kind::MatMul(_) | Kind::Bias(_), Some(name)) => format!("{stack}{name}"),
                (Kind::Scores(_), _) => format!("{stack}kq{across}"),
                (Kind::SoftMax(_), _) => format!("{stack}kq_soft_max{across}"),
                (Kind::Unary(Unary::Silu), _) => "ffn_silu".to_owned(),
                (kind, _) => match consumer {
                    Some(next) if !next.key.name.is_empty() => format!("{}.{}", next.key.name, kind.name()),
                    _ => match node.inputs.first().map(|&input| &self.nodes[input].key) {
                        Some(input) if input.layer.is_some() && input.layer == layer => {
                            format!("{}.{}", input.name, kind.name())
                        }
                        _ => format!("node{id}.{}", kind.name()),
                    },
                },
            };
            // Two inputs of one value may come from the same kind of operation.
            let key = Key::new(name, layer);
            let unique = if taken.contains(&key) { Key::new(format!("{}.{id}", key.name), layer) } else { key };
            taken.insert(unique.clone());
            self.nodes[id].key = unique;
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
        let norm = Norm { kind: NormKind::Rms, run: w.cols, eps };
        let node = self.push(Kind::Norm { norm, weight: Some(w.clone()), bias: None }, vec![x.node], out.width);
        out.becomes(node);
    }

    fn norm(&mut self, x: &mut Buffer, norm: Norm, weight: Option<&Tensor>, bias: Option<&Tensor>) {
        self.in_place(x, Kind::Norm { norm, weight: weight.cloned(), bias: bias.cloned() }, &[]);
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
        let mut attending = Box::new(Attending::new(&attention));
        if self.crosses(scores) {
            // The wiring says so by where it lets the row stand.
            attending.mask = Mask::Whole;
        }
        let weights = self.push(Kind::SoftMax(attending), vec![scores], heads.heads);
        let mix = self.push(Kind::Mix(heads), vec![weights, v], heads.heads * heads.value_dim);
        out.becomes(mix);
    }

    fn unary(&mut self, x: &mut Buffer, f: Unary) {
        self.in_place(x, Kind::Unary(f), &[]);
    }

    fn mul(&mut self, x: &mut Buffer, y: &Buffer) {
        self.in_place(x, Kind::Mul, &[y.node]);
    }

    fn add(&mut self, x: &mut Buffer, y: &Buffer) {
        self.in_place(x, Kind::Add, &[y.node]);
    }

    fn copy(&mut self, out: &mut Buffer, x: &Buffer, columns: Columns) {
        // A whole row is the value itself.
        if columns == Columns::run(out.width, 0, 0) && x.width == out.width {
            out.becomes(x.node);
            return;
        }
        // What the copy leaves of the buffer belongs to the value too.
        let before = out.written.then_some(out.node).filter(|_| columns.groups * columns.len < out.width);
        let inputs = [x.node].into_iter().chain(before).collect();
        let node = self.push(Kind::Copy { columns }, inputs, out.width);
        out.becomes(node);
    }

    fn add_positions(&mut self, x: &mut Buffer, table: &Tensor, _: &Step) {
        self.in_place(x, Kind::Positions(table.clone()), &[]);
    }

    fn mul_columns(&mut self, x: &mut Buffer, w: &Tensor) {
        self.in_place(x, Kind::Scale(w.clone()), &[]);
    }

    fn mul_groups(&mut self, x: &mut Buffer, y: &Buffer) {
        self.in_place(x, Kind::MulGroups, &[y.node]);
    }

    fn dot_groups(&mut self, out: &mut Buffer, x: &Buffer, y: &Buffer) {
        let node = self.push(Kind::DotGroups, vec![x.node, y.node], out.width);
        out.becomes(node);
    }

    fn matmul_heads(&mut self, out: &mut Buffer, x: &Buffer, w: &Tensor, heads: usize) {
        let kind = Kind::Stacked { weight: w.clone(), matrices: heads, routed: false };
        let node = self.push(kind, vec![x.node], out.width);
        out.becomes(node);
    }

    fn conv(&mut self, out: &mut Buffer, _: &mut Self::Kv, _: (usize, usize), x: &Buffer, w: &Tensor, _: &Step) {
        let node = self.push(Kind::Conv(w.clone()), vec![x.node], out.width);
        out.becomes(node);
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
        let node = self.push(Kind::Recur(Box::new(Recurring::of(&inputs))), nodes, out.width);
        out.becomes(node);
    }

    fn route(&mut self, routes: &mut (NodeId, usize), logits: &Buffer, bias: Option<&Tensor>, router: Router) {
        let kind = Kind::Route { router, bias: bias.cloned(), part: Chosen::Both };
        routes.0 = self.push(kind, vec![logits.node], 2 * router.used);
    }

    fn choices(&mut self, _: &(NodeId, usize)) {}

    fn chosen(&mut self, (): &(), out: &mut Vec<(u32, f32)>) {
        out.clear();
    }

    fn matmul_experts(&mut self, out: &mut Buffer, x: &Buffer, w: &Tensor, routes: &(NodeId, usize)) {
        let kind = Kind::Stacked { weight: w.clone(), matrices: w.rows / out.width.max(1), routed: true };
        let node = self.push(kind, vec![x.node, routes.0], out.width);
        self.nodes[node].per_token = routes.1;
        out.becomes(node);
    }

    fn add_bias_experts(&mut self, x: &mut Buffer, bias: &Tensor, routes: &(NodeId, usize)) {
        self.in_place(x, Kind::Weighted(Weighted::Bias(bias.clone())), &[routes.0]);
    }

    fn scale_experts(&mut self, x: &mut Buffer, routes: &(NodeId, usize)) {
        self.in_place(x, Kind::Weighted(Weighted::Scale), &[routes.0]);
    }

    fn sum_experts(&mut self, out: &mut Buffer, x: &Buffer, routes: &(NodeId, usize)) {
        let node = self.push(Kind::Weighted(Weighted::Sum(routes.1)), vec![x.node, routes.0], out.width);
        out.becomes(node);
        self.nodes[out.node].per_token = 1;
    }

    /// Nothing comes from elsewhere: a graph is that of a whole model.
    fn upload(&mut self, _: &mut Buffer, _: &[f32], _: &Step) {}

    fn snapshot(&mut self, _: &Buffer) {}

    fn elements(&self, (): &()) -> usize {
        0
    }

    fn download(&mut self, (): &(), out: &mut Vec<f32>) {
        out.clear();
    }
}

impl Ops for Notes {}

#[cfg(test)]
mod tests {
    use candor_ops::{Attention, Gate, Heads, KvFormat, LayerCache};
    use candor_testing::backend::floats;

    use super::*;

    /// Experts, a window and a state, with two products of the same kind that go into one value.
    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let ops = &mut Notes::default();
        let w = |rows: usize, cols: usize| floats(rows, cols, &vec![0.0; rows * cols]);
        let step = Step { tokens: &[0], positions: &[0], sequences: &[0], outputs: &[0], decoding: 0 };
        let (mut x, mut a, mut b) = (ops.buffer(1, 4), ops.buffer(1, 4), ops.buffer(1, 4));
        ops.embed(&mut x, &w(3, 4), &step);
        ops.matmul(&mut a, &x, &w(4, 4));
        ops.matmul(&mut b, &x, &w(4, 4));
        ops.mul(&mut a, &b);
        Names.tap(ops, "mixed", Some(0), &a);
        let layers = vec![LayerCache::attention(1, 4, 4)];
        let plan = KvPlan {
            layers,
            context: 1,
            step: 1,
            sequences: 1,
            pool: None,
            keys: KvFormat::F32,
            values: KvFormat::F32,
        };
        let mut kv = ops.kv(&plan);
        let heads = Heads { heads: 1, kv_heads: 1, key_dim: 4, value_dim: 4, scale: 1.0 };
        ops.kv_write(&mut kv, 0, &a, &b, &step);
        for mask in [Mask::Window(2), Mask::Causal] {
            ops.attend(&mut b, &a, &kv, 0, Attention { mask, ..Attention::causal(heads) }, &step);
        }
        ops.conv(&mut a, &mut kv, (0, 0), &b, &w(4, 2), &step);
        let router = Router { experts: 2, used: 2, gate: Gate::Softmax, groups: (1, 1), normalized: false, scale: 1.0 };
        let (mut logits, mut routes) = (ops.buffer(1, 2), ops.routes(1, 2));
        let (mut hidden, mut sum) = (ops.buffer(2, 4), ops.buffer(1, 4));
        ops.matmul(&mut logits, &a, &w(2, 4));
        ops.route(&mut routes, &logits, None, router);
        ops.matmul_experts(&mut hidden, &a, &w(8, 4), &routes);
        ops.unary(&mut hidden, Unary::Silu);
        ops.scale_experts(&mut hidden, &routes);
        ops.sum_experts(&mut sum, &hidden, &routes);
        Names.tap(ops, "ffn_moe_out", Some(0), &sum);
        ops.name_the_rest();
        let keys: HashSet<&Key> = ops.nodes.iter().map(|node| &node.key).collect();
        assert_eq!(keys.len(), ops.nodes.len(), "{keys:?}");
        let several: Vec<&str> =
            ops.nodes.iter().filter(|node| node.per_token == 2).map(|node| node.kind.name()).collect();
        assert_eq!(several, ["mul_mat_id", "silu", "mul"]);
    }
}
