//! Faults of queries, keys and values: the order of their rows, their names, how a fused matrix is taken apart.

use crate::doctor::likelihood::{
    change::Change,
    repair::{Attempt, Conversion, Repair},
};

/// The order of rows that pairs halves' elements as neighbours, or neighbours' as halves, of each head; what lies behind `dims` of a head
/// stays.
fn paired(heads: usize, width: usize, dims: usize, to_neighbours: bool) -> Vec<usize> {
    let half = dims / 2;
    let from = |i: usize| match () {
        () if i >= dims => i,
        () if to_neighbours => i % 2 * half + i / 2,
        () => i % half * 2 + i / half,
    };
    (0..heads * width).map(|row| row / width * width + from(row % width)).collect()
}

/// Where rows of queries and keys lie: the tensor, its first row among its others, and how many heads it has.
struct Part {
    tensor: String,
    first: usize,
    heads: usize,
}

/// Those of queries (0), keys (1) or values (2), of weights and biases alike, whose names end with `kind`.
fn parts(file: &Conversion<'_>, part: usize, kind: &str) -> Vec<Part> {
    let heads = file.heads;
    let counts = [heads.heads, heads.kv_heads, heads.kv_heads];
    let own = ["attn_q", "attn_k", "attn_v"][part];
    let mut found: Vec<Part> = file
        .of_layers(&format!("{own}.{kind}"))
        .into_iter()
        .map(|tensor| Part { tensor, first: 0, heads: counts[part] })
        .collect();
    let first = counts[..part].iter().sum::<usize>() * heads.key_dim;
    let fused = file.of_layers(&format!("attn_qkv.{kind}"));
    found.extend(fused.into_iter().map(|tensor| Part { tensor, first, heads: counts[part] }));
    found
}

/// Reorders rows of heads in each part, `dims` of each head. `None` where one has other rows, or none is there.
fn reordered(file: &Conversion<'_>, parts: &[Part], (dims, to_neighbours): (usize, bool)) -> Option<Vec<Change>> {
    let width = file.heads.key_dim;
    let mut orders: Vec<(String, Vec<usize>)> = Vec::new();
    for part in parts {
        let all = file.rows(&part.tensor)?;
        if all < part.first + part.heads * width {
            return None;
        }
        let order = paired(part.heads, width, dims, to_neighbours);
        let at = orders.iter().position(|(name, _)| *name == part.tensor).unwrap_or_else(|| {
            orders.push((part.tensor.clone(), (0..all).collect()));
            orders.len() - 1
        });
        for (row, from) in order.into_iter().enumerate() {
            orders[at].1[part.first + row] = part.first + from;
        }
    }
    let change = |(tensor, order): (String, Vec<usize>)| Change::Rows { of: vec![tensor.clone()], tensor, order };
    (!orders.is_empty()).then(|| orders.into_iter().map(change).collect())
}

fn pairing(file: &Conversion<'_>) -> Vec<Attempt> {
    let width = file.heads.key_dim;
    let dims = file.float("rope.dimension_count").map_or(width, |dims| dims as usize);
    if width < 4 || dims < 4 || dims > width {
        return Vec::new();
    }
    let all = |kinds: &[&str], which: &[usize]| -> Vec<Part> {
        which.iter().flat_map(|&part| kinds.iter().flat_map(move |kind| parts(file, part, kind))).collect()
    };
    let both = ["weight", "bias"];
    let mut sets = vec![
        ("attn_q, attn_k", "rows of queries and keys", all(&both, &[0, 1]), dims),
        ("attn_q", "rows of queries", all(&both, &[0]), dims),
        ("attn_k", "rows of keys", all(&both, &[1]), dims),
        ("attn_v", "rows of values", all(&both, &[2]), width),
        ("attn_q.bias, attn_k.bias", "biases of queries and keys", all(&["bias"], &[0, 1]), dims),
    ];
    if dims < width {
        sets.push(("attn_q, attn_k", "rows of queries and keys, whole heads,", all(&both, &[0, 1]), width));
    }
    let mut attempts = Vec::new();
    for (subject, what, parts, dims) in sets {
        for (to_neighbours, way) in [(true, "halves to neighbours"), (false, "neighbours to halves")] {
            if let Some(changes) = reordered(file, &parts, (dims, to_neighbours)) {
                attempts.push(Attempt::new(subject, format!("{what} reordered from {way}"), changes));
            }
        }
    }
    attempts
}

