//! Models with operations that tiny llamas lack, made from those of a llama: masks and biases of other attention layers,
//! routers, shared experts, scales.

use candor_inspect::{Attending, Chosen, Key, Kind, Node, NodeId, Weighted, replay::Side};
use candor_ops::{Columns, Gate, Mask, Router, Tensor, Unary};
use candor_testing::{Random, backend::floats};

use crate::bed::Bed;
use crate::model::{self, Rope, Shape};

pub fn beds() -> Vec<Bed> {
    let llama = || Bed::new(&model::llama());
    vec![
        llama().with("llama with windows, caps and sinks", |nodes| attend(nodes, masked)),
        llama().with("llama with biases of scores", |nodes| attend(nodes, biased)),
        llama().with("llama with routers", routed),
        llama().with("llama with scales and a shared expert", scaled),
        llama().with("llama with rotations of other kinds", turned),
        llama().with("llama that cuts values off", clipped),
        llama()
            .with("llama with a scale of its own", |nodes| attend(nodes, |_, attending| attending.heads.scale = 0.2)),
        Bed::new(&Shape { rope: Rope::Yarn, ..model::llama() }).with("llama with YaRN between pairs", unrounded),
        Bed::new(&model::experts()).with("mixtral that weighs what experts read", weighed_before),
    ]
}

/// Numbers in -3..3.
fn numbers(rows: usize, cols: usize, seed: u64) -> Tensor {
    let mut random = Random(seed);
    floats(rows, cols, &(0..rows * cols).map(|_| 3.0 * random.signed()).collect::<Vec<_>>())
}

/// Changes the attention of each layer.
fn attend(nodes: &mut [Node], change: fn(usize, &mut Attending)) {
    for node in nodes {
        if let (Kind::SoftMax(attending), Some(layer)) = (&mut node.kind, node.key.layer) {
            change(layer, attending);
        }
    }
}

fn masked(layer: usize, attending: &mut Attending) {
    match layer {
        0 => attending.mask = Mask::Window(5),
        // Scores of these models are small.
        1 => attending.soft_cap = Some(0.05),
        _ => attending.sinks = Some(numbers(1, attending.heads.heads, 7)),
    }
}

fn biased(layer: usize, attending: &mut Attending) {
    match layer {
        0 => attending.alibi = Some(8.0),
        1 => attending.relative = Some((numbers(8, attending.heads.heads, 8), 10)),
        _ => attending.mask = Mask::Chunk(4),
    }
}

fn find(nodes: &[Node], name: &str, layer: Option<usize>) -> NodeId {
    let key = Key::new(name, layer);
    nodes.iter().position(|node| node.key == key).unwrap_or_else(|| panic!("{key} is not there"))
}

/// Another operation at the end, which traces hold.
fn add(
    nodes: &mut Vec<Node>,
    (name, layer): (&str, Option<usize>),
    kind: Kind,
    inputs: Vec<NodeId>,
    width: usize,
) -> NodeId {
    nodes.push(Node {
        kind,
        inputs,
        key: Key::new(name, layer),
        tapped: true,
        width,
        per_token: 1,
        side: Side::Tokens,
    });
    nodes.len() - 1
}

/// The gate's outputs choose among as many experts.
fn routed(nodes: &mut Vec<Node>) {
    let experts = nodes[find(nodes, "ffn_gate", Some(0))].width;
    let router = Router { experts, used: 4, gate: Gate::Softmax, groups: (1, 1), normalized: true, scale: 1.0 };
    let routers = [
        (router, None),
        (Router { gate: Gate::SoftmaxOfChosen, normalized: false, ..router }, None),
        (Router { gate: Gate::Sigmoid, groups: (4, 2), scale: 2.5, ..router }, Some(numbers(1, experts, 9))),
        (Router { normalized: false, ..router }, None),
    ];
    for (index, (router, bias)) in routers.into_iter().enumerate() {
        let logits = find(nodes, "ffn_gate", Some(index % 3));
        let name = format!("ffn_moe_topk{}", index / 3);
        add(nodes, (&name, Some(index % 3)), Kind::Route { router, bias, part: Chosen::Both }, vec![logits], 8);
    }
}

fn clipped(nodes: &mut Vec<Node>) {
    let values = find(nodes, "Vcur", Some(0));
    let width = nodes[values].width;
    let clamp = Kind::Unary(Unary::Clamp { low: -0.05, high: 0.05 });
    add(nodes, ("Vcur.clamped", Some(0)), clamp, vec![values], width);
}

