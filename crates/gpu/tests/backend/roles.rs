//! A row's bits follow from its kind and from its own sequence, whatever shares the step.

use candor_gpu::Gpu;
use candor_ops::{Attention, Gate, Heads, KvFormat, KvPlan, LayerCache, Mask, Prims, Relative, Router, Step, Tensor};
use candor_quant::Format;
use candor_testing::backend::{Random, bits, floats, read};

use crate::matrices::matrix_backends;
use crate::products::FORMATS;
use crate::{backends, sound, vector_backends};

/// Rows of prompts and rows that decode in a step.
const STEPS: [(usize, usize); 12] =
    [(2, 0), (8, 0), (41, 0), (70, 0), (0, 2), (0, 3), (0, 8), (0, 41), (1, 1), (1, 40), (41, 1), (67, 13)];

type Buf = <Gpu as Prims>::Buf;

/// A row of its number, always the same.
fn row(number: usize, width: usize) -> Vec<f32> {
    Random(1000 + number as u64).floats(width)
}

/// Rows of these numbers, the last of which decode.
fn upload(gpu: &mut Gpu, width: usize, numbers: &[usize], decoding: usize) -> Buf {
    let values: Vec<f32> = numbers.iter().flat_map(|&number| row(number, width)).collect();
    let mut x = gpu.buffer(numbers.len(), width);
    gpu.upload(&mut x, &values, &Step { tokens: &vec![0; numbers.len()], decoding, ..Step::default() });
    x
}

/// Checks that the first and the last row of each kind, and one between them, come out as alone.
fn check(case: &str, width: usize, mut run: impl FnMut(&[usize], usize) -> Vec<f32>) {
    for (prefill, decoding) in STEPS {
        // Rows of a kind have the same numbers in every step, and other places.
        let mut numbers: Vec<usize> = (0..prefill).rev().chain(100..100 + decoding).collect();
        numbers[..prefill].rotate_left(prefill / 3);
        let all = run(&numbers, decoding);
        assert_eq!(all.len(), numbers.len() * width, "{case}");
        let picked = [0, prefill / 2, prefill.wrapping_sub(1), prefill, prefill + decoding / 2, numbers.len() - 1];
        for at in picked.into_iter().filter(|&at| at < numbers.len()) {
            let alone = run(&numbers[at..=at], usize::from(at >= prefill));
            let company = format!("{case}: row {at} beside {prefill} rows of prompts and {decoding} that decode");
            assert!(bits(&all[at * width..][..width]) == bits(&alone), "{company}");
        }
    }
}

fn weight(gpu: &mut Gpu, tensor: &Tensor) -> <Gpu as Prims>::Weight {
    gpu.weight(tensor.clone()).expect("every format runs")
}

#[test]
fn products_do_not_depend_on_company() {
    let mut gpus = backends();
    let count = gpus.len();
    for (i, (name, gpu)) in gpus.iter_mut().enumerate() {
        // One format on all variants, and every format on one.
        let its = |(j, format): &(usize, Format)| *format == Format::Q4K || j % count == i;
        for (i, format) in FORMATS.iter().copied().enumerate().filter(its) {
            let tensor = Random(i as u64).matrix(format, 37, 512);
            let (w, mut out) = (weight(gpu, &tensor), gpu.buffer(80, 37));
            check(&format!("{name}, {}", tensor.name), 37, |numbers, decoding| {
                let x = upload(gpu, 512, numbers, decoding);
                gpu.matmul(&mut out, &x, &w);
                read(gpu, &out)
            });
        }
        sound(gpu);
    }
}

