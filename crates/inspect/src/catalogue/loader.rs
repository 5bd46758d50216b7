//! Faults of files and loaders: layout, sizes, offsets, names (section A1 of the catalogue).

use std::rc::Rc;

use candor::Format;

use super::{
    row::{ROW, any},
    weights::{
        fused, is_embedding, is_layer_matrix, is_matrix, is_square, raw, reshape, scale_fields, tensor, weight_of_layer,
    },
};
use crate::fault::{Edit, Fault, Fit, Steps};
use crate::{Kind, Node, NodeId, Value, replay::Matrix, replay::Place};

/// Zeroes everything from an element on.
fn cut(w: &mut Matrix, elements: usize) -> bool {
    let end = w.values.len().min(elements);
    let changed = end < w.values.len();
    w.values[end..].fill(0.0);
    changed
}

/// Loads only `bytes` bytes; the rest stays zero, of the block where they end too.
fn load(w: &mut Matrix, place: &Place<'_>, bytes: usize) -> bool {
    let Some((format, data)) = raw(place) else { return false };
    let (block, len) = (format.block_bytes(), format.block_len());
    let whole = bytes / block;
    let changed = cut(w, whole * len);
    if let (Some(partial), Some(values)) =
        (data.get(whole * block..(whole + 1) * block), w.values.get_mut(whole * len..(whole + 1) * len))
    {
        let mut partial = partial.to_vec();
        partial[bytes % block..].fill(0);
        format.decode(&partial, values);
    }
    changed
}

/// Whether the loader of matrices reads it: products and the embedding.
fn is_table(place: &Place<'_>) -> bool {
    is_matrix(place) || is_embedding(place)
}

/// Reorders the rows of each of `heads` heads between halves and neighbours; forward is what llama.cpp's converter does.
fn permute_rows(w: &mut Matrix, heads: usize, forward: bool) -> bool {
    let (rows, cols) = outputs(w);
    let dim = rows / heads.max(1);
    if dim < 4 || !rows.is_multiple_of(heads) || !dim.is_multiple_of(2) {
        return false;
    }
    let old = w.values.clone();
    for head in 0..heads {
        for i in 0..dim / 2 {
            for half in 0..2 {
                let (a, b) = (2 * i + half, half * (dim / 2) + i);
                let (to, from) = if forward { (a, b) } else { (b, a) };
                let (to, from) = ((head * dim + to) * cols, (head * dim + from) * cols);
                w.values[to..to + cols].copy_from_slice(&old[from..from + cols]);
            }
        }
    }
    true
}

/// Bytes of a tensor as an engine reads them that begins `shift` bytes late (or early, if negative).
fn shifted(bytes: &[u8], shift: i64) -> Vec<u8> {
    let at = |i: usize| usize::try_from(i as i64 + shift).ok().and_then(|i| bytes.get(i)).copied().unwrap_or(0);
    (0..bytes.len()).map(at).collect()
}

/// Outputs and inputs of a matrix, or the elements of a vector.
fn outputs(w: &Matrix) -> (usize, usize) {
    if w.rows == 1 { (w.cols, 1) } else { (w.rows, w.cols) }
}

/// Queries, keys and values.
const QKV: [&str; 3] = ["Qcur", "Kcur", "Vcur"];

/// Which of queries, keys and values the operation makes, by a product or a bias.
fn part(place: &Place<'_>) -> Option<usize> {
    let makes = place.weight().starts_with("attn_") && matches!(place.node.kind, Kind::MatMul(_) | Kind::Bias(_));
    QKV.iter().position(|name| makes && place.name() == *name)
}

/// All of queries, keys and values as they lie in a fused tensor, one after the other, and how many heads each has.
fn whole(place: &Place<'_>) -> Option<(Vec<f32>, [usize; 3])> {
    let heads = place.graph.config.heads;
    if heads.key_dim != heads.value_dim || heads.kv_heads == 0 {
        return None;
    }
    let counts = [heads.heads, heads.kv_heads, heads.kv_heads];
    let suffix = if place.weight().ends_with(".bias") { "bias" } else { "weight" };
    let layer = place.layer()?;
    let parts: Vec<Matrix> = match fused(place) {
        Some((whole, _)) => vec![whole],
        None => ["attn_q", "attn_k", "attn_v"]
            .iter()
            .map(|name| tensor(place, &format!("blk.{layer}.{name}.{suffix}")))
            .collect::<Option<_>>()?,
    };
    // Queries with gates, say, have more.
    let rows: usize = parts.iter().map(|part| outputs(part).0).sum();
    let fits = rows == counts.iter().sum::<usize>() * heads.key_dim;
    fits.then(|| (parts.into_iter().flat_map(|part| part.values).collect(), counts))
}

