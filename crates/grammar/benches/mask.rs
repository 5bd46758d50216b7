//! How long a mask takes: of each token of a text, and the vocabulary that it is of. `cargo bench -p candor-grammar`; the
//! vocabularies are those of the fixtures, or of the files that `CANDOR_VOCAB` names.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use candor::{Encode, Gguf, Tokenizer, sampler::LogitsProcessor};
use candor_grammar::{Grammar, Mask, Vocabulary};
use serde_json::json;

const TEXT: &str = r#"{"name": "Ada Lovelace", "born": 1815, "about": "She wrote the first program for a machine that was never built, and saw that it could do more than sums.", "tags": ["mathematics", "poetry", "engines"]}"#;

const JSON: &str = r#"root ::= object
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= "-"? [0-9]+ ("." [0-9]+)? ws
ws ::= | " " | "\n" [ \t]{0,20}"#;

fn main() {
    let files: Vec<PathBuf> = match std::env::var_os("CANDOR_VOCAB") {
        Some(files) => std::env::split_paths(&files).collect(),
        None => {
            let Some(fixtures) = candor_testing::fixtures() else { return };
            let folder = candor_testing::vocabularies(&fixtures, &std::env::temp_dir());
            ["llama-spm", "llama-bpe", "qwen2"].map(|name| folder.join(format!("ggml-vocab-{name}.gguf"))).into()
        }
    };
    let schema = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "born": { "type": "integer" },
            "about": { "type": "string", "maxLength": 400 },
            "tags": { "type": "array", "items": { "type": "string" }, "maxItems": 5 },
        },
        "required": ["name", "born", "about", "tags"],
        "additionalProperties": false,
    });
    println!(
        "{:<12} {:>8}  {:<16} {:>10} {:>10} {:>10} {:>10}",
        "vocabulary", "tokens", "shape", "made", "first", "middle", "longest"
    );
    for file in files {
        let gguf = Gguf::open(&file).expect("a file of a vocabulary");
        let tokenizer = Arc::new(Tokenizer::from_metadata(gguf.metadata()).expect("a vocabulary"));
        let begun = Instant::now();
        let vocabulary = Arc::new(Vocabulary::new(&tokenizer).expect("a vocabulary for grammars"));
        let name = file.file_stem().unwrap_or_default().to_string_lossy().replace("ggml-vocab-", "");
        let size = tokenizer.vocab_size();
        println!("{name:<12} {size:>8}  {:<16} {:>10}", "(itself)", shown(begun.elapsed()));
        for (shape, grammar) in [
            ("schema", Grammar::json_schema(&schema)),
            ("any object", Grammar::json()),
            ("regex", Grammar::regex(r#"(.|\n)*"#)),
            ("GBNF of JSON", Grammar::gbnf(JSON)),
        ] {
            let begun = Instant::now();
            let mut mask = grammar.expect("a grammar").mask(&vocabulary).expect("a mask");
            let made = begun.elapsed();
            let mut times = times(&mut mask, &tokenizer);
            let first = times[0];
            times.sort_unstable();
            let (middle, longest) = (times[times.len() / 2], times[times.len() - 1]);
            println!(
                "{name:<12} {size:>8}  {shape:<16} {:>10} {:>10} {:>10} {:>10}",
                shown(made),
                shown(first),
                shown(middle),
                shown(longest)
            );
        }
    }
}

/// How long each token of the text took.
fn times(mask: &mut Mask, tokenizer: &Tokenizer) -> Vec<Duration> {
    let mut tokens = tokenizer.encode("a", Encode::text());
    // Not at the beginning, where some vocabularies put a space.
    let text = tokenizer.encode(&format!("\n{TEXT}"), Encode::text());
    let text = text.into_iter().skip_while(|&id| !tokenizer.piece(id, candor::Show::Text).starts_with(b"{"));
    let mut logits = vec![0.0f32; tokenizer.vocab_size()];
    let mut all = Vec::new();
    for token in text {
        logits.fill(0.0);
        let begun = Instant::now();
        mask.process(&tokens, &mut logits);
        all.push(begun.elapsed());
        assert!(mask.failure().is_none() && logits[token as usize] == 0.0, "token {token}");
        tokens.push(token);
    }
    all
}

fn shown(time: Duration) -> String {
    match time.as_micros() {
        short @ ..10_000 => format!("{short} us"),
        long => format!("{} ms", long / 1000),
    }
}
