//! One token out of 128k logits, for the chains that people use: `cargo bench -p candor --bench sampler`.

use std::hint::black_box;

use candor::sampler::{Sampler, Sampling};
use criterion::{Criterion, criterion_group, criterion_main};

/// The vocabulary of Llama 3.
const VOCAB: u32 = 128_256;

/// Logits of about a model's spread, the same at every run (Steele et al. 2014, SplitMix64).
fn logits() -> Vec<f32> {
    let uniform = |at: u32, part: u64| {
        let mut z = (u64::from(at) << 8 | part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 40) as f32 / (1 << 24) as f32
    };
    // A sum of four is near enough to a normal distribution.
    (0..VOCAB).map(|id| 5.0 * ((0..4).map(|part| uniform(id, part)).sum::<f32>() - 2.0)).collect()
}

fn chains(criterion: &mut Criterion) {
    let default = Sampling::default();
    let settings = [
        ("default", default.clone()),
        ("greedy", default.clone().temperature(0.0)),
        ("repeat penalty", default.clone().repeat_penalty(1.1)),
        ("top-p alone", default.clone().top_k(0).min_p(0.0)),
        ("min-p alone", default.clone().top_k(0).top_p(1.0)),
        ("temperature alone", default.clone().top_k(0).top_p(1.0).min_p(0.0)),
        ("mirostat 2", default.mirostat(2)),
    ];
    let logits = logits();
    let mut group = criterion.benchmark_group("128k");
    for (name, settings) in settings {
        let settings = settings.seed(1);
        let mut sampler = Sampler::new(&settings, 4096, None).expect("settings in range");
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let id = sampler.sample(black_box(&logits)).expect("finite logits");
                sampler.accept(id);
                id
            });
        });
    }
    group.finish();
}

criterion_group!(benches, chains);
criterion_main!(benches);
