//! Prepares the test of WebGPU: writes what lies between the module and the page, and what the module is to find, computed here.
//! `run.sh` beside it builds the module first, and opens the page after. A test, so that it shares the build of all others.

use std::{error::Error, fs, path::Path};

use candor::{Device, GenerateOptions, LoadOptions, Message, Model, Sampling};
use wasm_bindgen_cli_support::Bindgen;

/// Tokens that are decoded.
const TOKENS: usize = 20;

#[test]
#[ignore = "tools/web-test/run.sh builds the module that it reads"]
fn module_and_expected_values_are_written() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("web");
    let module = folder.with_file_name("candor_web_test.wasm");
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module).web(true)?.typescript(false).keep_debug(false).generate(&folder)?;
    let tokens = |device| -> Result<Vec<u32>, candor::Error> {
        let model = Model::builtin(&LoadOptions::default().device(device))?;
        let mut session = model.session(&Default::default())?;
        let prompt = model.encode_chat(&[Message::user("Tell me a story.")])?;
        let sampling = Sampling::default().temperature(0.0);
        let options = GenerateOptions::default().sampling(sampling).max_tokens(TOKENS);
        session.generate(&prompt, options)?.filter_map(|piece| piece.map(|piece| piece.token).transpose()).collect()
    };
    let expected = serde_json::json!({ "cpu": tokens(Device::Cpu)?, "gpu": tokens(Device::Gpu)? });
    fs::write(folder.join("expected.json"), expected.to_string())?;
    Ok(())
}
