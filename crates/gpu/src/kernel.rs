//! The kernels: each is a value that says which shader it is and with which constants, and composes its source.

use std::fmt::Write;

use candor_ops::KvFormat;
use candor_quant::Format;

use crate::{Variant, format};

/// A shader with its constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kernel {
    Embed(Format),
    Round,
    MatVec { format: Format, rows: u32, inputs: Inputs, store: Store },
    MatMul { format: Format, tile: Tile, store: Store },
    RmsNorm,
    HeadNorm,
    Silu,
    Mul,
    Add,
    AddBias,
    Swiglu,
    Rope,
    Copy,
    Gather,
    Argmax,
    KvWrite(KvKind),
    Attend(Attend),
    Merge,
}

/// Inputs of a product with few of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Inputs {
    /// As they are.
    Floats,
    /// Rounded to signed bytes in blocks.
    Bytes,
}

/// How a product with many inputs holds them and the weights in workgroup memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Tile {
    Floats,
    Halves,
}

/// What becomes of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Store {
    /// It replaces the output.
    Set,
    /// It is added to the output.
    Add,
}

/// Elements of a cache that shaders know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum KvKind {
    F32,
    F16,
    Q8_0,
}

/// The constants of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Attend {
    pub(crate) keys: KvKind,
    pub(crate) values: KvKind,
    /// Rows of one sequence at once.
    pub(crate) rows: u32,
    /// Query heads at once.
    pub(crate) heads: u32,
    /// `vec4`s of a key.
    pub(crate) chunks: u32,
    /// Words of a value per invocation.
    pub(crate) words: u32,
    pub(crate) output: Output,
}

/// Where a workgroup of attention leaves its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Output {
    Whole,
    /// Beside those of other spans, to be merged.
    Split,
}

impl KvKind {
    pub(crate) fn of(format: KvFormat) -> KvKind {
        match format {
            KvFormat::F32 => KvKind::F32,
            KvFormat::F16 => KvKind::F16,
            KvFormat::Q8_0 => KvKind::Q8_0,
            KvFormat::Q4_0 => unreachable!("refused by check_kv"),
        }
    }

    /// Elements in a word.
    pub(crate) fn per_word(self) -> usize {
        match self {
            KvKind::F32 => 1,
            KvKind::F16 => 2,
            KvKind::Q8_0 => 4,
        }
    }

    /// Words of scales behind a head of `dim` elements.
    pub(crate) fn scales(self, dim: usize) -> usize {
        match self {
            KvKind::F32 | KvKind::F16 => 0,
            KvKind::Q8_0 => dim / 32,
        }
    }
}

/// Rows of inputs that a product of a matrix with vectors takes at most.
pub(crate) const MAT_VEC_ROWS: usize = 8;

/// Rows of inputs and of the matrix in a tile of a product with many inputs.
pub(crate) const TILE: u32 = 64;

/// Rows of the matrix that one workgroup of it multiplies.
pub(crate) fn rows_per_group(inputs: u32) -> u32 {
    if inputs <= 4 { 4 } else { 2 }
}

/// Spans of attention that can be merged at most.
pub(crate) const SPLITS: u32 = 256;

/// Invocations of a workgroup that reduces a row.
const ROW_GROUP: u32 = 256;

macro_rules! shader {
    ($name:literal) => {
        include_str!(concat!("shaders/", $name, ".wgsl"))
    };
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

    fn parts(self, variant: Variant) -> (Vec<(&'static str, String)>, Vec<&'static str>) {
        let number = |name, value: u32| (name, format!("{value}u"));
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
            Kernel::Silu => (vec![], vec![shader!("unary"), UNARY_SILU]),
            Kernel::Mul => (vec![], vec![shader!("binary"), BINARY_MUL]),
            Kernel::Add | Kernel::AddBias => (vec![], vec![shader!("binary"), BINARY_ADD]),
            Kernel::Swiglu => (vec![], vec![shader!("binary"), BINARY_SWIGLU]),
            Kernel::Rope => (vec![], vec![shader!("rope")]),
            Kernel::Copy => (vec![], vec![shader!("copy")]),
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
                (constants, vec![shader!("attend"), share, keys, values])
            }
            Kernel::Merge => (vec![number("WG", 64), number("SPLITS", SPLITS)], vec![reduce, shader!("merge")]),
        }
    }
}

const UNARY_SILU: &str = "fn f(x: vec4<f32>) -> vec4<f32> { return x / (1.0 + exp(-x)); }";
const BINARY_MUL: &str = "fn f(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> { return x * y; }";
const BINARY_ADD: &str = "fn f(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> { return x + y; }";
const BINARY_SWIGLU: &str = "fn f(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> { return x / (1.0 + exp(-x)) * y; }";