/// Each step's logits are those of some rows, of one kind or of both.
#[test]
fn logits_do_not_depend_on_company() {
    for (name, mut gpu) in backends().into_iter().step_by(3) {
        let tensor = Random(7).matrix(Format::Q6K, 90, 256);
        let (w, mut out) = (weight(&mut gpu, &tensor), gpu.buffer(80, 90));
        let mut logits = |numbers: &[usize], decoding, outputs: &[u32]| {
            let x = upload(&mut gpu, 256, numbers, decoding);
            let tokens = vec![0; numbers.len()];
            gpu.matmul_rows(&mut out, &x, &w, &Step { tokens: &tokens, outputs, decoding, ..Step::default() });
            read(&mut gpu, &out)
        };
        for (prefill, decoding) in STEPS {
            let numbers: Vec<usize> = (0..prefill + decoding).collect();
            let first = prefill.saturating_sub(1) as u32;
            let outputs: Vec<u32> = (first..numbers.len() as u32).collect();
            for outputs in [&outputs[..], &outputs[..1], &outputs[outputs.len() / 2..]] {
                let all = logits(&numbers, decoding, outputs);
                for (i, &output) in outputs.iter().enumerate() {
                    let at = output as usize;
                    let alone = logits(&numbers[at..=at], usize::from(at >= prefill), &[0]);
                    let case = format!("{name}: row {at} of {prefill} and {decoding}, of {outputs:?}");
                    assert!(bits(&all[i * 90..][..90]) == bits(&alone), "{case}");
                }
            }
        }
    }
}

#[test]
fn products_per_head_do_not_depend_on_company() {
    for (i, (name, mut gpu)) in backends().into_iter().enumerate() {
        let tensor = Random(i as u64).matrix([Format::Q8_0, Format::F16, Format::Q4K][i % 3], 3 * 21, 256);
        let (w, mut out) = (weight(&mut gpu, &tensor), gpu.buffer(80, 63));
        check(&format!("{name}, {}", tensor.name), 63, |numbers, decoding| {
            let x = upload(&mut gpu, 3 * 256, numbers, decoding);
            gpu.matmul_heads(&mut out, &x, &w, 3);
            read(&mut gpu, &out)
        });
        sound(&mut gpu);
    }
}

/// Few experts, which have many choices each, and many.
#[test]
fn experts_do_not_depend_on_company() {
    for (j, (name, mut gpu)) in backends().into_iter().enumerate() {
        for (i, (experts, used)) in [(2, 1), (4, 2), (40, 6)].into_iter().enumerate().filter(|(i, _)| (i + j) % 2 == 0)
        {
            let router =
                Router { experts, used, gate: Gate::SoftmaxOfChosen, groups: (1, 1), normalized: false, scale: 1.0 };
            let format = [Format::Q4K, Format::Q8_0, Format::F16][i];
            let [up, down] = [(33, 256), (40, 256)].map(|(outputs, cols)| {
                let tensor = Random(i as u64).matrix(format, experts * outputs, cols);
                weight(&mut gpu, &tensor)
            });
            let (mut routes, mut wide) = (gpu.routes(80, used), gpu.buffer(80 * used, 33));
            let (mut narrow, mut sum) = (gpu.buffer(80 * used, 40), gpu.buffer(80, 40));
            check(&format!("{name}, {experts} experts, {}", format.name()), used * 33 + 40, |numbers, decoding| {
                let logits = upload(&mut gpu, experts, numbers, decoding);
                gpu.route(&mut routes, &logits, None, router);
                let x = upload(&mut gpu, 256, numbers, decoding);
                gpu.matmul_experts(&mut wide, &x, &up, &routes);
                // A row for each choice.
                let choices: Vec<usize> =
                    numbers.iter().flat_map(|number| (0..used).map(move |i| number * used + i)).collect();
                let x = upload(&mut gpu, 256, &choices, decoding * used);
                gpu.matmul_experts(&mut narrow, &x, &down, &routes);
                gpu.scale_experts(&mut narrow, &routes);
                gpu.sum_experts(&mut sum, &narrow, &routes);
                let (wide, sum) = (read(&mut gpu, &wide), read(&mut gpu, &sum));
                let rows = wide.chunks_exact(used * 33).zip(sum.chunks_exact(40));
                rows.flat_map(|(wide, sum)| [wide, sum].concat()).collect()
            });
        }
        sound(&mut gpu);
    }
}

/// A row of a step: its sequence and its position.
type Place = (u32, u32);

/// Sequences whose keys and values are in a cache.
struct Texts {
    kv: <Gpu as Prims>::Kv,
    heads: Heads,
    sinks: <Gpu as Prims>::Weight,
    table: <Gpu as Prims>::Weight,
}

