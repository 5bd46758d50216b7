//! Every fixture architecture against Transformers in float64 and against llama.cpp.

use candor::{Device, LoadOptions, Model, SessionOptions, ops::KvFormat};
use candor_testing::{fixtures, ids, json, nmse, npy};

const EXACT_CACHE: SessionOptions =
    SessionOptions { context: 0, batch: 2048, ubatch: 512, keys: KvFormat::F32, values: KvFormat::F32 };

#[test]
fn try_all() {
    let Some(fixtures) = fixtures() else { return };
    let only = std::env::var("ONLY").ok();
    let mut folders: Vec<_> = std::fs::read_dir(fixtures.join("arch")).unwrap().map(|e| e.unwrap().path()).collect();
    folders.sort();
    for folder in folders {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("quant-")
            || !folder.is_dir()
            || only.as_ref().is_some_and(|only| !only.split(',').any(|o| o == name))
        {
            continue;
        }
        let meta = json(&folder.join("tokens.json"));
        let tokens = ids(&meta["tokens"]);
        for device in [Device::Reference, Device::Cpu] {
            let options = LoadOptions { device, ..LoadOptions::default() };
            let model = match Model::open(folder.join("model.gguf"), &options) {
                Ok(m) => m,
                Err(e) => {
                    println!("{name:20} REFUSED {e}");
                    break;
                }
            };
            let mut logits = Vec::new();
            let mut session =
                model.session(&SessionOptions { context: 256.max(tokens.len() + 20), ..EXACT_CACHE }).unwrap();
            session.evaluate_each(&tokens, |_, row| logits.extend_from_slice(row)).unwrap();
            let file = |kind: &str| {
                ["logits", "embeddings"]
                    .iter()
                    .map(|what| folder.join(format!("{what}_{kind}.npy")))
                    .find(|p| p.exists())
            };
            let errs: Vec<String> = ["hf", "llamacpp"]
                .iter()
                .map(|k| {
                    file(k).map_or("-".into(), |f| {
                        let e = npy(&f);
                        if e.len() != logits.len() {
                            format!("len {} vs {}", logits.len(), e.len())
                        } else {
                            format!("{:.1e}", nmse(&logits, &e))
                        }
                    })
                })
                .collect();
            println!("{name:20} {device:?}: {}", errs.join("  "));
        }
    }
}
