//! CPU kernels as tables of function pointers, one table per instruction set.
//!
//! A [`Kernels`] table is chosen once ([`Kernels::from_env`]); tests run every table that the machine has
//! ([`Kernels::available`]). Kernels see slices and know no tensor. They start no threads, and
//! allocate nothing but a scratch of each thread's own.

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
mod aarch64;
mod activations;
mod array;
mod attention;
mod batch;
mod codebook;
mod exact;
mod function;
#[doc(hidden)]
pub mod inside;
mod isa;
#[cfg(any(
    all(target_arch = "aarch64", target_endian = "little"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
mod kind;
mod lanes;
mod order;
mod panel;
mod probe;
mod scalar;
mod scan;
mod shape;
mod table;
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_endian = "little"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
mod unroll;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
mod weights;
#[allow(missing_docs, reason = "what is public there is seen by this crate's tests alone")]
#[cfg(target_arch = "x86_64")]
mod x86;

pub use activations::{Q8_BLOCK, Q8Row, Q8RowMut, Q8Rows};
pub use attention::block::{
    BLOCK, BlockKernels, BlockProducts, GROUP, PAIR, Pairs, Seen, Softmax, WEIGHT_LINES, key_lines, mixed, query_lines,
    value_lines,
};
pub use attention::{AttentionKernels, PANEL, Queries, Weights, padded};
pub use batch::{BatchKernels, BatchTask, Emit, Form, Gate, Line, Packing, SIDE, Sums};
pub use function::Function;
pub use isa::{ISA_VARIABLE, UnknownIsa};
pub use scan::{KeyScan, Scan};
pub use table::{Activations, Encode, F32Kernels, Kernels, MatKernels, OutTile, Probe};
