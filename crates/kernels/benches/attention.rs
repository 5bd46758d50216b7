//! Speed of attention's products on one thread: `cargo bench -p candor-kernels --bench attention`.
//!
//! Billions of multiplications per second over a block of positions in the second-level cache, as for a prompt, and the
//! gigabytes of keys and values that are read per second from memory, as for a long text's next token. Best of many.

use std::hint::black_box;
use std::time::Instant;

use candor_kernels::{AttentionKernels, Kernels, OutTile, PANEL, Queries, Weights, padded};
use candor_quant::Format;

/// Positions of a block.
const BLOCK: usize = 256;
/// Bytes of the keys that do not fit into a cache, and of the values.
const FAR: usize = 128 << 20;

struct Cache {
    kernels: AttentionKernels,
    dim: usize,
    keys: Vec<u8>,
    values: Vec<u8>,
    positions: usize,
}

impl Cache {
    fn new(kernels: AttentionKernels, dim: usize, positions: usize) -> Cache {
        let panel = kernels.panel_bytes(dim).expect("dimensions of whole blocks");
        let row = kernels.row_bytes(dim).expect("dimensions of whole blocks");
        let (mut keys, mut values) = (vec![0; positions / PANEL * panel], vec![0; positions * row]);
        let number = |i: usize| (i as f32 * 0.37).sin();
        for p in 0..positions {
            let x: Vec<f32> = (0..dim).map(|e| number(p % 1000 * dim + e)).collect();
            (kernels.put_key)(&mut keys[p / PANEL * panel..][..panel], p % PANEL, &x);
            (kernels.put_value)(&mut values[p * row..][..row], &x);
        }
        Cache { kernels, dim, keys, values, positions }
    }

    /// Scores and mixes block by block; seconds of each.
    fn pass(&self, queries: &[f32], scores: &mut [f32], out: &mut [f32]) -> (f64, f64) {
        let (count, blocks) = (queries.len() / self.dim, self.positions / BLOCK);
        let counts = vec![BLOCK; count];
        let (mut scoring, mut mixing) = (0.0, 0.0);
        let blocks = self.keys.chunks(self.keys.len() / blocks).zip(self.values.chunks(self.values.len() / blocks));
        for (keys, values) in blocks {
            let start = Instant::now();
            let tile = OutTile { values: black_box(&mut *scores), stride: BLOCK };
            (self.kernels.scores)(tile, Queries { dim: self.dim, values: queries }, keys);
            let middle = Instant::now();
            let weights = Weights { values: black_box(&*scores), stride: BLOCK, counts: &counts };
            (self.kernels.mix)(black_box(&mut *out), weights, values);
            scoring += (middle - start).as_secs_f64();
            mixing += middle.elapsed().as_secs_f64();
        }
        (scoring, mixing)
    }

    fn best(&self, queries: usize, runs: usize) -> (f64, f64) {
        let q: Vec<f32> = (0..queries * self.dim).map(|i| (i as f32 * 0.11).cos() * 0.01).collect();
        let (mut scores, mut out) = (vec![0.0; queries * BLOCK], vec![0.0; queries * padded(self.dim)]);
        (0..runs).fold((f64::INFINITY, f64::INFINITY), |best, _| {
            out.fill(0.0);
            let (scoring, mixing) = self.pass(&q, &mut scores, &mut out);
            (best.0.min(scoring), best.1.min(mixing))
        })
    }
}

fn main() {
    for table in Kernels::available() {
        for format in [Format::F32, Format::F16, Format::Q8_0] {
            let kernels = (table.attention)(format).expect("every table has the formats of the cache");
            let name = format!("{:10} {:4}", table.name, format.name());
            for dim in [64, 128] {
                let near = Cache::new(kernels, dim, BLOCK);
                for queries in [1, 4, 8, 64] {
                    let (scoring, mixing) = near.best(queries, if table.name == "scalar" { 20 } else { 500 });
                    let gmac = |seconds: f64| (queries * BLOCK * dim) as f64 / seconds / 1e9;
                    println!(
                        "{name} dim {dim:3}, {queries:2} queries, {BLOCK} positions: scores {:6.1}, mix {:6.1} GMAC/s",
                        gmac(scoring),
                        gmac(mixing)
                    );
                }
            }
            if table.name == "scalar" {
                continue;
            }
            let far = Cache::new(kernels, 64, FAR / kernels.row_bytes(64).unwrap_or(1) / BLOCK * BLOCK);
            for queries in [1, 4, 8] {
                let (scoring, mixing) = far.best(queries, 4);
                let rate = |seconds: f64| FAR as f64 / seconds / 1e9;
                println!(
                    "{name} dim  64, {queries:2} queries, from memory: keys {:5.1}, values {:5.1} GB/s",
                    rate(scoring),
                    rate(mixing)
                );
            }
        }
    }
}
