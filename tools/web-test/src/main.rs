//! Prepares the test of WebGPU: writes what lies between the module and the page, and what the module is to find, computed here.
//!
//! usage: web-test MODULE FOLDER

use std::{env, error::Error, fs, path::Path};

use candor::{Device, GenerateOptions, LoadOptions, Message, Model, Sampling};
use wasm_bindgen_cli_support::Bindgen;

/// Tokens that are decoded.
const TOKENS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [module, folder] = args.as_slice() else { return Err("usage: web-test MODULE FOLDER".into()) };
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module).web(true)?.typescript(false).keep_debug(false).generate(folder)?;
    let tokens = |device| -> Result<Vec<u32>, candor::Error> {
        let model = Model::builtin(&LoadOptions { device, ..Default::default() })?;
        let mut session = model.session(&Default::default())?;
        let prompt = model.chat(&[Message::user("Tell me a story.")])?;
        let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
        let options = GenerateOptions { sampling, max_tokens: Some(TOKENS), ..Default::default() };
        session.generate(&prompt, options)?.filter_map(|piece| piece.map(|piece| piece.token).transpose()).collect()
    };
    let expected = serde_json::json!({ "cpu": tokens(Device::Cpu)?, "gpu": tokens(Device::Gpu)? });
    fs::write(Path::new(folder).join("expected.json"), expected.to_string())?;
    Ok(())
}
