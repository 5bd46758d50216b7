//! `cargo xtask isa`: what must hold on every instruction set, once for each that this machine has: the backend's tests, text
//! and logits against llama.cpp's. The kernels' own tests name every table by themselves.

use std::error::Error;

use candor_kernels::{ISA_VARIABLE, Kernels};

use crate::command::cargo;

/// Tests of whole models; scalar runs them too.
const MODELS: &[&str] = &["accuracy", "architectures", "consistency", "greedy", "perplexity", "sequences"];

/// Runs the tests under every table.
pub fn run() -> Result<(), Box<dyn Error>> {
    for table in Kernels::available() {
        let variables = [(ISA_VARIABLE, table.name)];
        cargo(&["test", "-p", "candor-cpu"], &variables)?;
        let mut models = vec!["test", "-p", "candor"];
        models.extend(MODELS.iter().flat_map(|name| ["--test", name]));
        cargo(&models, &variables)?;
    }
    Ok(())
}