impl Texts {
    fn new(gpu: &mut Gpu, heads: Heads, (keys, values): (KvFormat, KvFormat), lengths: &[u32]) -> Texts {
        let layer = LayerCache::attention(heads.kv_heads, heads.key_dim, heads.value_dim);
        let context = lengths.iter().copied().max().unwrap_or(1) as usize;
        let plan =
            KvPlan { layers: vec![layer], context, step: context, sequences: lengths.len(), keys, values, pool: None };
        let mut kv = gpu.kv(&plan);
        for (sequence, &len) in (0..).zip(lengths) {
            let places: Vec<Place> = (0..len).map(|position| (sequence, position)).collect();
            let [k, v] = [(heads.key_dim, 1), (heads.value_dim, 2)]
                .map(|(dim, salt)| given(gpu, heads.kv_heads * dim, &places, 0, salt));
            with(&places, 0, |step| gpu.kv_write(&mut kv, 0, &k, &v, step));
        }
        let sinks = gpu.weight(floats(1, heads.heads, &Random(5).floats(heads.heads))).expect("floats run");
        let table = gpu.weight(floats(16, heads.heads, &Random(6).floats(16 * heads.heads))).expect("floats run");
        Texts { kv, heads, sinks, table }
    }

    /// Attention of places, the last of which decode; `extras` has caps and all that.
    fn attended(&self, gpu: &mut Gpu, places: &[Place], decoding: usize, mask: Mask, extras: bool) -> Vec<f32> {
        let heads = self.heads;
        let q = given(gpu, heads.heads * heads.key_dim, places, decoding, 3);
        let mut out = gpu.buffer(places.len(), heads.heads * heads.value_dim);
        let mut attention = Attention { mask, ..Attention::causal(heads) };
        if extras {
            attention.soft_cap = Some(3.0);
            attention.alibi = Some(4.0);
            attention.sinks = Some(&self.sinks);
            attention.relative = Some(Relative { table: &self.table, buckets: 16, most: 50 });
        }
        with(places, decoding, |step| gpu.attend(&mut out, &q, &self.kv, 0, attention, step));
        read(gpu, &out)
    }

    /// Checks that rows of a step, of long prompts every fifth, are as in steps of their own.
    fn check(&self, case: &str, gpu: &mut Gpu, (places, decoding): (&[Place], usize), mask: Mask, extras: bool) {
        let width = self.heads.heads * self.heads.value_dim;
        let all = self.attended(gpu, places, decoding, mask, extras);
        let prefill = places.len() - decoding;
        let picked = |at: usize| at.is_multiple_of(5) || at + 1 >= prefill || prefill < 20;
        for (at, all) in all.chunks_exact(width).enumerate().filter(|(at, _)| picked(*at)) {
            let alone = self.attended(gpu, &places[at..=at], usize::from(at >= prefill), mask, extras);
            let company = format!("{prefill} rows of prompts and {decoding} that decode");
            assert!(bits(all) == bits(&alone), "{case}, {mask:?}, {extras}: {:?} of {company}", places[at]);
        }
    }
}

fn given(gpu: &mut Gpu, width: usize, places: &[Place], decoding: usize, salt: usize) -> Buf {
    let numbers: Vec<usize> =
        places.iter().map(|&(sequence, position)| (sequence * 10_000 + position) as usize * 4 + salt).collect();
    upload(gpu, width, &numbers, decoding)
}

