//! Text to ids by the vocabularies of the fixtures: `cargo bench -p candor-tokenizer --bench encode`.

#[allow(dead_code, reason = "tests use the rest")]
#[path = "../tests/tokenizer/vocabularies.rs"]
mod vocabularies;

use candor_tokenizer::Encode;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

/// English prose, code, digits, other scripts and emoji in turn.
const SAMPLE: &str = "\
The old harbour master counted the boats twice before breakfast, and wrote 117 in his book; nobody had asked him to.\n\
fn main() -> Result<(), Box<dyn Error>> {\n    let total: u64 = items.iter().map(|item| item.price * 3).sum();\n}\n\
Der schnelle Fuchs h\u{f6}rte, da\u{df} \u{dc}bermut selten gut tut. \u{41a}\u{430}\u{43a} \u{442}\u{435}\u{431}\u{44f} \u{437}\u{43e}\u{432}\u{443}\u{442}?\n\
\u{4eca}\u{65e5}\u{306f}\u{3068}\u{3066}\u{3082}\u{5bd2}\u{3044}\u{3067}\u{3059}\u{306d}\u{3002} \u{1f600} 3.14159 x = [1, 2, 3]\n\n";

/// As long as a long prompt.
const BYTES: usize = 1 << 18;

/// The sample again and again, each time with twenty words that come but once, as a memory of words would find in a book.
fn text() -> String {
    let mut text = String::new();
    let mut state = 1_u64;
    while text.len() < BYTES {
        text.push_str(SAMPLE);
        for _ in 0..20 {
            // Knuth's multiplier; the upper bits are the good ones.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let letters = (state >> 33).to_string();
            text.extend(letters.bytes().map(|digit| char::from(b'a' + (digit - b'0') * 2)));
            text.push(' ');
        }
    }
    text
}

fn encode(criterion: &mut Criterion) {
    let Some(fixtures) = vocabularies::fixtures() else { return };
    let text = text();
    let mut group = criterion.benchmark_group("encode");
    group.throughput(Throughput::Bytes(text.len() as u64)).sample_size(10);
    for name in ["llama-bpe", "qwen2", "gpt-2", "deepseek-llm", "llama-spm", "gemma-4", "bert-bge", "nomic-bert-moe"] {
        let tokenizer = vocabularies::tokenizer(&fixtures, name);
        group.bench_function(name, |bencher| bencher.iter(|| tokenizer.encode(black_box(&text), Encode::prompt())));
    }
    group.finish();
}

criterion_group!(benches, encode);
criterion_main!(benches);
