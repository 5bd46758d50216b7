//! Faults of whole matrices: transposed, in another layer, in place of each other, one row off.

use crate::doctor::likelihood::{
    change::Change,
    repair::{Attempt, Conversion, Repair, each},
};

const EMBEDDING: &str = "token_embd.weight";
const OUTPUT: &str = "output.weight";

fn heads(file: &Conversion<'_>) -> Vec<Attempt> {
    let there = file.gguf.tensor(OUTPUT).is_some();
    let mut attempts = Vec::new();
    if there {
        attempts.push(Attempt::new(OUTPUT, "tied to the embeddings", vec![Change::Leave(OUTPUT.to_owned())]));
    }
    if file.alike(EMBEDDING, OUTPUT) {
        let swap = Change::Swap(EMBEDDING.to_owned(), OUTPUT.to_owned());
        attempts.push(Attempt::new("token_embd, output", "token_embd and output change their names", vec![swap]));
    }
    attempts
}

fn transposed(file: &Conversion<'_>) -> Vec<Attempt> {
    let square = |name: &String| {
        file.gguf.tensor(name).is_some_and(|info| matches!(info.shape[..], [cols, rows] if cols == rows && cols > 1))
    };
    let of =
        |part: &str| -> Vec<String> { file.of_layers(&format!("{part}.weight")).into_iter().filter(square).collect() };
    let parts = ["attn_q", "attn_k", "attn_v", "attn_output"].map(|part| (part, of(part)));
    let mut attempts = Vec::new();
    let all: Vec<String> = parts.iter().flat_map(|(_, names)| names.clone()).collect();
    let kinds = parts.iter().filter(|(_, names)| !names.is_empty()).count();
    for (part, names) in parts.into_iter().filter(|(_, names)| !names.is_empty()) {
        attempts.push(Attempt::new(
            part,
            format!("{part} transposed"),
            each(&names, |name| Change::Transpose(name.to_owned())),
        ));
    }
    if kinds > 1 {
        let changes = each(&all, |name| Change::Transpose(name.to_owned()));
        attempts.push(Attempt::new("square matrices", "every square matrix transposed", changes));
    }
    attempts
}

fn gates(file: &Conversion<'_>) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    for part in ["ffn_up", "ffn_gate_up_exps"] {
        let gated = file.gguf.tensor(&format!("blk.0.{part}.weight")).is_some()
            && file.gguf.tensor("blk.0.ffn_gate.weight").is_none();
        let halves = |name: &str| {
            let info = file.gguf.tensor(name)?;
            let rows = file.rows(name)?;
            let matrices = info.shape.get(2).map_or(1, |&count| count as usize);
            let each = rows / matrices.max(1);
            let order = (0..rows).map(|row| row / each * each + (row % each + each / 2) % each).collect();
            (each > 1 && each.is_multiple_of(2)).then(|| Change::Rows {
                tensor: name.to_owned(),
                of: vec![name.to_owned()],
                order,
            })
        };
        let changes: Option<Vec<Change>> =
            file.of_layers(&format!("{part}.weight")).iter().map(|name| halves(name)).collect();
        if let Some(changes) = changes.filter(|changes| gated && !changes.is_empty()) {
            attempts.push(Attempt::new(part, format!("the halves of {part} change places"), changes));
        }
    }
    attempts
}

/// Gives each layer the tensors of another: `from(layer)`.
fn layers_from(file: &Conversion<'_>, detail: &str, from: &dyn Fn(usize) -> usize) -> Option<Attempt> {
    let mut changes = Vec::new();
    for to in 0..file.layers {
        let (source, target) = (format!("blk.{}.", from(to)), format!("blk.{to}."));
        if source == target {
            continue;
        }
        for info in file.gguf.tensors() {
            if let Some(rest) = info.name.strip_prefix(&source) {
                changes.push(Change::Rename(info.name.clone(), format!("{target}{rest}")));
            }
        }
    }
    (!changes.is_empty()).then(|| Attempt::new("layers", detail, changes))
}

fn orders(file: &Conversion<'_>) -> Vec<Attempt> {
    let count = file.layers;
    // Numbers as words are sorted 0, 1, 10, 11, 2: layer `n` of the file is the n-th word.
    let mut words: Vec<usize> = (0..count).collect();
    words.sort_by_key(ToString::to_string);
    let place = |layer: usize| words.iter().position(|&word| word == layer).unwrap_or(layer);
    let found = [
        layers_from(file, "layers sorted as numbers, not as words", &place),
        layers_from(file, "layers in reverse", &|layer| count - 1 - layer),
        layers_from(file, "the last layer first", &|layer| (layer + count - 1) % count),
        layers_from(file, "the first layer last", &|layer| (layer + 1) % count),
    ];
    found.into_iter().flatten().collect()
}

fn vocabulary(file: &Conversion<'_>) -> Vec<Attempt> {
    let names: Vec<String> =
        [EMBEDDING, OUTPUT].into_iter().filter(|name| file.gguf.tensor(name).is_some()).map(str::to_owned).collect();
    let attempt = |(by, names): (isize, &[String])| {
        let change = |name: &str| {
            let rows = file.rows(name).unwrap_or(0);
            let from = |row: usize| row.checked_add_signed(by).filter(|&row| row < rows).unwrap_or(row);
            Change::Rows { tensor: name.to_owned(), of: vec![name.to_owned()], order: (0..rows).map(from).collect() }
        };
        let what = names.join(" and ").replace(".weight", "");
        Attempt::new(
            what.clone(),
            format!("rows of {what} {} by {}", if by > 0 { "earlier" } else { "later" }, by.abs()),
            each(names, change),
        )
    };
    let mut sets: Vec<&[String]> = vec![&names];
    if names.len() > 1 {
        sets.extend([&names[..1], &names[1..]]);
    }
    sets.into_iter().flat_map(|names| [1, -1].map(|by| attempt((by, names)))).collect()
}

/// The rows.
pub(super) const REPAIRS: &[Repair] = &[
    Repair {
        name: "tied-output",
        cause: "the output's matrix is not the one of training",
        remedy: "leave output.weight out where tie_word_embeddings says so, and write lm_head as output.weight where not",
        attempts: heads,
    },
    Repair {
        name: "transposed",
        cause: "square matrices are transposed",
        remedy: "transpose matrices of Conv1D modules (GPT-2), and no others",
        attempts: transposed,
    },
    Repair {
        name: "fused-gate",
        cause: "the gate and the other half of a fused feed-forward matrix are in each other's place",
        remedy: "write gate_up_proj with the gate first",
        attempts: gates,
    },
    Repair {
        name: "layer-order",
        cause: "layers are in another order than in training",
        remedy: "number the layers by number, from 0, in the checkpoint's order",
        attempts: orders,
    },
    Repair {
        name: "vocabulary-shift",
        cause: "rows of the vocabulary belong to the tokens beside them",
        remedy: "give each token the row of its id: count added tokens and padding as the checkpoint does",
        attempts: vocabulary,
    },
];