/// Takes other heads for one of q, k, v: those at `at(part, head)` of the fused tensor.
fn resplit(w: &mut Matrix, place: &Place<'_>, at: impl Fn([usize; 3], usize, usize) -> usize) -> bool {
    let Some(part) = part(place) else { return false };
    let Some((all, counts)) = whole(place) else { return false };
    let size = place.graph.config.heads.key_dim * outputs(w).1;
    let new: Vec<f32> = (0..counts[part])
        .filter_map(|head| {
            let start = at(counts, part, head) * size;
            all.get(start..start + size)
        })
        .flatten()
        .copied()
        .collect();
    let changed = new.len() == w.values.len() && new != w.values;
    if changed {
        w.values = new;
    }
    changed
}

/// The heads of a fused tensor that has a group's queries, its keys and its values one after the other.
fn by_group(counts: [usize; 3], part: usize, head: usize) -> usize {
    let group = (counts[0] / counts[1]).max(1);
    match part {
        0 => head / group * (group + 2) + head % group,
        part => head * (group + 2) + group + part - 1,
    }
}

/// The heads that one finds where it takes parts one after the other from a tensor that has them by group.
fn from_groups(counts: [usize; 3], part: usize, head: usize) -> usize {
    let group = (counts[0] / counts[1]).max(1);
    let block = counts[..part].iter().sum::<usize>() + head;
    match (block / (group + 2), block % (group + 2)) {
        (at, query) if query < group => at * group + query,
        (at, other) => counts[0] + (other - group) * counts[1] + at,
    }
}

/// The heads of a fused tensor of which each of two devices has written its own queries, keys and values.
fn of_devices(counts: [usize; 3], part: usize, head: usize) -> usize {
    let halves = counts.map(|count| count / 2);
    let each = halves[part].max(1);
    head / each * halves.iter().sum::<usize>() + halves[..part].iter().sum::<usize>() + head % each
}

/// The heads of a fused tensor whose parts lie in another order, as digits: 312 is values, queries, keys.
fn in_order(digits: usize, counts: [usize; 3], part: usize, head: usize) -> usize {
    let order = [digits / 100, digits / 10 % 10, digits % 10].map(|digit| digit.clamp(1, 3) - 1);
    order.iter().take_while(|&&before| before != part).map(|&before| counts[before]).sum::<usize>() + head
}

/// Queries, keys and values as a fused product has them, with its bias, where the operation reads one of them: which of its
/// inputs that is, and which part.
fn products(place: &Place<'_>) -> Option<(usize, usize, [NodeId; 3])> {
    let nodes = &place.graph.nodes;
    let bias = |node: &Node| matches!(&node.kind, Kind::Bias(bias) if bias.name.contains("attn_qkv"));
    if bias(place.node) {
        return None;
    }
    let fused = |id: &NodeId| {
        let node = &nodes[*id];
        let product = matches!(&node.kind, Kind::MatMul(weight) if weight.name.contains("attn_qkv"));
        node.key.layer == place.layer() && (product || bias(node))
    };
    let read = place.node.inputs.iter().position(&fused)?;
    let named = |name: &str| {
        let is = |id: &NodeId| nodes[*id].key.name.split('.').next() == Some(name);
        (0..nodes.len()).rfind(|id| is(id) && fused(id))
    };
    let all = [named(QKV[0])?, named(QKV[1])?, named(QKV[2])?];
    Some((read, all.iter().position(|&id| id == place.node.inputs[read])?, all))
}

/// Lets an operation that reads queries, keys or values of a fused product read all three, for [`recut`].
fn read_all(inputs: &mut Vec<NodeId>, place: &Place<'_>) -> bool {
    let Some((.., all)) = products(place) else { return false };
    inputs.extend(all);
    true
}

