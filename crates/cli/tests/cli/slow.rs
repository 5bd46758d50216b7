//! What takes long: a model whose prompts do, and texts for it.

use std::{fs, path::Path};

use candor_testing::Tiny;

/// Tokens of context of the model.
pub const CONTEXT: usize = 8192;

/// Writes a small model, with a chat template, that takes seconds for a prompt that fills its context, most of them in
/// attention.
pub fn model(folder: &Path) -> String {
    let tiny = Tiny { layers: 8, dim: 256, heads: 8, kv_heads: 8, head_dim: 32, ffn: 512, ..Tiny::default() };
    let mut writer = tiny.writer();
    writer.insert("llama.context_length", CONTEXT as u32);
    writer.insert("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}");
    let path = folder.join("slow.gguf");
    writer.write_file(&path).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A text of that many of its tokens, letter by letter.
pub fn text(tokens: usize) -> String {
    (0..tokens).map(|i| char::from(b'a' + (i * i % 23) as u8)).collect()
}

/// The same in a file.
pub fn file(folder: &Path, tokens: usize) -> String {
    let path = folder.join("text.txt");
    fs::write(&path, text(tokens)).unwrap();
    path.to_str().unwrap().to_owned()
}
