//! What a file leaves open is said.

use candor_gguf::Gguf;
use candor_models::Config;
use candor_testing::Tiny;

#[test]
fn mistrals_window_is_missed() {
    let notes = |name: &str, window: Option<u32>| {
        let mut writer = Tiny::default().writer();
        writer.insert("general.name", name);
        if let Some(window) = window {
            writer.insert("llama.attention.sliding_window", window);
        }
        Config::notes(&Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()).unwrap()
    };
    let said = notes("Mistral-7B-Instruct-v0.1", None);
    assert!(said.len() == 1 && said[0].contains("no sliding window"), "{said:?}");
    assert!(notes("Mistral-7B-Instruct-v0.1", Some(4096)).is_empty());
    assert!(notes("TinyLlama", None).is_empty());
}
