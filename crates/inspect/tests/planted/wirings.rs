//! Models with operations that tiny llamas lack, made from those of a llama: masks and biases of other attention layers,
//! routers, shared experts, scales.

use candor::ops::{Gate, Mask, Router, Tensor, Unary};
use candor_inspect::{Attending, Chosen, Key, Kind, Node, NodeId, replay::Side};
use candor_testing::{Random, backend::floats};

use crate::bed::Bed;
use crate::model;

pub fn beds() -> Vec<Bed> {
    let llama = || Bed::new(&model::llama());
    vec![
        llama().with("llama with windows, caps and sinks", |nodes| attend(nodes, masked)),
        llama().with("llama with biases of scores", |nodes| attend(nodes, biased)),
        llama().with("llama with routers", routed),
        llama().with("llama with scales and a shared expert", scaled),
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
    let shared = add(nodes, ("ffn_shexp", Some(0)), shared, hidden, width);
    add(nodes, ("ffn_moe_sum", Some(0)), Kind::Add, vec![product, shared], width);
}