fn grouped(file: &Conversion<'_>) -> Vec<Attempt> {
    let heads = file.heads;
    if heads.kv_heads == heads.heads || heads.kv_heads == 0 {
        return Vec::new();
    }
    // As keys are reordered with the queries' number of heads, and right after that is undone.
    let keys: Vec<Part> = ["weight", "bias"].iter().flat_map(|kind| parts(file, 1, kind)).collect();
    let own = heads.kv_heads * heads.key_dim;
    let narrow = own / heads.heads;
    if narrow < 4 || !own.is_multiple_of(heads.heads) {
        return Vec::new();
    }
    let (undo, redo) =
        (paired(heads.heads, narrow, narrow, false), paired(heads.kv_heads, heads.key_dim, heads.key_dim, true));
    let order: Vec<usize> = redo.iter().map(|&row| undo[row]).collect();
    let change = |part: Part| {
        (file.rows(&part.tensor) == Some(own)).then(|| Change::Rows {
            of: vec![part.tensor.clone()],
            tensor: part.tensor,
            order: order.clone(),
        })
    };
    let changes: Option<Vec<Change>> = keys.into_iter().map(change).collect();
    let attempt =
        |changes| Attempt::new("attn_k", format!("rows of keys in the order of {} heads", heads.kv_heads), changes);
    changes.filter(|changes| !changes.is_empty()).map(attempt).into_iter().collect()
}

/// Has two tensors of each layer change their names.
fn swapped(file: &Conversion<'_>, a: &str, b: &str) -> Option<Attempt> {
    let mut changes = Vec::new();
    for kind in ["weight", "bias"] {
        for layer in 0..file.layers {
            let [a, b] = [a, b].map(|name| format!("blk.{layer}.{name}.{kind}"));
            if file.alike(&a, &b) {
                changes.push(Change::Swap(a, b));
            }
        }
    }
    (!changes.is_empty()).then(|| Attempt::new(format!("{a}, {b}"), format!("{a} and {b} change their names"), changes))
}

fn names(file: &Conversion<'_>) -> Vec<Attempt> {
    const PAIRS: [(&str, &str); 10] = [
        ("attn_q", "attn_k"),
        ("attn_k", "attn_v"),
        ("attn_q", "attn_v"),
        ("attn_q", "attn_output"),
        ("attn_q_norm", "attn_k_norm"),
        ("ffn_gate", "ffn_up"),
        ("ffn_gate_exps", "ffn_up_exps"),
        ("attn_norm", "ffn_norm"),
        ("post_attention_norm", "ffn_norm"),
        ("post_attention_norm", "post_ffw_norm"),
    ];
    PAIRS.into_iter().filter_map(|(a, b)| swapped(file, a, b)).collect()
}

/// Which head of a whole matrix is head `head` of part `part`, by how many heads the parts have.
type At = fn([usize; 3], usize, usize) -> usize;

/// A group's queries, its keys and its values, one group after the other.
fn by_group(counts: [usize; 3], part: usize, head: usize) -> usize {
    let group = counts[0] / counts[1];
    match part {
        0 => head / group * (group + 2) + head % group,
        part => head * (group + 2) + group + part - 1,
    }
}

/// What is found where parts are taken one after the other from a matrix that has them by group.
fn from_groups(counts: [usize; 3], part: usize, head: usize) -> usize {
    let group = counts[0] / counts[1];
    let block = counts[..part].iter().sum::<usize>() + head;
    match (block / (group + 2), block % (group + 2)) {
        (at, query) if query < group => at * group + query,
        (at, other) => counts[0] + (other - group) * counts[1] + at,
    }
}

/// Parts one after the other in another order.
fn in_order(order: [usize; 3], counts: [usize; 3], part: usize, head: usize) -> usize {
    order.iter().take_while(|&&before| before != part).map(|&before| counts[before]).sum::<usize>() + head
}

const SPLITS: [(&str, At); 7] = [
    ("by group", by_group),
    ("one part after the other", from_groups),
    ("queries, values, keys", |counts, part, head| in_order([0, 2, 1], counts, part, head)),
    ("keys, queries, values", |counts, part, head| in_order([1, 0, 2], counts, part, head)),
    ("keys, values, queries", |counts, part, head| in_order([1, 2, 0], counts, part, head)),
    ("values, queries, keys", |counts, part, head| in_order([2, 0, 1], counts, part, head)),
    ("values, keys, queries", |counts, part, head| in_order([2, 1, 0], counts, part, head)),
];

