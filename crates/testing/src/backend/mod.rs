//! What every backend is tested with: random weights and rows, and operations run on them in ways that do not depend on
//! the backend. The reference says what should come out; how near a result must be is the backend's test to say.

pub mod attention;
pub mod experts;
mod feed;
pub mod forks;
pub mod fusions;
pub mod pools;
pub mod products;
mod random;
pub mod recurrent;
pub mod rows;

pub use random::Random;

use std::cell::Cell;

use candor_ops::{Prims, Step, Tensor};
use candor_quant::Format;

/// A weight of 32-bit floats.
pub fn floats(rows: usize, cols: usize, values: &[f32]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Tensor { name: "floats".into(), format: Format::F32, rows, cols, bytes: bytes.into() }
}

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Runs something with rows that decode: those that are uploaded and the steps that are made here meanwhile, on this
/// thread. Without it they are rows of prompts.
pub fn decoding<T>(run: impl FnOnce() -> T) -> T {
    let before = DECODING.replace(true);
    let result = run();
    DECODING.set(before);
    result
}

/// How many of `rows` decode.
fn of_kind(rows: usize) -> usize {
    if DECODING.get() { rows } else { 0 }
}

/// A buffer with these rows: an embedding of tokens 0, 1, 2, ...
///
/// # Panics
/// If the backend refuses floats.
pub fn upload<B: Prims>(ops: &mut B, width: usize, values: &[f32]) -> B::Buf {
    let rows = values.len() / width;
    // A second row keeps the table a matrix.
    let mut padded = values.to_vec();
    padded.resize((rows + 1) * width, 0.0);
    let table = ops.weight(floats(rows + 1, width, &padded)).expect("floats run everywhere");
    let tokens: Vec<u32> = (0..rows as u32).collect();
    let zeros = vec![0; rows];
    let mut buf = ops.buffer(rows, width);
    ops.embed(
        &mut buf,
        &table,
        &Step { tokens: &tokens, positions: &zeros, sequences: &zeros, outputs: &[], decoding: of_kind(rows) },
    );
    buf
}

/// The rows of a buffer.
pub fn read<B: Prims>(ops: &mut B, buf: &B::Buf) -> Vec<f32> {
    let (snapshot, mut values) = (ops.snapshot(buf), Vec::new());
    ops.download(&snapshot, &mut values);
    values
}

/// The bits of numbers, so that they can be compared exactly.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}
