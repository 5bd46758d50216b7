//! How a kernel's source is composed: constants, a template, and what that leaves to others.

use std::fmt::Write;

use candor_ops::{NormKind, PAGE};
use candor_quant::Format;

use super::{
    Attend, ExpertRows, Function, GateKind, Inputs, Kernel, KvKind, Norm, Numbers, Output, Probe, ROW_GROUP, Route,
    SPLITS, Store, TOP_GROUP, TOP_SLICE, Tile, rows_per_group,
};
use crate::{Cooperative, Variant, cooperative, format};

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
        let probe = self == Kernel::Probe(Probe::Multiply(Numbers::Halves));
        if probe || self == Kernel::Narrow || self.tile() == Some(Tile::Halves) || self.is_cooperative() {
            source.push_str("enable f16;\n");
        }
        if self.is_cooperative() {
            // naga takes what functions return, and the number of a subgroup, for different within a subgroup, and refuses
            // matrices behind branches on them. That it is asked about derivatives is naga's name for all of this.
            source.push_str("enable wgpu_cooperative_matrix;\ndiagnostic(off, derivative_uniformity);\n");
        }
        for (name, value) in constants {
            let _ = writeln!(source, "const {name} = {value};");
        }
        pieces.iter().for_each(|piece| source.push_str(piece));
        match (self, self.tile(), variant.cooperative) {
            (Kernel::Attend(attend), _, Some(cooperative)) if attend.cooperative => {
                let (key_dim, value_dim) = (attend.chunks * 8, attend.words * 2);
                let [own_keys, own_values] = cooperative.own_of_attention(key_dim, value_dim);
                let (keys, values) = (key_dim / cooperative.side, value_dim / cooperative.side);
                let names =
                    [("OF_KEY", keys), ("OF_VALUE", values), ("OWN_KEYS", own_keys), ("OWN_VALUES", own_values)];
                repeated(&source, &names)
            }
            (_, Some(tile @ Tile::Cooperative { tall }), Some(cooperative)) => {
                let [weights, inputs] = cooperative.own_of_stage(tile.rows());
                let down = cooperative::down(tall);
                repeated(&source, &[("DOWN", down), ("OWN_WEIGHTS", weights), ("OWN_INPUTS", inputs)])
            }
            _ => source,
        }
    }

    /// Whether it multiplies cooperative matrices.
    pub(super) fn is_cooperative(self) -> bool {
        let product = matches!(self.tile(), Some(Tile::Cooperative { .. }));
        product || matches!(self, Kernel::Attend(Attend { cooperative: true, .. }))
    }

    /// Its tiles, which say what a device must have.
    pub(super) fn tile(self) -> Option<Tile> {
        match self {
            Kernel::MatMul { tile, .. } | Kernel::ExpertMul { tile, .. } | Kernel::HeadMul { tile, .. } => Some(tile),
            _ => None,
        }
    }

    fn parts(self, variant: Variant) -> Parts {
        let add = |store| ("ADD", (store == Store::Add).to_string());
        let reduce = if variant.subgroups { shader!("reduce_subgroup") } else { shader!("reduce_plain") };
        match self {
            Kernel::Embed(format) => (vec![], [&[shader!("embed")], decode(format)].concat()),
            Kernel::Round => (vec![number("WG", 64)], vec![shader!("round"), shader!("rounds")]),
            Kernel::Narrow => (vec![], vec![shader!("narrow"), shader!("mat_mul_f16")]),
            Kernel::MatVec { format, rows, inputs, store } => {
                let (constants, pieces) = few_inputs(shader!("mat_vec"), (format, rows, inputs), variant);
                ([constants, vec![add(store)]].concat(), pieces)
            }
            Kernel::ExpertVec { format, inputs } => {
                few_inputs(shader!("mat_vec_experts"), (format, 1, inputs), variant)
            }
            Kernel::HeadVec { format, rows, inputs } => {
                few_inputs(shader!("mat_vec_heads"), (format, rows, inputs), variant)
            }
            Kernel::MatMul { format, tile, store } => {
                let (constants, pieces) = many_inputs(shader!("mat_mul_all"), format, tile, variant);
                ([constants, vec![add(store)]].concat(), pieces)
            }
            Kernel::ExpertMul { format, tile } => many_inputs(shader!("mat_mul_experts"), format, tile, variant),
            Kernel::HeadMul { format, tile } => many_inputs(shader!("mat_mul_heads"), format, tile, variant),
            Kernel::Pad => (vec![], vec![shader!("pad")]),
            Kernel::Route(route) => route_source(route, reduce),
            Kernel::Group { experts } => (vec![number("EXPERTS", experts)], vec![shader!("group")]),
            Kernel::ExpertRows(ExpertRows::AddBias) => (vec![], vec![shader!("expert_rows"), EXPERTS_BIAS]),
            Kernel::ExpertRows(ExpertRows::Scale) => (vec![], vec![shader!("expert_rows"), EXPERTS_SCALE]),
            Kernel::SumExperts => (vec![], vec![shader!("sum_experts")]),
            Kernel::RmsNorm | Kernel::RmsNormRounded => {
                let rounds = rounds(self == Kernel::RmsNormRounded);
                (vec![number("WG", ROW_GROUP)], vec![reduce, shader!("rms_norm"), rounds])
            }
            Kernel::HeadNorm => (vec![number("WG", 64)], vec![reduce, shader!("head_norm")]),
            Kernel::Norm(norm) => norm_source(norm, reduce),
            Kernel::Unary(function) => {
                let drops = matches!(function, Function::Relu | Function::ReluSquared);
                let pieces = vec![shader!("unary"), shader!("math"), function.source()];
                (vec![("DROPS", drops.to_string())], pieces)
            }
            Kernel::Mul | Kernel::MulColumns => binary(BINARY_MUL, false),
            Kernel::AddPositions(format) => (vec![], [&[shader!("add_positions")], decode(format)].concat()),
            Kernel::Add | Kernel::AddBias => binary(BINARY_ADD, false),
            Kernel::Swiglu => binary(BINARY_SWIGLU, false),
            Kernel::SwigluRounded => binary(BINARY_SWIGLU, true),
            Kernel::Rope => (vec![], vec![shader!("rope"), shader!("turn")]),
            Kernel::Columns => (vec![], vec![shader!("columns")]),
            Kernel::ScaleGroups => (vec![], vec![shader!("scale_groups")]),
            Kernel::DotGroups => (vec![number("WG", 64)], vec![reduce, shader!("dot_groups")]),
            Kernel::Gather => (vec![], vec![shader!("gather")]),
            Kernel::TopSlice { k } => {
                let constants = vec![number("WG", TOP_GROUP), number("K", k), number("SLICE", TOP_SLICE)];
                (constants, vec![shader!("top"), shader!("top_slice")])
            }
            Kernel::TopMerge { k } => {
                (vec![number("WG", TOP_GROUP), number("K", k)], vec![shader!("top"), shader!("top_merge")])
            }
            Kernel::KvWrite { keys, values, paged } => write_source(keys, values, paged, &[shader!("kv_write")]),
            Kernel::TurnAndWrite { keys, values, paged } => {
                write_source(keys, values, paged, &[shader!("rope_write"), shader!("turn")])
            }
            Kernel::Attend(attend) if attend.cooperative => attend_matrices(attend, variant),
            Kernel::Attend(attend) => {
                let constants = vec![
                    number("ROWS", attend.rows),
                    number("HEADS", attend.heads),
                    number("CHUNKS", attend.chunks),
                    number("TOGETHER", attend.together()),
                    number("WORDS", attend.words),
                    ("SPLIT", (attend.output == Output::Split).to_string()),
                    ("SINKS", attend.extras.sinks.to_string()),
                ];
                let constants = [constants, places(attend.paged)].concat();
                let keys = match attend.keys {
                    KvKind::F32 => shader!("cache/keys_f32"),
                    KvKind::F16 => shader!("cache/keys_f16"),
                    KvKind::Q8_0 => shader!("cache/keys_q8_0"),
                    KvKind::Q4_0 => shader!("cache/keys_q4_0"),
                };
                let values = match attend.values {
                    KvKind::F32 => shader!("cache/values_f32"),
                    KvKind::F16 => shader!("cache/values_f16"),
                    KvKind::Q8_0 => shader!("cache/values_q8_0"),
                    KvKind::Q4_0 => shader!("cache/values_q4_0"),
                };
                let share = if variant.subgroups { shader!("attend_subgroup") } else { shader!("attend_plain") };
                let place = shader!("cache/read_place");
                let pieces =
                    vec![shader!("attend_given"), shader!("attend"), place, share, keys, values, attend.sight.source()];
                (constants, [pieces, attend.extras.source(), rounds_out(attend.rounds).to_vec()].concat())
            }
            Kernel::Relative => (vec![], vec![shader!("relative")]),
            Kernel::Unpack(format) => (vec![], [&[shader!("unpack")], decode(format)].concat()),
            Kernel::Conv => (vec![], vec![shader!("conv_past"), shader!("conv")]),
            Kernel::Keep => (vec![], vec![shader!("conv_past"), shader!("keep")]),
            Kernel::Join => (vec![], vec![shader!("join")]),
            Kernel::Recur(recur) => {
                let constants = vec![
                    number("KEYS", recur.keys),
                    number("PARTS", recur.parts()),
                    number("COLUMNS", recur.columns()),
                    number("ELEMENTS", recur.elements()),
                    ("ERASE", recur.erase.to_string()),
                ];
                (constants, recur.source())
            }
            Kernel::Probe(probe) => (vec![], probe.source()),
            Kernel::Merge | Kernel::MergeRounded => {
                let constants = vec![number("WG", 64), number("SPLITS", SPLITS)];
                let rounds = rounds_out(self == Kernel::MergeRounded);
                (constants, [&[reduce, shader!("merge")], rounds].concat())
            }
        }
    }
}