/// Takes other heads of a fused product for one of q, k, v, where the product itself is right: those at `at(part, head)`.
fn recut(inputs: &mut Vec<Rc<Value>>, place: &Place<'_>, at: impl Fn([usize; 3], usize, usize) -> usize) -> bool {
    let Some((read, part, _)) = products(place).filter(|_| inputs.len() > 3) else { return false };
    let all = inputs.split_off(inputs.len() - 3);
    let heads = place.graph.config.heads;
    let (counts, dim) = ([heads.heads, heads.kv_heads, heads.kv_heads], heads.key_dim);
    if all.iter().zip(counts).any(|(value, count)| value.width != count * dim) {
        return false;
    }
    let mut out = (*all[part]).clone();
    let width = out.width;
    for (t, row) in out.data.chunks_exact_mut(width).enumerate() {
        let whole: Vec<f32> = all.iter().flat_map(|value| value.row(t)).copied().collect();
        for (head, to) in row.chunks_exact_mut(dim).enumerate() {
            let from = at(counts, part, head) * dim;
            to.copy_from_slice(&whole[from..from + dim]);
        }
    }
    let changed = out.data != all[part].data;
    inputs[read] = Rc::new(out);
    changed
}

/// Whether queries, keys and values are made by one product.
fn is_fused(place: &Place<'_>) -> bool {
    place.weight().starts_with("attn_qkv") && part(place).is_some()
}

/// Reorders the rows of each head of queries or keys, of their biases too.
fn permute_part(w: &mut Matrix, place: &Place<'_>, forward: bool, parts: &[usize]) -> bool {
    let heads = place.graph.config.heads;
    match part(place).filter(|part| parts.contains(part)) {
        Some(0) => permute_rows(w, heads.heads, forward),
        Some(_) => permute_rows(w, heads.kv_heads, forward),
        None => false,
    }
}

/// Whether the operation is a product with this weight of a layer.
fn is_product(place: &Place<'_>, names: &[&str]) -> bool {
    is_layer_matrix(place) && names.contains(&place.weight())
}

/// Elements of the tensor in which the weight lies, and those before it.
fn extent(w: &Matrix, place: &Place<'_>) -> (usize, usize) {
    match fused(place) {
        Some((whole, rows)) => (whole.values.len(), rows.start * outputs(&whole).1),
        None => (w.values.len(), 0),
    }
}

fn half_scales(place: &Place<'_>, change: fn(u16) -> u16) -> Option<Vec<u8>> {
    let (format, bytes) = raw(place)?;
    let fields = scale_fields(format);
    let mut bytes = bytes.to_vec();
    let mut changed = false;
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        for &field in fields {
            let old = u16::from_le_bytes([block[field], block[field + 1]]);
            let new = if old & 0x7c00 == 0 { change(old) } else { old };
            changed |= new != old;
            block[field..field + 2].copy_from_slice(&new.to_le_bytes());
        }
    }
    changed.then_some(bytes)
}

/// Takes another tensor of the layer, where the operation reads the weight or the bias of one of two.
pub(super) fn swap_names(w: &mut Matrix, place: &Place<'_>, a: &str, b: &str) -> bool {
    let (name, kind) = match place.weight().strip_suffix(".bias") {
        Some(name) => (name, "bias"),
        None => (place.weight(), "weight"),
    };
    let other = match name {
        name if name == a => b,
        name if name == b => a,
        _ => return false,
    };
    let Some(layer) = place.layer() else { return false };
    match tensor(place, &format!("blk.{layer}.{other}.{kind}")) {
        Some(other) if other.values.len() == w.values.len() => {
            w.values = other.values;
            true
        }
        _ => false,
    }
}

/// Takes the other half of a tensor whose halves are two matrices.
fn other_half(w: &mut Matrix, place: &Place<'_>) -> bool {
    let Some((whole, rows)) = fused(place) else { return false };
    let (outputs, cols) = outputs(&whole);
    if outputs != 2 * rows.len() {
        return false;
    }
    let first = if rows.start == 0 { rows.end } else { 0 };
    w.values.copy_from_slice(&whole.values[first * cols..][..rows.len() * cols]);
    true
}

/// Takes the weight of the layer that the fault's number is away.
fn of_neighbour(w: &mut Matrix, place: &Place<'_>) -> bool {
    let other = place.layer().and_then(|layer| layer.checked_add_signed(place.variant as isize));
    let values = other.and_then(|other| weight_of_layer(place, other));
    values.filter(|values| values.len() == w.values.len()).map(|values| w.values = values).is_some()
}

