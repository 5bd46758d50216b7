//! The engine as a WebAssembly module. What is exported here is called by `npm/engine.js` alone: options and answers are JSON,
//! and the package's face is `npm/candor.d.ts`.
#![cfg(target_arch = "wasm32")]

mod ask;
#[cfg(target_feature = "atomics")]
mod crew;
mod engine;
mod fit;
mod hash;
mod likely;
mod look;
mod panicked;
mod source;
mod stop;
mod trace;
#[cfg(feature = "gpu")]
mod verified;
