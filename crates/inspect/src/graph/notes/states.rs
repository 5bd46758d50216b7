//! Names of values inside of layers with a state: those of llama.cpp where it has one, those of their weights else.

use candor_ops::{NormKind, Unary};

use super::super::node::{Kind, Node, NodeId};
use crate::replay::Fading;

/// What the weights of such layers begin with.
const WEIGHTS: [&str; 6] = ["ssm_", "time_mix_", "channel_mix_", "shortconv.", "altup_", "laurel_"];

/// Weights whose products are several values, with the names of these in the order of their rows.
const PARTS: [(&str, &[&str]); 3] =
    [("ssm_in", &["z", "xBC", "dt"]), ("ssm_x", &["dt", "B", "C"]), ("shortconv.in_proj", &["b", "c", "x"])];

/// The layer's part of a weight's name, and the rest without suffix and rows.
fn weight(node: &Node) -> Option<(&str, &str)> {
    let name = node.kind.weight()?.name.strip_prefix("blk.")?;
    let (layer, name) = name.split_once('.')?;
    let name = name.split('[').next().unwrap_or_default();
    Some((layer, name.strip_suffix(".weight").unwrap_or(name)))
}

/// The name of a node; nodes before it have theirs. `consumer` reads it first.
pub(super) fn name(nodes: &[Node], id: NodeId, consumer: Option<&Node>) -> Option<String> {
    let node = &nodes[id];
    let input = |node: &Node, n: usize| Some(&nodes[*node.inputs.get(n)?]);
    let first = input(node, 0);
    let first_name = first.map_or("", |first| first.key.name.as_str());
    let read_by = |kind: fn(&Kind) -> bool| consumer.is_some_and(|next| kind(&next.kind));
    let is_conv = |node: Option<&Node>| node.is_some_and(|node| matches!(node.kind, Kind::Conv(_)));
    let known = match &node.kind {
        Kind::Conv(weight) if weight.name.contains("ssm_conv1d") => "conv_output_raw",
        Kind::Conv(weight) if weight.name.contains("shortconv.") => "shortconv_conv",
        Kind::Conv(_) => "token_shift",
        Kind::Bias(_) if is_conv(first) => return Some(format!("{first_name}.add")),
        Kind::Unary(Unary::Silu) => {
            if matches!(first_name, "ssm_in.z" | "z" | "time_mix_gate") {
                return Some(format!("{first_name}.silu"));
            }
            let before = first?;
            let conv = if let Kind::Bias(_) = before.kind { input(before, 0)? } else { before };
            if !is_conv(Some(conv)) {
                return None;
            }
            match input(conv, 0)?.key.name.starts_with("linear_attn") {
                true => "conv_output_silu",
                false => "ssm_conv",
            }
        }
        Kind::Unary(Unary::Softplus) => match first_name {
            "ssm_dt" if input(first?, 0).is_some_and(|node| node.key.name == "alpha") => "a_softplus",
            _ => "ssm_dt_softplus",
        },
        Kind::Unary(Unary::Sigmoid) if first_name == "beta" => "beta_sigmoid",
        Kind::Copy { columns } => match first_name {
            "linear_attn_mixed_ba" if read_by(|kind| matches!(kind, Kind::Bias(_))) => "alpha",
            "linear_attn_mixed_ba" => "beta",
            "conv_output_silu" if !read_by(|kind| matches!(kind, Kind::Norm { .. })) => "v_conv",
            "conv_output_silu" if columns.from.0 == 0 => "q_conv",
            "conv_output_silu" => "k_conv",
            "ssm_conv" => {
                let before = nodes[..id].iter().filter(|other| other.inputs == node.inputs);
                ["ssm_conv.x", "ssm_conv.B", "ssm_conv.C"][before.count().min(2)]
            }
            _ => return None,
        },
        Kind::Norm { norm, .. } if norm.kind == NormKind::L2 && matches!(first_name, "q_conv" | "k_conv") => {
            return Some(format!("{first_name}_predelta"));
        }
        Kind::Recur(shape) => match (&shape.fading, shape.erases) {
            (Fading::Keys, _) => "wkv",
            (_, true) => "attn_output",
            (_, false) => "ssm_scan",
        },
        Kind::Add => {
            let skips = |node: &Node| matches!(node.kind, Kind::Scale(_)) && node.key.name == "ssm_d";
            input(node, 1).filter(|node| skips(node))?;
            match &first?.kind {
                Kind::Recur(shape) if matches!(shape.fading, Fading::Heads) => "mamba2_y_add_d",
                _ => "ssm_y_add_d",
            }
        }
        Kind::Mul if first_name == "channel_mix_value" => "ffn_out",
        Kind::MatMul(_) | Kind::Stacked { routed: false, .. } | Kind::Scale(_) | Kind::Bias(_) => {
            return of_weight(nodes, id, consumer);
        }
        _ => return None,
    };
    Some(known.to_owned())
}

/// The name of a product, or of what a vector is added to.
fn of_weight(nodes: &[Node], id: NodeId, consumer: Option<&Node>) -> Option<String> {
    let node = &nodes[id];
    let (layer, base) = weight(node)?;
    let base = base.strip_suffix(".bias").unwrap_or(base);
    let delta = || {
        nodes.iter().any(|other| weight(other).is_some_and(|(of, name)| of == layer && name == "ssm_alpha"))
            || nodes.iter().any(|other| weight(other).is_some_and(|(of, name)| of == layer && name == "ssm_ba"))
    };
    let read_by = |kind: fn(&Kind) -> bool| consumer.is_some_and(|next| kind(&next.kind));
    let name = match base {
        "attn_qkv" if read_by(|kind| matches!(kind, Kind::Conv(_))) => "linear_attn_qkv_mixed",
        "attn_gate" if delta() => "z",
        "ssm_ba" => "linear_attn_mixed_ba",
        "ssm_beta" => "beta",
        "ssm_alpha" => "alpha",
        "ssm_a" if delta() => "gate",
        "ssm_out" if delta() => "linear_attn_out",
        "ssm_out" => "mamba_out",
        "channel_mix_value" if !read_by(|kind| matches!(kind, Kind::Mul)) => "ffn_out",
        _ if WEIGHTS.iter().any(|start| base.starts_with(start)) => base,
        _ => return None,
    };
    let mut name = name.replace('.', "_");
    if let Some((_, parts)) = PARTS.iter().find(|(weight, _)| *weight == base) {
        let same = |other: &&Node| matches!(other.kind, Kind::MatMul(_)) && weight(other) == Some((layer, base));
        let all = nodes.iter().filter(same).count();
        let before = nodes[..id].iter().filter(same).count();
        let part = match (base, all) {
            ("ssm_in", 2) => ["x", "z"].get(before),
            _ => parts.get(before),
        };
        if let Some(part) = part.filter(|_| matches!(node.kind, Kind::MatMul(_))) {
            name = format!("{name}.{part}");
        }
    }
    let biased = matches!(node.kind, Kind::MatMul(_)) && read_by(|kind| matches!(kind, Kind::Bias(_)));
    Some(if biased && name != "alpha" { format!("{name}.mul_mat") } else { name })
}