/// What leaves four numbers of a row rounded, or does not.
fn rounds(is: bool) -> &'static str {
    if is {
        shader!("rounds")
    } else {
        "fn round_four(values: vec4<f32>, word: u32, row: u32, quads: u32, lid: u32) {}\n"
    }
}

/// What leaves numbers of a row of `out` rounded, or does not.
fn rounds_out(is: bool) -> &'static [&'static str] {
    if is {
        &[shader!("rounds_out"), shader!("rounds")]
    } else {
        &["fn round_out(row: u32, stride: u32, start: u32, len: u32, lid: u32) {}\n"]
    }
}

fn binary(f: &'static str, is: bool) -> Parts {
    (vec![number("WG", 64)], vec![shader!("binary"), f, rounds(is)])
}

const BINARY_MUL: &str = "fn f(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> { return x * y; }";
const BINARY_ADD: &str = "fn f(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> { return x + y; }";
const BINARY_SWIGLU: &str = "fn f(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> { return x / (1.0 + exp(-x)) * y; }";

/// The constants of places in a cache.
fn places(paged: bool) -> Vec<(&'static str, String)> {
    vec![("PAGED", paged.to_string()), number("PAGE", PAGE as u32)]
}

/// What writes to a cache.
fn write_source(keys: KvKind, values: KvKind, paged: bool, pieces: &[&'static str]) -> Parts {
    let name = |kind: KvKind| format!("{kind:?}");
    let constants = [vec![("KEYS", name(keys)), ("VALUES", name(values))], places(paged)].concat();
    let shared = [shader!("cache/write"), shader!("cache/half"), shader!("cache/write_place")];
    (constants, [pieces, &shared].concat())
}

/// The pieces that decode a format.
fn decode(format: Format) -> &'static [&'static str] {
    format::decoder(format).map_or(&[], |decoder| decoder.source)
}

