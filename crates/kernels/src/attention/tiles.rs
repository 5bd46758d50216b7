//! Attention's products for any width of vector. An instruction set says what sixteen floats in registers are ([`Wide`]) and
//! how large its tiles; the order of a sum's terms is the same for all.

mod cached;
pub(crate) mod products;
mod quantized;
mod source;
mod tile;
mod wide;
#[cfg(any(target_arch = "aarch64", target_arch = "wasm32"))]
mod widened;

#[cfg(target_arch = "x86_64")]
pub(crate) use cached::Cached;
pub(crate) use products::rows;
#[cfg(target_arch = "x86_64")]
pub(crate) use quantized::{Q4, Q8};
#[cfg(target_arch = "x86_64")]
pub(crate) use source::F16;
pub(crate) use source::Source;
pub(crate) use tile::{Product, strip};
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use wide::AHEAD;
pub(crate) use wide::Wide;
#[cfg(any(target_arch = "aarch64", target_arch = "wasm32"))]
pub(crate) use widened::{Widened, widened};