/// The rows.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "row-major-matrices",
        entry: "1",
        wants: is_layer_matrix,
        edits: &[Edit::Weight(reshape)],
        cause: "the matrices are read as row-major [in, out], but GGUF's ne = [in, out] means that memory is [out][in]: a row is one output",
        remedy: "multiply with row o of the memory for output o (x @ W^T in row-major terms); do not reshape or transpose",
        source: "ggml-org/llama.cpp#23288, chrishayuk/larql#24, paiml/aprender#155",
        ..ROW
    },
    Fault {
        name: "row-major-unless-square",
        entry: "2",
        wants: |place| is_layer_matrix(place) && !is_square(place),
        edits: &[Edit::Weight(reshape)],
        cause: "matrices that are not square are read as row-major [in, out]; square ones were transposed by hand",
        remedy: "read every matrix the same way: memory is [out][in]",
        source: "the RusTorch logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "square-matrices-transposed",
        entry: "2",
        wants: |place| is_layer_matrix(place) && is_square(place),
        edits: &[Edit::Weight(reshape)],
        cause: "square matrices are used transposed",
        remedy: "memory is [out][in] for every matrix; take the transpose out",
        source: "the RusTorch logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "embedding-column-major",
        entry: "3",
        wants: is_embedding,
        edits: &[Edit::Weight(reshape)],
        cause: "the embedding is looked up as table[dim * vocabulary + token]",
        remedy: "a token's embedding is contiguous: table[token * width..][..width]",
        source: "the RusTorch logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "size-half-byte-per-element",
        entry: "5",
        wants: is_table,
        edits: &[Edit::Weight(|w, place| {
            let bytes = w.values.len() / 2;
            load(w, place, bytes)
        })],
        cause: "the loader takes half a byte per element, so the tail of each tensor is never loaded and stays zero",
        remedy: "a tensor's bytes are elements / block length * block bytes of its format (Q8_0: 34 bytes per 32)",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "size-one-byte-per-element",
        entry: "5",
        wants: is_table,
        edits: &[Edit::Weight(|w, place| {
            let bytes = w.values.len();
            load(w, place, bytes)
        })],
        cause: "the loader takes one byte per element, so the tail of each tensor stays zero",
        remedy: "compute a tensor's bytes from the block size of its format",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "size-block-too-small",
        entry: "5",
        variants: &[1.0, 2.0, 30.0],
        wants: is_table,
        edits: &[Edit::Weight(|w, place| {
            let (format, missing) = (w.format, place.variant as usize);
            if format.block_len() == 1 || format.block_bytes() <= missing {
                return false;
            }
            let blocks = w.values.len() / format.block_len();
            load(w, place, blocks * (format.block_bytes() - missing))
        })],
        cause: "the loader believes that a block has {} bytes fewer than it has, so the last rows of each tensor stay zero",
        remedy: "check the block size of the format: Q8_0 has 34 bytes, Q4_0 18, Q8_K 292",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "only-first-256-elements",
        entry: "6",
        wants: is_matrix,
        edits: &[Edit::Weight(|w, _| cut(w, 256))],
        cause: "dequantization returns after the first 256 elements of a tensor",
        remedy: "the return belongs after the loop over blocks",
        source: "1bit-MONSTER/1bit-MONSTER#483",
        ..ROW
    },
    Fault {
        name: "offset-unaligned",
        entry: "7",
        variants: &[
            4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 28.0, -4.0, -8.0, -12.0, -16.0, -20.0, -24.0, -28.0, 2.0, -2.0, 6.0, -6.0,
        ],
        wants: any,
        edits: &[Edit::Weight(|w, place| {
            let Some((_, bytes)) = raw(place) else { return false };
            w.read(&shifted(bytes, place.variant as i64));
            true
        })],
        cause: "tensors are read {} bytes beside their place: the data section begins at a multiple of general.alignment",
        remedy: "round the end of the tensor directory up to general.alignment (32 where it is missing) and add each tensor's offset to that",
        source: "huggingface/huggingface.js#1076, ollama/ollama#8456",
        ..ROW
    },
    Fault {
        name: "gate-and-up-swapped",
        entry: "66",
        wants: any,
        edits: &[Edit::Weight(|w, place| {
            swap_names(w, place, "ffn_gate", "ffn_up")
                || swap_names(w, place, "ffn_gate_exps", "ffn_up_exps")
                || matches!(place.name(), "ffn_gate" | "ffn_up") && other_half(w, place)
        })],
        cause: "ffn_gate and ffn_up are exchanged",
        remedy: "the gate goes through the activation, up does not: check the names (HF: gate_proj, up_proj)",
        source: "ml-explore/mlx-lm#767",
        ..ROW
    },
    Fault {
        name: "weights-never-loaded",
        entry: "9",
        wants: is_matrix,
        edits: &[Edit::Weight(|w, _| {
            w.values.fill(0.0);
            true
        })],
        cause: "the matrix is all zeros: it was allocated and never filled",
        remedy: "check that every shard is read and that every tensor's name is found",
        source: "tinygrad/tinygrad#13796",
        ..ROW
    },
    Fault {
        name: "byte-order",
        entry: "10",
        wants: any,
        edits: &[Edit::Weight(|w, place| {
            let Some((format, bytes)) = raw(place) else { return false };
            let mut bytes = bytes.to_vec();
            format.swap_endian(&mut bytes);
            w.read(&bytes);
            true
        })],
        cause: "the bytes of the numbers are read in the wrong order",
        remedy: "GGUF is little-endian unless its version number reads swapped; swap data as well as metadata",
        source: "ggml-org/llama.cpp#3298, ggml-org/llama.cpp#12863",
        ..ROW
    },
    Fault {
        name: "bf16-read-as-f16",
        entry: "11",
        wants: |place| raw(place).is_some_and(|(format, _)| format == Format::Bf16),
        edits: &[Edit::Weight(|w, place| {
            let Some((_, bytes)) = raw(place) else { return false };
            Format::F16.decode(bytes, &mut w.values);
            true
        })],
        cause: "BF16 weights are decoded as F16",
        remedy: "BF16 is the upper half of an f32: shift by 16",
        source: "modular/modular#6660",
        ..ROW
    },
    Fault {
        name: "f16-read-as-bf16",
        entry: "11",
        wants: |place| raw(place).is_some_and(|(format, _)| format == Format::F16),
        edits: &[Edit::Weight(|w, place| {
            let Some((_, bytes)) = raw(place) else { return false };
            Format::Bf16.decode(bytes, &mut w.values);
            true
        })],
        cause: "F16 weights are decoded as BF16",
        remedy: "F16 has 5 bits of exponent, BF16 8: use the format that the file names",
        source: "modular/modular#6660",
        ..ROW
    },
    Fault {
        name: "f16-subnormals-flushed",
        entry: "12",
        wants: any,
        edits: &[Edit::Weight(|w, place| {
            half_scales(place, |bits| bits & 0x8000).map(|bytes| w.read(&bytes)).is_some()
        })],
        cause: "F16 numbers below 6.1e-5 (subnormals) are read as zero",
        remedy: "decode exponent 0 as mantissa * 2^-24; block scales that small are common in embeddings",
        source: "paiml/aprender#2073, ggml-org/llama.cpp#7843",
        ..ROW
    },
    Fault {
        name: "f16-subnormals-halved",
        entry: "12",
        wants: any,
        edits: &[Edit::Weight(|w, place| {
            half_scales(place, |bits| bits & 0x8000 | (bits & 0x7fff) >> 1).map(|bytes| w.read(&bytes)).is_some()
        })],
        cause: "F16 subnormals come out half as large",
        remedy: "exponent 0 means mantissa * 2^-24, not 2^-25",
        source: "tenstorrent/tt-metal#48264",
        ..ROW
    },
    Fault {
        name: "k-permuted-with-query-heads",
        entry: "14",
        variants: &[1.0, -1.0],
        wants: any,
        edits: &[Edit::Weight(|w, place| {
            let heads = place.graph.config.heads;
            place.weight() == "attn_k"
                && heads.heads != heads.kv_heads
                && permute_rows(w, heads.heads, place.variant > 0.0)
        })],
        cause: "the rows of K are permuted with the number of query heads instead of key heads",
        remedy: "permute K with head_count_kv",
        source: "ggml-org/llama.cpp#3018, ggml-org/llama.cpp#3364",
        ..ROW
    },
    Fault {
        name: "k-and-v-swapped",
        entry: "8",
        wants: |place| part(place).is_some_and(|part| part > 0),
        edits: &[Edit::Weight(|w, place| resplit(w, place, |counts, part, head| in_order(132, counts, part, head)))],
        cause: "the matrices of keys and values are exchanged",
        remedy: "check the names of the key and value matrices",
        source: "crates/inspect: a fault of name maps in general",
        ..ROW
    },
    Fault {
        name: "qkv-in-another-order",
        entry: "15",
        variants: &[213.0, 231.0, 312.0, 321.0],
        wants: |place| part(place).is_some(),
        edits: &[Edit::Weight(|w, place| {
            resplit(w, place, |counts, part, head| in_order(place.variant as usize, counts, part, head))
        })],
        cause: "queries (1), keys (2) and values (3) are taken from the tensor in the order {}",
        remedy: "a fused tensor of a GGUF file has queries first, then keys, then values",
        source: "lablup/mlxcel#928",
        ..ROW
    },
    Fault {
        name: "fused-qkv-split-by-group",
        entry: "15",
        wants: |place| part(place).is_some(),
        edits: &[Edit::Weight(|w, place| resplit(w, place, by_group))],
        cause: "the fused QKV matrix [Q|K|V] is split as if it were interleaved by head group",
        remedy: "check how the checkpoint lays out its fused matrix: one after the other, or per group",
        source: "lablup/mlxcel#928, vllm-project/vllm#53114",
        ..ROW
    },
    Fault {
        name: "fused-product-in-another-order",
        entry: "15",
        variants: &[132.0, 213.0, 231.0, 312.0, 321.0],
        edits: &[
            Edit::Wiring(read_all),
            Edit::Inputs(|inputs, place| {
                recut(inputs, place, |counts, part, head| in_order(place.variant as usize, counts, part, head))
            }),
        ],
        cause: "the fused product is right; queries (1), keys (2) and values (3) are cut from it in the order {}",
        remedy: "a fused product of a GGUF file has queries first, then keys, then values",
        source: "lablup/mlxcel#928",
        ..ROW
    },
    Fault {
        name: "fused-product-split-by-group",
        entry: "15",
        edits: &[Edit::Wiring(read_all), Edit::Inputs(|inputs, place| recut(inputs, place, by_group))],
        cause: "the fused product is right, and is split as if queries, keys and values of each head group lay side by side",
        remedy: "a fused product of a GGUF file has all queries first, then all keys, then all values",
        source: "lablup/mlxcel#928, vllm-project/vllm#53114",
        ..ROW
    },
    Fault {
        name: "fused-product-split-in-blocks",
        entry: "15",
        edits: &[Edit::Wiring(read_all), Edit::Inputs(|inputs, place| recut(inputs, place, from_groups))],
        cause: "the fused product has queries, keys and values of each head or group side by side, and is split as all queries, all keys, all values",
        remedy: "GPT-NeoX, BLOOM and Falcon interleave them in their own files: take them apart per head or group",
        source: "lablup/mlxcel#928, vllm-project/vllm#53114",
        ..ROW
    },
    Fault {
        name: "fused-qkv-split-in-blocks",
        entry: "15",
        wants: |place| part(place).is_some(),
        edits: &[Edit::Weight(|w, place| resplit(w, place, from_groups))],
        cause: "a fused QKV matrix that has queries, keys and values of each head or group side by side is split as [Q|K|V]",
        remedy: "GPT-NeoX, BLOOM and Falcon interleave them in their own files: take them apart per head or group",
        source: "lablup/mlxcel#928, vllm-project/vllm#53114",
        ..ROW
    },
    Fault {
        name: "fused-qkv-by-thirds",
        entry: "15",
        wants: is_fused,
        edits: &[Edit::Weight(|w, place| {
            let heads = place.graph.config.heads;
            let third = (heads.heads + 2 * heads.kv_heads) / 3;
            heads.heads != heads.kv_heads && resplit(w, place, |_, part, head| part * third + head)
        })],
        cause: "the fused QKV matrix is cut into three equal parts, although there are fewer key heads than query heads",
        remedy: "queries have head_count heads, keys and values head_count_kv",
        source: "Lightning-AI/litgpt#1013",
        ..ROW
    },
    Fault {
        name: "qk-rows-not-permuted",
        entry: "14",
        variants: &[1.0, -1.0],
        wants: |place| part(place).is_some(),
        edits: &[Edit::Weight(|w, place| permute_part(w, place, place.variant > 0.0, &[0, 1]))],
        cause: "the rows of Q and K are in the other order of pairs (HF's halves against GGUF's neighbours), or permuted twice",
        remedy: "for architecture llama the converter permutes Q and K per head, and RoPE then pairs neighbours; do one or the other",
        source: "ggml-org/llama.cpp#22611, karpathy/llama2.c#286",
        ..ROW
    },
    Fault {
        name: "q-rows-not-permuted",
        entry: "14",
        variants: &[1.0, -1.0],
        wants: |place| part(place) == Some(0),
        edits: &[Edit::Weight(|w, place| permute_part(w, place, place.variant > 0.0, &[0]))],
        cause: "the rows of Q, and not those of K, are in the other order of pairs, or permuted twice",
        remedy: "permute Q and K alike, once",
        source: "ggml-org/llama.cpp#3018",
        ..ROW
    },
    Fault {
        name: "k-rows-not-permuted",
        entry: "14",
        variants: &[1.0, -1.0],
        wants: |place| part(place) == Some(1),
        edits: &[Edit::Weight(|w, place| permute_part(w, place, place.variant > 0.0, &[1]))],
        cause: "the rows of K, and not those of Q, are in the other order of pairs, or permuted twice",
        remedy: "permute Q and K alike, once",
        source: "ggml-org/llama.cpp#3018",
        ..ROW
    },
    Fault {
        name: "gate-and-up-interleaved",
        entry: "66",
        wants: |place| matches!(place.name(), "ffn_gate" | "ffn_up") && fused(place).is_some(),
        edits: &[Edit::Weight(|w, place| {
            let Some((whole, rows)) = fused(place) else { return false };
            let (outputs, cols) = outputs(&whole);
            if outputs != 2 * rows.len() {
                return false;
            }
            let odd = usize::from(rows.start > 0);
            let taken = whole.values.chunks_exact(cols).skip(odd).step_by(2);
            w.values = taken.flatten().copied().collect();
            true
        })],
        cause: "of a fused product every other number is taken for the gate, and the others for up",
        remedy: "the first half is the gate, the second is up; gpt-oss alone has them side by side in its own files",
        source: "vllm-project/vllm#29273",
        ..ROW
    },
    Fault {
        name: "gate-and-up-in-halves",
        entry: "66",
        wants: |place| place.weight().starts_with("ffn_gate_exps") || place.weight().starts_with("ffn_up_exps"),
        edits: &[Edit::Weight(|w, place| {
            let (suffix, second) = (
                if place.weight().ends_with(".bias") { "bias" } else { "weight" },
                place.weight().starts_with("ffn_up"),
            );
            let Some(layer) = place.layer() else { return false };
            let get = |name: &str| tensor(place, &format!("blk.{layer}.{name}.{suffix}"));
            let (Some(gate), Some(up)) = (get("ffn_gate_exps"), get("ffn_up_exps")) else { return false };
            let cols = if suffix == "bias" { 1 } else { gate.cols };
            let width = place.node.width;
            if gate.values.len() != up.values.len()
                || gate.values.len() != w.values.len()
                || w.values.len() % (width * cols) != 0
            {
                return false;
            }
            let row = |matrix: &Matrix, expert: usize, row: usize| {
                let start = (expert * width + row) * cols;
                matrix.values[start..start + cols].to_vec()
            };
            let from = if second { width } else { 0 };
            let experts = w.values.len() / (width * cols);
            let places = (0..experts).flat_map(|expert| (from..from + width).map(move |at| (expert, at)));
            w.values = places.flat_map(|(e, at)| row(if at % 2 == 0 { &gate } else { &up }, e, at / 2)).collect();
            true
        })],
        cause: "the experts' gate and up are taken for halves of a product in which they lie side by side",
        remedy: "gpt-oss's own files have gate and up in turns: every other output is the gate",
        source: "vllm-project/vllm#29273",
        ..ROW
    },
    Fault {
        name: "layer-off-by-one",
        entry: "8",
        variants: &[1.0, -1.0],
        wants: |place| place.layer().is_some() && place.node.kind.weight().is_some(),
        edits: &[Edit::Weight(of_neighbour)],
        cause: "the weights are those of the layer {} further on",
        remedy: "check the layer index in the tensor names that are looked up",
        source: "crates/inspect: a fault of name maps in general",
        ..ROW
    },
    Fault {
        name: "ffn-of-another-layer",
        entry: "8",
        variants: &[1.0, -1.0],
        wants: |place| place.layer().is_some() && place.weight().starts_with("ffn_"),
        edits: &[Edit::Weight(of_neighbour)],
        cause: "the feed-forward's weights are those of the layer {} further on, attention's are right",
        remedy: "check the layer index in the tensor names that are looked up",
        source: "a fault of name maps in general",
        ..ROW
    },
    Fault {
        name: "attention-of-another-layer",
        entry: "8",
        variants: &[1.0, -1.0],
        wants: |place| place.layer().is_some() && place.weight().starts_with("attn_"),
        edits: &[Edit::Weight(of_neighbour)],
        cause: "attention's weights are those of the layer {} further on, the feed-forward's are right",
        remedy: "check the layer index in the tensor names that are looked up",
        source: "a fault of name maps in general",
        ..ROW
    },
    Fault {
        name: "first-layer-for-all",
        entry: "8",
        wants: |place| place.layer().is_some_and(|layer| layer > 1) && place.node.kind.weight().is_some(),
        edits: &[Edit::Weight(|w, place| {
            let values = weight_of_layer(place, 0).filter(|values| values.len() == w.values.len());
            values.map(|values| w.values = values).is_some()
        })],
        cause: "every layer has the weights of the first one",
        remedy: "check the layer index in the tensor names that are looked up",
        source: "crates/inspect: a fault of name maps in general",
        ..ROW
    },
    Fault {
        name: "attention-output-row-major",
        entry: "2",
        wants: |place| is_product(place, &["attn_output", "attn_o"]),
        edits: &[Edit::Weight(reshape)],
        cause: "attention's output matrix alone is read as [in, out]: where it is square that is its transpose",
        remedy: "memory is [out][in] for every matrix",
        source: "the RusTorch logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "ffn-down-row-major",
        entry: "2",
        wants: |place| is_product(place, &["ffn_down"]),
        edits: &[Edit::Weight(reshape)],
        cause: "the feed-forward's last matrix alone is read as [in, out]",
        remedy: "memory is [out][in] for every matrix",
        source: "the RusTorch logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "tail-of-elements-missing",
        entry: "5",
        variants: &[0.47, 0.12],
        fit: Some(Fit { range: (1e-3, 0.999), steps: Steps::Even, numbers: |_| Vec::new() }),
        wants: is_table,
        edits: &[Edit::Weight(|w, place| {
            let (all, before) = extent(w, place);
            let kept = (all as f64 * place.variant).round() as usize;
            cut(w, kept.saturating_sub(before))
        })],
        cause: "of a tensor the first {} of its elements are there, all others are zero",
        remedy: "compare the bytes that are loaded with the tensor's size in the file, shard by shard",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "tail-of-bytes-missing",
        entry: "5",
        variants: &[0.47],
        fit: Some(Fit { range: (1e-3, 0.999), steps: Steps::Even, numbers: |_| Vec::new() }),
        wants: |place| is_table(place) && raw(place).is_some_and(|(format, _)| format.block_len() > 1),
        edits: &[Edit::Weight(|w, place| {
            let (all, before) = extent(w, place);
            let (block, len) = (w.format.block_bytes(), w.format.block_len());
            let bytes = (all / len * block) as f64 * place.variant;
            load(w, place, (bytes.round() as usize).saturating_sub(before / len * block))
        })],
        cause: "of a tensor's bytes the first {} are there, all others are zero",
        remedy: "compute a tensor's bytes from the block size of its format",
        source: "the wasm-chord logs of this project's beginning",
        ..ROW
    },
    Fault {
        name: "fused-qkv-split-for-devices",
        entry: "15",
        wants: is_fused,
        edits: &[Edit::Weight(|w, place| resplit(w, place, of_devices))],
        cause: "the fused QKV matrix is cut as if two devices had saved queries, keys and values of their own",
        remedy: "join the devices' parts before they are written: [Q|K|V] of all heads",
        source: "Shoeybi et al. 2019 (Megatron-LM); a fault of tensor parallelism in general",
        ..ROW
    },
    Fault {
        name: "fused-product-split-for-devices",
        entry: "15",
        edits: &[Edit::Wiring(read_all), Edit::Inputs(|inputs, place| recut(inputs, place, of_devices))],
        cause: "the fused product is right, and is cut as if two devices had saved queries, keys and values of their own",
        remedy: "a fused product of a GGUF file has all queries first, then all keys, then all values",
        source: "Shoeybi et al. 2019 (Megatron-LM); a fault of tensor parallelism in general",
        ..ROW
    },
    Fault {
        name: "v-rows-permuted",
        entry: "14",
        variants: &[1.0, -1.0],
        wants: |place| part(place) == Some(2),
        edits: &[Edit::Weight(|w, place| permute_part(w, place, place.variant > 0.0, &[2]))],
        cause: "the rows of V are put in the other order of pairs, as those of Q and K",
        remedy: "permute Q and K alone: values are not rotated",
        source: "ggml-org/llama.cpp#3018",
        ..ROW
    },
    Fault {
        name: "layers-sorted-as-text",
        entry: "8",
        wants: |place| place.layer().is_some() && place.node.kind.weight().is_some(),
        edits: &[Edit::Weight(|w, place| {
            let Some(layer) = place.layer() else { return false };
            let mut order: Vec<usize> = (0..place.graph.config.layers).collect();
            order.sort_by_key(usize::to_string);
            let other = order.get(layer).copied().filter(|&other| other != layer);
            let values = other.and_then(|other| weight_of_layer(place, other));
            values.filter(|values| values.len() == w.values.len()).map(|values| w.values = values).is_some()
        })],
        cause: "layers are sorted by their names: layer 10 comes before layer 2",
        remedy: "sort by number",
        source: "a fault of name maps in general",
        ..ROW
    },
];