fn scaled(nodes: &mut Vec<Node>) {
    let by = |scale| Kind::Unary(Unary::scale(scale));
    let embedding = find(nodes, "inp_embd", None);
    let width = nodes[embedding].width;
    add(nodes, ("inp_scaled", None), by(9.0), vec![embedding], width);
    let (stream, product) = (find(nodes, "ffn_inp", Some(0)), find(nodes, "ffn_out", Some(0)));
    let scaled = add(nodes, ("ffn_scaled", Some(0)), by(0.22), vec![product], width);
    add(nodes, ("l_scaled", Some(0)), Kind::Add, vec![stream, scaled], width);
    let Kind::MatMul(weight) = nodes[product].kind.clone() else { panic!("ffn_out is a product") };
    let shared = Kind::MatMul(Tensor { name: "blk.0.ffn_down_shexp.weight".into(), ..weight });
    let hidden = nodes[product].inputs.clone();
    let shared = add(nodes, ("ffn_shexp", Some(0)), shared, hidden.clone(), width);
    let gate = Tensor { name: "blk.0.ffn_gate_inp_shexp.weight".into(), ..numbers(1, nodes[hidden[0]].width, 10) };
    let logit = add(nodes, ("shared_expert_gate", Some(0)), Kind::MatMul(gate), hidden, 1);
    let gate = add(nodes, ("shared_expert_gate_sigmoid", Some(0)), Kind::Unary(Unary::Sigmoid), vec![logit], 1);
    let shared = add(nodes, ("ffn_shexp_gated", Some(0)), Kind::MulGroups, vec![shared, gate], width);
    add(nodes, ("ffn_moe_sum", Some(0)), Kind::Add, vec![product, shared], width);
}

/// A window and its own base in the first layer, no rotation in the second, of half of each head in the last.
fn turned(nodes: &mut Vec<Node>) {
    attend(nodes, |layer, attending| attending.mask = if layer == 0 { Mask::Window(5) } else { Mask::Causal });
    for node in nodes {
        let width = node.width;
        let Kind::Rope { rope, .. } = &mut node.kind else { continue };
        let count = rope.frequencies.len();
        let base = |base: f64, pairs: usize| (0..pairs).map(|i| base.powf(-(i as f64) / pairs as f64)).collect();
        match node.key.layer {
            Some(0) => rope.frequencies = base(100.0, count),
            Some(1) => node.kind = Kind::Copy { columns: Columns::run(width, 0, 0) },
            _ => rope.frequencies = base(1e4, count / 2),
        }
    }
}

/// The ends of YaRN's ramp as they come.
fn unrounded(nodes: &mut Vec<Node>) {
    for node in nodes {
        let Kind::Rope { rope, .. } = &mut node.kind else { continue };
        let pairs = rope.frequencies.len();
        let end = |turns: f64| pairs as f64 * (4096.0 / (turns * 2.0 * std::f64::consts::PI)).ln() / 1e4f64.ln();
        for (pair, frequency) in rope.frequencies.iter_mut().enumerate() {
            let ramp = ((pair as f64 - end(32.0)) / (end(1.0) - end(32.0))).clamp(0.0, 1.0);
            *frequency = 1e4f64.powf(-(pair as f64) / pairs as f64) * (1.0 - ramp + ramp / 4.0);
        }
    }
}

/// What experts open with is weighed, and not what they give.
fn weighed_before(nodes: &mut Vec<Node>) {
    for layer in 0..2 {
        let weighed = find(nodes, "ffn_moe_weighted", Some(layer));
        let choice = nodes[weighed].inputs[1];
        (nodes[weighed].kind, nodes[weighed].inputs) = (Kind::Unary(Unary::scale(1.0)), vec![nodes[weighed].inputs[0]]);
        for name in ["ffn_moe_gate", "ffn_moe_up"] {
            let product = find(nodes, name, Some(layer));
            let node = nodes[product].clone();
            nodes[product].key = Key::new(format!("{name}.mul_mat_id"), Some(layer));
            let scaled = nodes.len();
            for reader in nodes.iter_mut() {
                reader.inputs.iter_mut().filter(|input| **input == product).for_each(|input| *input = scaled);
            }
            nodes.push(Node { kind: Kind::Weighted(Weighted::Scale), inputs: vec![product, choice], ..node });
        }
    }
}