fn splits(file: &Conversion<'_>) -> Vec<Attempt> {
    let heads = file.heads;
    if heads.key_dim != heads.value_dim || heads.kv_heads == 0 {
        return Vec::new();
    }
    let (counts, width) = ([heads.heads, heads.kv_heads, heads.kv_heads], heads.key_dim);
    let mut attempts = Vec::new();
    for (order, at) in SPLITS {
        let rows = |part: usize| -> Vec<usize> {
            let rows = |head: usize| (0..width).map(move |row| at(counts, part, head) * width + row);
            (0..counts[part]).flat_map(rows).collect()
        };
        let rows = [rows(0), rows(1), rows(2)];
        let all: usize = counts.iter().sum::<usize>() * width;
        let mut changes = Vec::new();
        for kind in ["weight", "bias"] {
            for layer in 0..file.layers {
                let name = |part: &str| format!("blk.{layer}.{part}.{kind}");
                let (fused, own) = (name("attn_qkv"), ["attn_q", "attn_k", "attn_v"].map(name));
                if file.rows(&fused) == Some(all) {
                    changes.push(Change::Rows { of: vec![fused.clone()], tensor: fused, order: rows.concat() });
                } else if (0..3).all(|part| file.rows(&own[part]) == Some(counts[part] * width)) {
                    for (tensor, order) in own.iter().zip(&rows) {
                        changes.push(Change::Rows { tensor: tensor.clone(), of: own.to_vec(), order: order.clone() });
                    }
                }
            }
        }
        if !changes.is_empty() {
            attempts.push(Attempt::new("attn_q, attn_k, attn_v", format!("rows taken {order}"), changes));
        }
    }
    attempts
}

fn head_counts(file: &Conversion<'_>) -> Vec<Attempt> {
    let heads = file.heads;
    let whole = |end: &str| file.gguf.metadata().u32(&file.key(end)).ok().flatten();
    let (Some(count), Some(kv)) =
        (whole("attention.head_count"), whole("attention.head_count_kv").or(whole("attention.head_count")))
    else {
        return Vec::new();
    };
    let scaled = |times: u32, parts: u32| {
        let of =
            |number: u32| (number * times).is_multiple_of(parts).then(|| number * times / parts).filter(|&n| n > 0);
        let (count, kv) = (of(count)?, of(kv)?);
        let width = |width: usize| {
            (width * parts as usize).is_multiple_of(times as usize).then(|| width as u32 * parts / times)
        };
        let (key, value) = (width(heads.key_dim)?, width(heads.value_dim)?);
        let numbers = [
            ("attention.head_count", count),
            ("attention.head_count_kv", kv),
            ("attention.key_length", key),
            ("attention.value_length", value),
        ];
        let mut changes: Vec<Change> = numbers.map(|(end, number)| Change::Set(file.key(end), number.into())).into();
        if file.says("rope.dimension_count") {
            changes.push(Change::Set(file.key("rope.dimension_count"), key.into()));
        }
        Some(Attempt::new(file.key("attention.head_count"), format!("{count} heads of {key}"), changes))
    };
    [scaled(2, 1), scaled(1, 2), scaled(4, 1), scaled(1, 4)].into_iter().flatten().collect()
}

/// The rows.
pub(super) const REPAIRS: &[Repair] = &[
    Repair {
        name: "qk-pairing",
        cause: "rows of queries or keys lie in the order of the other pairing of rotary positions",
        remedy: "reorder the rows of q and k (and their biases) once for llama's kind of files, and not at all for others",
        attempts: pairing,
    },
    Repair {
        name: "key-heads",
        cause: "rows of keys were reordered with the queries' number of heads",
        remedy: "reorder k with num_key_value_heads",
        attempts: grouped,
    },
    Repair {
        name: "swapped-names",
        cause: "two tensors of each layer have each other's names",
        remedy: "correct the converter's table of names, or mend the file with candor gguf rename",
        attempts: names,
    },
    Repair {
        name: "qkv-split",
        cause: "the fused matrix of queries, keys and values was taken apart in another order than it was made",
        remedy: "take query_key_value apart as the checkpoint's model does: by head, by group or by thirds",
        attempts: splits,
    },
    Repair {
        name: "head-count",
        cause: "the number of heads is not that of training, though their widths together are",
        remedy: "write num_attention_heads, num_key_value_heads and head_dim of the checkpoint's config.json",
        attempts: head_counts,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_undo_each_other() {
        let (there, back) = (paired(2, 8, 6, true), paired(2, 8, 6, false));
        assert_eq!(&there[..8], [0, 3, 1, 4, 2, 5, 6, 7]);
        assert_eq!(there.iter().map(|&row| back[row]).collect::<Vec<_>>(), (0..16).collect::<Vec<_>>());
        let counts = [4, 2, 2];
        for part in 0..3 {
            for head in 0..counts[part] {
                let whole = by_group(counts, part, head);
                let (other, at) = match whole {
                    0..4 => (0, whole),
                    4..6 => (1, whole - 4),
                    _ => (2, whole - 6),
                };
                let before = counts[..part].iter().sum::<usize>() + head;
                assert_eq!(from_groups(counts, other, at), before);
            }
        }
    }
}
