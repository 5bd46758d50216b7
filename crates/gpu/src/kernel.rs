//! The kernels: each is a value that says which shader it is and with which constants, and composes its source.

mod attend;
mod function;
mod kv;
mod probe;
mod recur;
mod source;

use candor_ops::NormKind;
use candor_quant::Format;

pub(crate) use attend::{Attend, Extras, Output, Sight};
pub(crate) use function::Function;
pub(crate) use kv::KvKind;
pub(crate) use probe::{Numbers, Probe};
pub(crate) use recur::{Fading, Recur};

/// A shader with its constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kernel {
    Embed(Format),
    Round,
    Narrow,
    MatVec {
        format: Format,
        rows: u32,
        inputs: Inputs,
        store: Store,
    },
    MatMul {
        format: Format,
        tile: Tile,
        store: Store,
    },
    /// The inputs of a choice of a row that decodes, with its expert's matrix.
    ExpertVec {
        format: Format,
        inputs: Inputs,
    },
    /// Those of prompts' choices of each expert.
    ExpertMul {
        format: Format,
        tile: Tile,
    },
    /// A head's part of inputs with its matrix.
    HeadVec {
        format: Format,
        rows: u32,
        inputs: Inputs,
    },
    HeadMul {
        format: Format,
        tile: Tile,
    },
    Pad,
    Route(Route),
    Group {
        experts: u32,
    },
    ExpertRows(ExpertRows),
    SumExperts,
    RmsNorm,
    /// The same, which leaves its rows rounded to bytes beside them. So do the others that are named like this.
    RmsNormRounded,
    HeadNorm,
    Norm(Norm),
    Unary(Function),
    Mul,
    MulColumns,
    Add,
    AddBias,
    AddPositions(Format),
    Swiglu,
    SwigluRounded,
    Rope,
    Columns,
    ScaleGroups,
    DotGroups,
    Gather,
    /// The best elements of slices of rows.
    TopSlice {
        k: u32,
    },
    /// The best of those.
    TopMerge {
        k: u32,
    },
    KvWrite {
        keys: KvKind,
        values: KvKind,
        paged: bool,
    },
    /// Queries and keys are turned before.
    TurnAndWrite {
        keys: KvKind,
        values: KvKind,
        paged: bool,
    },
    Attend(Attend),
    Merge,
    MergeRounded,
    Relative,
    Unpack(Format),
    Conv,
    Keep,
    Join,
    Recur(Recur),
    #[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "what is timed there cannot be waited for"))]
    Probe(Probe),
}

impl Kernel {
    /// The format of the weights that it decodes.
    pub(crate) fn format(self) -> Option<Format> {
        match self {
            Kernel::Embed(format)
            | Kernel::AddPositions(format)
            | Kernel::Unpack(format)
            | Kernel::MatVec { format, .. }
            | Kernel::MatMul { format, .. }
            | Kernel::ExpertVec { format, .. }
            | Kernel::ExpertMul { format, .. }
            | Kernel::HeadVec { format, .. }
            | Kernel::HeadMul { format, .. } => Some(format),
            _ => None,
        }
    }
}

/// A norm of runs, and what follows on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Norm {
    pub(crate) kind: NormKind,
    /// Whether there are weights.
    pub(crate) weight: bool,
    /// Whether there is a bias.
    pub(crate) bias: bool,
    /// Invocations of a workgroup.
    pub(crate) group: u32,
}

/// The constants of a choice of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    pub(crate) gate: GateKind,
    pub(crate) experts: u32,
    pub(crate) used: u32,
    /// Whether something is added to what is chosen by.
    pub(crate) biased: bool,
}

/// A gate without its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GateKind {
    Softmax,
    SoftmaxOfChosen,
    Sigmoid,
    SparseMixer,
}

/// What becomes of the rows of choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ExpertRows {
    AddBias,
    Scale,
}

/// Inputs of a product of rows that decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Inputs {
    /// As they are.
    Floats,
    /// Rounded to signed bytes in blocks.
    Bytes,
}

/// How a product of prompts' rows holds them and the weights in workgroup memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Tile {
    Floats,
    Halves,
    /// Packed bytes: inputs are rounded to them before.
    Bytes,
    /// Halves, as cooperative matrices; inputs are made halves before. With twice as many rows of inputs, if it is tall.
    Cooperative {
        tall: bool,
    },
}

impl Tile {
    /// Rows of inputs.
    pub(crate) fn rows(self) -> u32 {
        if self == (Tile::Cooperative { tall: true }) { 2 * TILE } else { TILE }
    }
}

/// What becomes of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Store {
    /// It replaces the output.
    Set,
    /// It is added to the output.
    Add,
}

/// Rows of inputs that a product of a matrix with vectors takes at once.
pub(crate) const MAT_VEC_ROWS: usize = 8;

/// Rows of inputs and of the matrix in a tile of a product with many inputs.
pub(crate) const TILE: u32 = 64;

/// Rows of the matrix that one workgroup of it multiplies.
pub(crate) fn rows_per_group(inputs: u32) -> u32 {
    if inputs <= 4 { 4 } else { 2 }
}

/// Spans of attention that can be merged at most.
pub(crate) const SPLITS: u32 = 256;

/// Experts that there may be: their logits have to lie in workgroup memory.
pub(crate) const EXPERTS: usize = 1024;

/// Elements of a row among which a workgroup looks for the best.
pub(crate) const TOP_SLICE: u32 = 4096;

/// Invocations of a workgroup that does: one for each digit, which is a byte.
const TOP_GROUP: u32 = 256;

/// Invocations of a workgroup that reduces a row.
pub(crate) const ROW_GROUP: u32 = 256;

/// The bindings of a shader's storage buffers in the order of their declarations, and how it uses each.
pub(crate) fn bindings(source: &str) -> Vec<(u32, Access)> {
    let declared = source.lines().filter_map(|line| line.strip_prefix("@group(0) @binding("));
    let storage = declared.filter_map(|line| {
        let (binding, rest) = line.split_once(')')?;
        let (_, rest) = rest.split_once("var<storage, ")?;
        let access = if rest.starts_with("read_write") { Access::Write } else { Access::Read };
        Some((binding.parse().ok()?, access))
    });
    storage.collect()
}

/// How a shader uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

#[cfg(all(test, target_os = "linux"))]
mod radeon;
#[cfg(test)]
mod tests;