/// How a shader uses each of its storage buffers, in the order of their bindings from 1 on.
pub(crate) fn storage_access(source: &str) -> Vec<Access> {
    let declarations = source.lines().filter(|line| line.starts_with("@group(0)"));
    let storage = declarations.filter_map(|line| line.split_once("var<storage, ").map(|(_, rest)| rest));
    storage.map(|rest| if rest.starts_with("read_write") { Access::Write } else { Access::Read }).collect()
}

/// How a shader uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use naga::back::{hlsl, msl, spv};
    use naga::valid::{Capabilities, ValidationFlags, Validator};

    use super::*;

    /// Numbers are multiplied as they are.
    fn inputs_of(format: Format) -> Vec<Inputs> {
        if format.block_len() == 1 { vec![Inputs::Floats] } else { vec![Inputs::Floats, Inputs::Bytes] }
    }

    fn all() -> Vec<Kernel> {
        let mut kernels = vec![
            Kernel::Round,
            Kernel::RmsNorm,
            Kernel::HeadNorm,
            Kernel::Silu,
            Kernel::Mul,
            Kernel::Add,
            Kernel::AddBias,
            Kernel::Swiglu,
            Kernel::Rope,
            Kernel::Copy,
            Kernel::Gather,
            Kernel::Argmax,
            Kernel::Merge,
        ];
        for format in format::DECODERS.iter().map(|decoder| decoder.format) {
            kernels.push(Kernel::Embed(format));
            for store in [Store::Set, Store::Add] {
                for inputs in inputs_of(format) {
                    let rows = 1..=MAT_VEC_ROWS as u32;
                    kernels.extend(rows.map(|rows| Kernel::MatVec { format, rows, inputs, store }));
                }
                kernels.extend([Tile::Floats, Tile::Halves].map(|tile| Kernel::MatMul { format, tile, store }));
            }
        }
        let kinds = [KvKind::F32, KvKind::F16, KvKind::Q8_0];
        kernels.extend(kinds.map(Kernel::KvWrite));
        for (keys, values) in kinds.into_iter().flat_map(|keys| kinds.map(|values| (keys, values))) {
            for (rows, heads, output) in [(1, 8, Output::Split), (2, 7, Output::Whole)] {
                kernels.push(Kernel::Attend(Attend { keys, values, rows, heads, chunks: 16, words: 2, output }));
            }
        }
        kernels
    }

    #[test]
    fn every_shader_is_valid_for_vulkan_metal_and_dx12() {
        let mut seen = HashSet::new();
        for kernel in all() {
            for bits in 0..8 {
                let [subgroups, int8_dot, f16] = [1, 2, 4].map(|bit| bits & bit != 0);
                let source = kernel.source(Variant { subgroups, int8_dot, f16 });
                if !seen.insert(source.clone()) {
                    continue;
                }
                let module = naga::front::wgsl::parse_str(&source)
                    .unwrap_or_else(|error| panic!("{kernel:?}: {}", error.emit_to_string(&source)));
                let info = Validator::new(
                    ValidationFlags::all(),
                    Capabilities::SUBGROUP | Capabilities::SHADER_FLOAT16_IN_FLOAT32 | Capabilities::SHADER_FLOAT16,
                )
                .validate(&module)
                .unwrap_or_else(|error| panic!("{kernel:?}: {error:?}"));
                let spirv = spv::Options { lang_version: (1, 3), ..spv::Options::default() };
                spv::write_vec(&module, &info, &spirv, None).unwrap_or_else(|error| panic!("{kernel:?}: {error}"));
                let metal =
                    msl::Options { lang_version: (2, 4), fake_missing_bindings: true, ..msl::Options::default() };
                msl::write_string(&module, &info, &metal, &msl::PipelineOptions::default())
                    .unwrap_or_else(|error| panic!("{kernel:?}: {error}"));
                let dx12 = hlsl::Options {
                    shader_model: hlsl::ShaderModel::V6_6,
                    fake_missing_bindings: true,
                    ..hlsl::Options::default()
                };
                let mut text = String::new();
                hlsl::Writer::new(&mut text, &dx12, &hlsl::PipelineOptions::default())
                    .write(&module, &info, None)
                    .unwrap_or_else(|error| panic!("{kernel:?}: {error}"));
            }
        }
    }

    #[test]
    fn bindings_are_read_from_the_source() {
        let access = storage_access(&Kernel::Rope.source(Variant::default()));
        assert_eq!(access, [Access::Read, Access::Read, Access::Write]);
    }
}
