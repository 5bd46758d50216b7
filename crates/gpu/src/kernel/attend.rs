//! The constants of attention, and what of its source they decide.

use candor_ops::Mask;

use super::kv::KvKind;

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
    /// Words of a value, or bytes, per invocation; where matrices are multiplied, in all.
    pub(crate) words: u32,
    /// Whether cooperative matrices are multiplied.
    pub(crate) cooperative: bool,
    pub(crate) output: Output,
    pub(crate) sight: Sight,
    pub(crate) extras: Extras,
    /// Whether sequences may share pages of the cache.
    pub(crate) paged: bool,
    /// Whether it leaves its rows rounded to bytes beside them.
    pub(crate) rounds: bool,
}

impl Attend {
    /// Chunks of a key that are fetched before they are multiplied: with many queries there is enough to do meanwhile, and there
    /// are no registers left.
    pub(super) fn together(self) -> u32 {
        let most = if self.rows * self.heads > 8 { 2 } else { 4 };
        [most, 2, 1].into_iter().find(|n| self.chunks.is_multiple_of(*n)).unwrap_or(1)
    }
}

/// Where a workgroup of attention leaves its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Output {
    Whole,
    /// Beside those of other spans, to be merged.
    Split,
}

/// A [`Mask`] without its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sight {
    Causal,
    Window,
    Chunk,
    Whole,
    Around,
}

/// What becomes of scores besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Extras {
    /// They are capped.
    pub(crate) cap: bool,
    /// A head's slope times the distance is taken away.
    pub(crate) slopes: bool,
    /// Each head has a score without a value.
    pub(crate) sinks: bool,
    /// A number of the distance is added.
    pub(crate) relative: bool,
}

impl Sight {
    /// The kind of a mask, and its number.
    pub(crate) fn of(mask: Mask) -> (Sight, usize) {
        match mask {
            Mask::Causal => (Sight::Causal, 0),
            Mask::Window(reach) => (Sight::Window, reach),
            Mask::Chunk(reach) => (Sight::Chunk, reach),
            Mask::Whole => (Sight::Whole, 0),
            Mask::Around(reach) => (Sight::Around, reach),
        }
    }

    /// `seen`: the first position that a row sees, and the end of those.
    pub(super) fn source(self) -> &'static str {
        match self {
            Sight::Causal => "fn seen(at: u32, end: u32) -> vec2<u32> { return vec2<u32>(0u, at + 1u); }\n",
            Sight::Window => {
                "fn seen(at: u32, end: u32) -> vec2<u32> { return vec2<u32>(at + 1u - min(at + 1u, p.reach), at + 1u); }\n"
            }
            Sight::Chunk => {
                "fn seen(at: u32, end: u32) -> vec2<u32> { return vec2<u32>(at / p.reach * p.reach, at + 1u); }\n"
            }
            Sight::Whole => "fn seen(at: u32, end: u32) -> vec2<u32> { return vec2<u32>(0u, end); }\n",
            Sight::Around => {
                "fn seen(at: u32, end: u32) -> vec2<u32> {
    return vec2<u32>(at - min(at, p.reach), min(end, at + p.reach + 1u));
}
"
            }
        }
    }
}

impl Extras {
    /// `adjusted` and `sink`, with the buffers that they read.
    pub(super) fn source(self) -> Vec<&'static str> {
        let Extras { cap, slopes, sinks, relative } = self;
        let mut pieces = Vec::new();
        let mut body = Vec::new();
        let rules = [
            (cap, include_str!("../shaders/soft_cap.wgsl"), "    s = capped(s);\n"),
            (slopes, SLOPES, "    s -= slopes[head] * f32(max(position, at) - min(position, at));\n"),
            (relative, RELATIVE, "    s += by_distance(head, position, at);\n"),
        ];
        for (_, piece, line) in rules.into_iter().filter(|(is_there, ..)| *is_there) {
            pieces.push(piece);
            body.push(line);
        }
        pieces.push("fn adjusted(score: f32, head: u32, position: u32, at: u32) -> f32 {\n    var s = score;\n");
        pieces.extend(body);
        pieces.push("    return s;\n}\n");
        pieces.push(if sinks { SINKS } else { "fn sink(head: u32) -> f32 { return 0.0; }\n" });
        pieces
    }
}

const SLOPES: &str = "@group(0) @binding(6) var<storage, read> slopes: array<f32>;\n";
const SINKS: &str = "@group(0) @binding(7) var<storage, read> sinks: array<f32>;
fn sink(head: u32) -> f32 { return sinks[head]; }
";
const RELATIVE: &str = "@group(0) @binding(8) var<storage, read> scores_by_distance: array<f32>;
fn by_distance(head: u32, position: u32, at: u32) -> f32 {
    let most = i32(p.most);
    let distance = clamp(i32(position) - i32(at), -most, most);
    return scores_by_distance[u32(distance + most) * p.kv_heads * p.group + head];
}
";