/// A product with few rows of inputs.
fn few_inputs(which: &'static str, (format, rows, inputs): (Format, u32, Inputs), variant: Variant) -> Parts {
    let products = match inputs {
        Inputs::Floats => shader!("mat_vec_floats"),
        Inputs::Bytes => shader!("mat_vec_bytes"),
    };
    let constants = vec![number("T", rows), number("ROWS", rows_per_group(rows)), number("WG", 64)];
    let main = if variant.subgroups { shader!("mat_vec_subgroup") } else { shader!("mat_vec_plain") };
    (constants, [&[which, products, main], decode(format)].concat())
}

/// A product in tiles.
fn many_inputs(which: &'static str, format: Format, tile: Tile, variant: Variant) -> Parts {
    let product = match tile {
        Tile::Floats => &[shader!("mat_mul"), shader!("mat_mul_f32")][..],
        Tile::Halves => &[shader!("mat_mul"), shader!("mat_mul_f16")],
        Tile::Bytes => &[shader!("mat_mul_bytes")],
        Tile::Cooperative { .. } => &[shader!("mat_mul_cooperative"), shader!("mat_mul_f16")],
    };
    let pieces = [&[which], product, decode(format)].concat();
    match (tile, variant.cooperative) {
        (Tile::Cooperative { tall }, Some(cooperative)) => {
            let constants = vec![
                number("WG", cooperative.invocations()),
                number("TALL", tile.rows()),
                number("DOWN", cooperative::down(tall)),
                number("BLOCK", cooperative.side),
                number("RUNS", cooperative::RUNS),
            ];
            (constants, [pieces, vec![matrices(cooperative)]].concat())
        }
        _ => (vec![], pieces),
    }
}

/// Attention by cooperative matrices.
fn attend_matrices(attend: Attend, variant: Variant) -> Parts {
    let Some(cooperative) = variant.cooperative else { return (vec![], vec![]) };
    let constants = vec![
        number("WG", cooperative.attention_invocations()),
        number("QUERIES", cooperative::ATTENTION_QUERIES),
        number("KEYS", cooperative::ATTENTION_KEYS),
        number("BLOCK", cooperative.side),
        number("ROWS", attend.rows),
        number("HEADS", attend.heads),
        number("KEY_DIM", attend.chunks * 8),
        number("VALUE_DIM", attend.words * 2),
        ("SPLIT", (attend.output == Output::Split).to_string()),
        ("SINKS", attend.extras.sinks.to_string()),
    ];
    let pieces = vec![
        shader!("attend_given"),
        shader!("attend_cooperative"),
        shader!("mat_mul_f16"),
        shader!("cache/read_place"),
        attend.sight.source(),
        matrices(cooperative),
    ];
    ([constants, places(attend.paged)].concat(), [pieces, attend.extras.source()].concat())
}

