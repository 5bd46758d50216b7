//! Faults of files and loaders: layout, sizes, offsets, names (section A1 of the catalogue).

use candor::gguf::Format;

use super::{
    ROW, any, fused, is_embedding, is_layer_matrix, is_matrix, is_square, other_weight, raw, reshape, scale_fields,
};
use crate::fault::{Edit, Fault};
use crate::{Kind, replay::Matrix, replay::Place};

/// Zeroes everything from an element on.
fn cut(w: &mut Matrix, elements: usize) -> bool {
    let end = w.values.len().min(elements);
    let changed = end < w.values.len();
    w.values[end..].fill(0.0);
    changed
}

/// Loads only so many bytes; the rest stays zero, of the block where they end too.
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
    let dim = w.rows / heads;
    if dim < 4 || !w.rows.is_multiple_of(heads) || !dim.is_multiple_of(2) {
        return false;
    }
    let old = w.values.clone();
    for head in 0..heads {
        for i in 0..dim / 2 {
            for half in 0..2 {
                let (a, b) = (2 * i + half, half * (dim / 2) + i);
                let (to, from) = if forward { (a, b) } else { (b, a) };
                let (to, from) = ((head * dim + to) * w.cols, (head * dim + from) * w.cols);
                w.values[to..to + w.cols].copy_from_slice(&old[from..from + w.cols]);
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

/// Rows of one of q, k, v when the file's fused matrix `[q; k; v]` is split as if it were interleaved by group.
fn resplit(w: &mut Matrix, place: &Place<'_>) -> bool {
    let heads = place.graph.config.heads;
    // Of several kinds of layers those without attention have no heads.
    let (group, dim) = (heads.heads.checked_div(heads.kv_heads).unwrap_or(0), heads.key_dim);
    if heads.key_dim != heads.value_dim || heads.kv_heads == 1 {
        return false;
    }
    let parts = ["attn_q", "attn_k", "attn_v"].map(|name| other_weight(place, name));
    let [Some(q), Some(k), Some(v)] = parts else { return false };
    let counts = [heads.heads, heads.kv_heads, heads.kv_heads];
    if [&q, &k, &v].into_iter().zip(counts).any(|(part, heads)| part.rows != heads * dim) {
        // Queries with gates, say.
        return false;
    }
    let fused = [q, k, v].map(|part| part.values).concat();
    let block = |group_index: usize, index: usize| (group_index * (group + 2) + index) * dim * w.cols;
    let size = dim * w.cols;
    let starts: Vec<usize> = match place.weight() {
        "attn_q" => (0..heads.heads).map(|h| block(h / group, h % group)).collect(),
        "attn_k" => (0..heads.kv_heads).map(|g| block(g, group)).collect(),
        "attn_v" => (0..heads.kv_heads).map(|g| block(g, group + 1)).collect(),
        _ => return false,
    };
    w.values = starts.into_iter().flat_map(|start| fused[start..start + size].iter().copied()).collect();
    true
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

fn swap_names(w: &mut Matrix, place: &Place<'_>, a: &str, b: &str) -> bool {
    let other = match place.weight() {
        name if name == a => b,
        name if name == b => a,
        _ => return false,
    };
    match other_weight(place, other) {
        Some(other) if other.values.len() == w.values.len() => {
            w.values = other.values;
            true
        }
        _ => false,
    }
}

/// Takes the other half of a tensor whose halves are two matrices.
fn other_half(w: &mut Matrix, place: &Place<'_>) -> bool {
    let Some((whole, rows)) = fused(place).filter(|(whole, rows)| whole.rows == 2 * rows.len()) else { return false };
    let first = if rows.start == 0 { rows.end } else { 0 };
    w.values.copy_from_slice(&whole.values[first * whole.cols..][..rows.len() * whole.cols]);
    true
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
        name: "head-column-major",
        entry: "4",
        wants: |place| is_matrix(place) && place.name() == "result_output",
        edits: &[Edit::Weight(reshape)],
        cause: "the output matrix is indexed [width * vocabulary + token]",
        remedy: "the logit of a token is the product with row `token` of the output matrix",
        source: "the wasm-chord logs of this project's beginning",
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
        name: "layer-off-by-one",
        entry: "8",
        variants: &[1.0, -1.0],
        wants: |place| place.layer().is_some(),
        edits: &[Edit::Weight(|w, place| {
            let (Kind::MatMul(t) | Kind::Stacked { weight: t, .. } | Kind::Norm { weight: Some(t), .. }) =
                &place.node.kind
            else {
                return false;
            };
            let Some(layer) = place.layer() else { return false };
            let Some(next) = layer.checked_add_signed(place.variant as isize) else { return false };
            let name = t.name.replace(&format!("blk.{layer}."), &format!("blk.{next}."));
            match super::tensor(place, &name) {
                Some(other) if other.values.len() == w.values.len() => {
                    w.values = other.values;
                    true
                }
                _ => false,
            }
        })],
        cause: "the weights are those of the layer {} further on",
        remedy: "check the layer index in the tensor names that are looked up",
        source: "crates/inspect: a fault of name maps in general",
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
        name: "norms-swapped",
        entry: "8",
        wants: any,
        edits: &[Edit::Weight(|w, place| swap_names(w, place, "attn_norm", "ffn_norm"))],
        cause: "attn_norm and ffn_norm are exchanged",
        remedy: "attn_norm (HF: input_layernorm) comes before attention, ffn_norm (post_attention_layernorm) before the feed-forward",
        source: "crates/inspect: a fault of name maps in general",
        ..ROW
    },
    Fault {
        name: "k-and-v-swapped",
        entry: "8",
        wants: any,
        edits: &[Edit::Weight(|w, place| swap_names(w, place, "attn_k", "attn_v"))],
        cause: "attn_k and attn_v are exchanged",
        remedy: "check the names of the key and value matrices",
        source: "crates/inspect: a fault of name maps in general",
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
        name: "qk-rows-not-permuted",
        entry: "14",
        variants: &[1.0, -1.0],
        wants: any,
        edits: &[Edit::Weight(|w, place| {
            let heads = place.graph.config.heads;
            match place.weight() {
                "attn_q" => permute_rows(w, heads.heads, place.variant > 0.0),
                "attn_k" => permute_rows(w, heads.kv_heads, place.variant > 0.0),
                _ => false,
            }
        })],
        cause: "the rows of Q and K are in the other order of pairs (HF's halves against GGUF's neighbours), or permuted twice",
        remedy: "for architecture llama the converter permutes Q and K per head, and RoPE then pairs neighbours; do one or the other",
        source: "ggml-org/llama.cpp#22611, karpathy/llama2.c#286",
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
        name: "fused-qkv-split-by-group",
        entry: "15",
        wants: any,
        edits: &[Edit::Weight(resplit)],
        cause: "the fused QKV matrix [Q|K|V] is split as if it were interleaved by head group",
        remedy: "check how the checkpoint lays out its fused matrix: one after the other, or per group",
        source: "lablup/mlxcel#928, vllm-project/vllm#53114",
        ..ROW
    },
];
