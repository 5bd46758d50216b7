//! Faults of norms: what is added to their weights, their epsilon, their rows.

use crate::doctor::likelihood::{
    change::Change,
    repair::{Attempt, Conversion, Repair, each},
};

/// Epsilons of released models.
const EPSILONS: [f32; 4] = [1e-5, 1e-6, 1e-8, 1e-12];

/// Names of the weights of all norms, and of those of queries and keys among them.
fn weights(file: &Conversion<'_>) -> (Vec<String>, Vec<String>) {
    let norms = file.gguf.tensors().iter().filter(|info| info.name.ends_with("norm.weight") && info.shape.len() == 1);
    let (heads, others) = norms.map(|info| info.name.clone()).partition(|name| is_of_heads(name));
    (others, heads)
}

fn is_of_heads(name: &str) -> bool {
    name.ends_with("attn_q_norm.weight") || name.ends_with("attn_k_norm.weight")
}

fn shifted(file: &Conversion<'_>) -> Vec<Attempt> {
    let (others, heads) = weights(file);
    let all: Vec<String> = others.iter().chain(&heads).cloned().collect();
    let is_output = |name: &&String| name.as_str() == "output_norm.weight";
    let output: Vec<String> = others.iter().filter(is_output).cloned().collect();
    let layers: Vec<String> = others.iter().filter(|name| !is_output(name)).cloned().collect();
    let mut sets = vec![("all norms", all)];
    if !heads.is_empty() {
        sets.push(("norms but those of queries and keys", others));
        sets.push(("norms of queries and keys", heads));
    }
    sets.push(("norms of layers", layers));
    sets.push(("the last norm", output));
    sets.retain(|(_, names)| !names.is_empty());
    let mut attempts = Vec::new();
    for (what, names) in &sets {
        for (number, way) in [(1.0, "1 added"), (-1.0, "1 taken away")] {
            let changes = each(names, |name| Change::Add(name.to_owned(), number));
            attempts.push(Attempt::new("norms", format!("{what} with {way}"), changes));
        }
    }
    attempts
}

fn epsilons(file: &Conversion<'_>) -> Vec<Attempt> {
    let ends = ["attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"];
    ends.into_iter().filter(|end| file.says(end)).flat_map(|end| file.set_each(end, &EPSILONS)).collect()
}

/// Norms of queries and keys by heads whose elements are in the order of the other pairing.
fn paired(file: &Conversion<'_>) -> Vec<Attempt> {
    let (_, heads) = weights(file);
    let width = file.heads.key_dim;
    let fits = |name: &String| file.rows(name).is_some_and(|rows| width > 0 && rows.is_multiple_of(width));
    if heads.is_empty() || width < 4 || !heads.iter().all(fits) {
        return Vec::new();
    }
    let half = width / 2;
    let attempt = |(to_neighbours, way): (bool, &str)| {
        let change = |name: &str| {
            let rows = file.rows(name).unwrap_or(0);
            let from = |i: usize| if to_neighbours { i % 2 * half + i / 2 } else { i % half * 2 + i / half };
            let order = (0..rows).map(|row| row / width * width + from(row % width)).collect();
            Change::Rows { tensor: name.to_owned(), of: vec![name.to_owned()], order }
        };
        Attempt::new(
            "attn_q_norm, attn_k_norm",
            format!("norms of queries and keys reordered from {way}"),
            each(&heads, change),
        )
    };
    [(true, "halves to neighbours"), (false, "neighbours to halves")].map(attempt).into()
}

/// The rows.
pub(super) const REPAIRS: &[Repair] = &[
    Repair {
        name: "norm-shift",
        cause: "1 was added to norm weights once too often or not at all",
        remedy: "add 1 once to each norm whose checkpoint keeps the difference from 1 (Gemma, Nemotron), and to no other",
        attempts: shifted,
    },
    Repair {
        name: "norm-epsilon",
        cause: "the epsilon of norms is another one than in training",
        remedy: "write rms_norm_eps or layer_norm_eps of the checkpoint's config.json",
        attempts: epsilons,
    },
    Repair {
        name: "qk-norm-pairing",
        cause: "norms of queries and keys are in another order than the rows that they weigh",
        remedy: "reorder them together with the rows of q and k, or neither",
        attempts: paired,
    },
];