/// A source in which the line after each `//# NAME` stands as often as is said of the name, with `#` for its number: drivers
/// keep arrays of matrices in memory.
fn repeated(source: &str, names: &[(&str, u32)]) -> String {
    let mut out = String::with_capacity(2 * source.len());
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let of = line.trim_start().strip_prefix("//# ");
        match of.and_then(|name| names.iter().find(|(known, _)| *known == name)).zip(of.and_then(|_| lines.next())) {
            Some(((_, count), line)) => {
                (0..*count).for_each(|i| out.extend([&line.replace('#', &i.to_string()), "\n"]));
            }
            None => out.extend([line, "\n"]),
        }
    }
    out
}

fn matrices(cooperative: Cooperative) -> &'static str {
    if cooperative.side == 16 { MATRICES_16 } else { MATRICES_8 }
}

const MATRICES_8: &str = "
alias Inputs = coop_mat8x8<f16, A>;
alias Weights = coop_mat8x8<f16, B>;
alias Sums = coop_mat8x8<f32, C>;
";
const MATRICES_16: &str = "
alias Inputs = coop_mat16x16<f16, A>;
alias Weights = coop_mat16x16<f16, B>;
alias Sums = coop_mat16x16<f32, C>;
";

fn route_source(route: Route, reduce: &'static str) -> Parts {
    let Route { gate, experts, used, biased } = route;
    let is = |name, kind| (name, (gate == kind).to_string());
    let constants = vec![
        number("WG", 64),
        number("EXPERTS", experts),
        number("USED", used),
        is("SOFTMAX", GateKind::Softmax),
        is("SIGMOID", GateKind::Sigmoid),
        is("OF_CHOSEN", GateKind::SoftmaxOfChosen),
        is("MIXER", GateKind::SparseMixer),
        ("BIASED", biased.to_string()),
    ];
    let bias = if biased { ROUTE_BIAS } else { "fn bias(i: u32) -> f32 { return 0.0; }\n" };
    (constants, vec![reduce, shader!("route"), shader!("math"), bias])
}

const ROUTE_BIAS: &str = "@group(0) @binding(3) var<storage, read> b: array<f32>;
fn bias(i: u32) -> f32 { return b[i]; }
";
const EXPERTS_BIAS: &str = "@group(0) @binding(3) var<storage, read> bias: array<vec4<f32>>;
fn changed(x: vec4<f32>, choice: vec2<u32>, i: u32) -> vec4<f32> { return x + bias[choice.x * p.bias_stride + i]; }
";
const EXPERTS_SCALE: &str =
    "fn changed(x: vec4<f32>, choice: vec2<u32>, i: u32) -> vec4<f32> { return x * bitcast<f32>(choice.y); }";

fn norm_source(norm: Norm, reduce: &'static str) -> Parts {
    let Norm { kind, weight, bias, group } = norm;
    let layer = ("LAYER", (kind == NormKind::Layer).to_string());
    let mean = ("MEAN", (kind != NormKind::L2).to_string());
    let mut pieces = vec![reduce, shader!("norm")];
    pieces.extend(weight.then_some(NORM_WEIGHT));
    pieces.extend(bias.then_some(NORM_BIAS));
    pieces.push(match (weight, bias) {
        (true, true) => "fn scaled(x: f32, run: u32, i: u32) -> f32 { return x * weight(run, i) + bias(run, i); }",
        (true, false) => "fn scaled(x: f32, run: u32, i: u32) -> f32 { return x * weight(run, i); }",
        (false, true) => "fn scaled(x: f32, run: u32, i: u32) -> f32 { return x + bias(run, i); }",
        (false, false) => "fn scaled(x: f32, run: u32, i: u32) -> f32 { return x; }",
    });
    (vec![number("WG", group), layer, mean], pieces)
}

const NORM_WEIGHT: &str = "@group(0) @binding(2) var<storage, read> w: array<f32>;
fn weight(run: u32, i: u32) -> f32 { return w[run % p.weight_len + i]; }
";
const NORM_BIAS: &str = "@group(0) @binding(3) var<storage, read> b: array<f32>;
fn bias(run: u32, i: u32) -> f32 { return b[run % p.bias_len + i]; }
";