fn with(places: &[Place], decoding: usize, run: impl FnOnce(&Step<'_>)) {
    let (sequences, positions): (Vec<u32>, Vec<u32>) = places.iter().copied().unzip();
    let tokens = vec![0; places.len()];
    run(&Step { tokens: &tokens, positions: &positions, sequences: &sequences, outputs: &[], decoding });
}

fn run(sequence: u32, positions: std::ops::Range<u32>) -> Vec<Place> {
    positions.map(|position| (sequence, position)).collect()
}

/// Steps of a few sequences: a chunk of a prompt, several prompts, single tokens, guesses of one sequence and of
/// several.
fn steps() -> Vec<(Vec<Place>, usize)> {
    let tokens: Vec<Place> = vec![(0, 3), (1, 299), (2, 130), (3, 64)];
    let guesses = run(1, 126..131);
    let many = [run(0, 126..129), run(1, 254..258), run(2, 0..2), run(3, 100..102), run(4, 7..9)].concat();
    let chunk = run(1, 120..161);
    let prompts = [run(0, 0..9), run(2, 90..131)].concat();
    vec![
        (tokens.clone(), 4),
        (guesses.clone(), 5),
        (many.clone(), many.len()),
        (chunk.clone(), 0),
        (prompts.clone(), 0),
        (many.clone(), 0),
        ([&chunk[..], &tokens].concat(), 4),
        ([&prompts[..], &guesses].concat(), 5),
    ]
}

const MASKS: [Mask; 4] = [Mask::Causal, Mask::Window(100), Mask::Window(200), Mask::Chunk(100)];

fn heads((heads, kv_heads, key_dim, value_dim): (usize, usize, usize, usize)) -> Heads {
    Heads { heads, kv_heads, key_dim, value_dim, scale: 1.0 / (key_dim as f32).sqrt() }
}

#[test]
fn attention_does_not_depend_on_company() {
    let formats = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0, KvFormat::Q4_0];
    let shapes = [(4, 2, 32, 32), (3, 3, 32, 64), (20, 1, 64, 32), (1, 1, 96, 32)];
    let gpus = vector_backends();
    let count = gpus.len();
    for (turn, (name, mut gpu)) in gpus.into_iter().chain(matrix_backends()).enumerate() {
        // How maxima are found and how a cache keeps numbers do not meet, so each device takes its turn. Matrices are of halves.
        let matrices = gpu.variant().cooperative.is_some();
        let its = |(i, (format, _)): &(usize, (KvFormat, _))| match matrices {
            true => *format == KvFormat::F16,
            false => (i + turn) % count == 0,
        };
        for (i, (format, shape)) in formats.into_iter().zip(shapes).enumerate().filter(its) {
            let texts =
                Texts::new(&mut gpu, heads(shape), (format, formats[(i + i / 2) % 4]), &[130, 300, 131, 110, 9]);
            for (j, (places, decoding)) in steps().into_iter().enumerate() {
                let case = format!("{name}, {format:?}, step {j}");
                let mask = MASKS[(i + j) % 4];
                texts.check(&case, &mut gpu, (&places, decoding), mask, (i + j / 2) % 2 == 1);
                texts.check(&case, &mut gpu, (&places, decoding), Mask::Causal, false);
            }
        }
        sound(&mut gpu);
    }
}

/// A cache of one sequence has no pages; positions of prompts are parted, too, where they are many.
#[test]
fn attention_to_many_positions_does_not_depend_on_company() {
    for (name, mut gpu) in vector_backends().into_iter().chain(matrix_backends()) {
        let values = if gpu.variant().cooperative.is_some() { KvFormat::F16 } else { KvFormat::F32 };
        let texts = Texts::new(&mut gpu, heads((2, 1, 16, 16)), (KvFormat::F16, values), &[4200]);
        for mask in [Mask::Causal, Mask::Window(2500), Mask::Window(300)] {
            let chunk = [run(0, 2040..2070), run(0, 4090..4104)].concat();
            let mixed = [&chunk[..], &run(0, 2046..2050), &run(0, 4095..4098)].concat();
            for (places, decoding) in [(run(0, 4094..4098), 4), (chunk, 0), (mixed, 7)] {
                texts.check(&name, &mut gpu, (&places, decoding), mask, decoding == 7);
            }
        }
        sound(&mut gpu);
    }
}

/// Rows of texts that are read from both sides need all of their own sequence, and nothing of others.
#[test]
fn whole_texts_do_not_depend_on_company() {
    for (name, mut gpu) in vector_backends() {
        let texts = Texts::new(&mut gpu, heads((4, 2, 32, 32)), (KvFormat::F32, KvFormat::F16), &[70, 150, 5]);
        let width = 4 * 32;
        for mask in [Mask::Whole, Mask::Around(40)] {
            let own: Vec<_> = [(0, 70), (1, 150), (2, 5)]
                .map(|(sequence, len)| texts.attended(&mut gpu, &run(sequence, 0..len), 0, mask, true))
                .into();
            let places = [run(1, 0..150), run(2, 0..5), run(0, 0..70)].concat();
            let all = texts.attended(&mut gpu, &places, 0, mask, true);
            for (all, &(sequence, position)) in all.chunks_exact(width).zip(&places) {
                let own = &own[sequence as usize][position as usize * width..][..width];
                assert!(bits(all) == bits(own), "{name}, {mask:?}: {position} of {sequence}");
            }
        }
        sound(&mut gpu);
    }
}
