//! Kernels that only show how fast a device is.
#![cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "what is timed there cannot be waited for"))]

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Probe {
    /// Nothing: it makes what is read.
    Fill,
    Read,
    Multiply(Numbers),
}

/// What is multiplied on registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Numbers {
    Floats,
    Halves,
    /// Packed signed bytes, added up in 32 bits.
    Bytes,
}

impl Probe {
    pub(crate) fn source(self) -> Vec<&'static str> {
        match self {
            Probe::Fill => vec![include_str!("../shaders/probe_fill.wgsl")],
            Probe::Read => vec![include_str!("../shaders/probe_read.wgsl")],
            Probe::Multiply(numbers) => vec![include_str!("../shaders/probe_multiply.wgsl"), numbers.source()],
        }
    }
}

impl Numbers {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Numbers::Floats => "floats",
            Numbers::Halves => "halves",
            Numbers::Bytes => "bytes",
        }
    }

    fn source(self) -> &'static str {
        match self {
            Numbers::Floats => FLOATS,
            Numbers::Halves => HALVES,
            Numbers::Bytes => BYTES,
        }
    }
}

// Factors are below 1 and sums converge, so that no number is infinite or too small to be normal.
const FLOATS: &str = "alias V = vec4<f32>;
fn start(i: u32) -> V { return vec4<f32>(0.25, 0.375, 0.5, 0.625) + f32(i) / 16384.0; }
fn next(x: V, m: V) -> V { return fma(x, m, m); }
fn fold(x: V) -> f32 { return x.x + x.y + x.z + x.w; }
";
const HALVES: &str = "alias V = vec4<f16>;
fn start(i: u32) -> V { return vec4<f16>(vec4<f32>(0.25, 0.375, 0.5, 0.625) + f32(i) / 16384.0); }
fn next(x: V, m: V) -> V { return fma(x, m, m); }
fn fold(x: V) -> f32 { return f32(x.x) + f32(x.y) + f32(x.z) + f32(x.w); }
";
const BYTES: &str = "alias V = i32;
fn start(i: u32) -> V { return bitcast<i32>(i * 2654435769u); }
fn next(x: V, m: V) -> V { return x + dot4I8Packed(bitcast<u32>(x), bitcast<u32>(m)); }
fn fold(x: V) -> f32 { return f32(x); }
";
