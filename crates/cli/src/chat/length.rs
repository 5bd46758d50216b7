//! The context's length among the settings of a conversation: the names that it has there.

/// The flag's own name, as `/set` lists it.
pub const NAME: &str = "ctx-size";

/// Whether a setting's name, as it was typed, is the context's length: llama.cpp's, or Ollama's.
pub fn is_meant(typed: &str) -> bool {
    let name = typed.trim_start_matches('-').replace('_', "-");
    [NAME, "num-ctx", "c"].contains(&name.as_str())
}

/// What `/set` lists of it.
pub fn listed() -> (String, String) {
    (NAME.to_owned(), "Tokens of context; 0 takes the model's own, or what memory holds where that is less".to_owned())
}
