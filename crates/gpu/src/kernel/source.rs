//! How a kernel's source is composed: constants, a template, and what that leaves to others.

use std::fmt::Write;

use candor_ops::NormKind;

use super::{Inputs, Kernel, KvKind, Norm, Output, ROW_GROUP, SPLITS, Store, Tile, rows_per_group};
use crate::{Variant, format};

macro_rules! shader {
    ($name:literal) => {
        include_str!(concat!("../shaders/", $name, ".wgsl"))
    };
}

/// Constants by their names, and pieces of source.
type Parts = (Vec<(&'static str, String)>, Vec<&'static str>);

fn number(name: &'static str, value: u32) -> (&'static str, String) {
    (name, format!("{value}u"))
}

impl Kernel {
    /// The whole WGSL source on a device of that variant.
    pub(crate) fn source(self, variant: Variant) -> String {
        let (constants, pieces) = self.parts(variant);
        let mut source = String::new();
        if self.has_halves() {
            source.push_str("enable f16;\n");
        }
        for (name, value) in constants {
            let _ = writeln!(source, "const {name} = {value};");
        }
        pieces.iter().for_each(|piece| source.push_str(piece));
        source
    }

    /// Whether it can only be compiled where shaders have half precision.
    fn has_halves(self) -> bool {
        matches!(self, Kernel::MatMul { tile: Tile::Halves, .. })
    }

    fn parts(self, variant: Variant) -> Parts {
        let add = |store| ("ADD", (store == Store::Add).to_string());
        let decode = |format| format::decoder(format).map_or(&[][..], |decoder| decoder.source);
        let reduce = if variant.subgroups { shader!("reduce_subgroup") } else { shader!("reduce_plain") };
        match self {
            Kernel::Embed(format) => (vec![], [&[shader!("embed")], decode(format)].concat()),
            Kernel::Round => (vec![], vec![shader!("round")]),
            Kernel::MatVec { format, rows, inputs, store } => {
                let products = match inputs {
                    Inputs::Floats => shader!("mat_vec_floats"),
                    Inputs::Bytes => shader!("mat_vec_bytes"),
                };
                let group = number("WG", 64);
                let constants = vec![number("T", rows), number("ROWS", rows_per_group(rows)), group, add(store)];
                let main = if variant.subgroups { shader!("mat_vec_subgroup") } else { shader!("mat_vec_plain") };
                (constants, [&[shader!("mat_vec"), products, main], decode(format)].concat())
            }
            Kernel::MatMul { format, tile, store } => {
                let tile = match tile {
                    Tile::Floats => shader!("mat_mul_f32"),
                    Tile::Halves => shader!("mat_mul_f16"),
                };
                (vec![add(store)], [&[shader!("mat_mul"), tile], decode(format)].concat())
            }
            Kernel::RmsNorm => (vec![number("WG", ROW_GROUP)], vec![reduce, shader!("rms_norm")]),
            Kernel::HeadNorm => (vec![number("WG", 64)], vec![reduce, shader!("head_norm")]),
            Kernel::Norm(norm) => norm_source(norm, reduce),
            Kernel::Unary(function) => (vec![], vec![shader!("unary"), shader!("math"), function.source()]),
            Kernel::Mul | Kernel::MulColumns => (vec![], vec![shader!("binary"), BINARY_MUL]),
            Kernel::AddPositions(format) => (vec![], [&[shader!("add_positions")], decode(format)].concat()),
            Kernel::Add | Kernel::AddBias => (vec![], vec![shader!("binary"), BINARY_ADD]),
            Kernel::Swiglu => (vec![], vec![shader!("binary"), BINARY_SWIGLU]),
            Kernel::Rope => (vec![], vec![shader!("rope")]),
            Kernel::Columns => (vec![], vec![shader!("columns")]),
            Kernel::ScaleGroups => (vec![], vec![shader!("scale_groups")]),
            Kernel::DotGroups => (vec![number("WG", 64)], vec![reduce, shader!("dot_groups")]),
            Kernel::Gather => (vec![], vec![shader!("gather")]),
            Kernel::Argmax => (vec![number("WG", ROW_GROUP)], vec![reduce, shader!("argmax")]),
            Kernel::KvWrite(KvKind::F32) => (vec![], vec![shader!("kv_write"), shader!("cache/pack_f32")]),
            Kernel::KvWrite(KvKind::F16) => {
                (vec![], vec![shader!("kv_write"), shader!("cache/half"), shader!("cache/pack_f16")])
            }
            Kernel::KvWrite(KvKind::Q8_0) => (vec![], vec![shader!("kv_write_q8_0"), shader!("cache/half")]),
            Kernel::Attend(attend) => {
                let constants = vec![
                    number("ROWS", attend.rows),
                    number("HEADS", attend.heads),
                    number("CHUNKS", attend.chunks),
                    number("WORDS", attend.words),
                    ("SPLIT", (attend.output == Output::Split).to_string()),
                    ("SINKS", attend.extras.sinks.to_string()),
                ];
                let keys = match attend.keys {
                    KvKind::F32 => shader!("cache/keys_f32"),
                    KvKind::F16 => shader!("cache/keys_f16"),
                    KvKind::Q8_0 => shader!("cache/keys_q8_0"),
                };
                let values = match attend.values {
                    KvKind::F32 => shader!("cache/values_f32"),
                    KvKind::F16 => shader!("cache/values_f16"),
                    KvKind::Q8_0 => shader!("cache/values_q8_0"),
                };
                let share = if variant.subgroups { shader!("attend_subgroup") } else { shader!("attend_plain") };
                let pieces = vec![shader!("attend"), share, keys, values, attend.sight.source()];
                (constants, [pieces, attend.extras.source()].concat())
            }
            Kernel::Relative => (vec![], vec![shader!("relative")]),
            Kernel::Unpack(format) => (vec![], [&[shader!("unpack")], decode(format)].concat()),
            Kernel::Merge => (vec![number("WG", 64), number("SPLITS", SPLITS)], vec![reduce, shader!("merge")]),
        }
    }
}

const BINARY_MUL: &str = "fn f(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> { return x * y; }";
const BINARY_ADD: &str = "fn f(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> { return x + y; }";
const BINARY_SWIGLU: &str = "fn f(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> { return x / (1.0 + exp(-x)) * y; }";

fn norm_source(norm: Norm, reduce: &'static str) -> Parts {
    let Norm { kind, weight, bias, group } = norm;
    let layer = ("LAYER", (kind == NormKind::Layer).to_string());
    let mean = ("MEAN", (kind != NormKind::L2).to_string());
    let mut pieces = vec![reduce, shader!("norm")];
    pieces.extend(weight.then_some(NORM_WEIGHT));
    pieces.extend(bias.then_some(NORM_BIAS));
    pieces.push(match (weight, bias) {
        (true, true) => "fn scaled(x: f32, i: u32) -> f32 { return x * weight(i) + bias(i); }",
        (true, false) => "fn scaled(x: f32, i: u32) -> f32 { return x * weight(i); }",
        (false, true) => "fn scaled(x: f32, i: u32) -> f32 { return x + bias(i); }",
        (false, false) => "fn scaled(x: f32, i: u32) -> f32 { return x; }",
    });
    (vec![number("WG", group), layer, mean], pieces)
}

const NORM_WEIGHT: &str = "@group(0) @binding(2) var<storage, read> w: array<f32>;
fn weight(i: u32) -> f32 { return w[i % p.weight_len]; }
";
const NORM_BIAS: &str = "@group(0) @binding(3) var<storage, read> b: array<f32>;
fn bias(i: u32) -> f32 { return b[i % p.bias_len]; }
";
