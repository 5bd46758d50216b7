//! What a kernel leaves rounded beside its rows is what rounding those rows gives, and is used until something else is
//! written to them.

use candor_gpu::{Gpu, Variant};
use candor_ops::{Attention, Columns, Heads, KvFormat, KvPlan, LayerCache, Norm, NormKind, Ops, Prims, Step, Unary};
use candor_quant::Format;
use candor_testing::backend::{Random, bits, floats, read};

use crate::{backends, sound};

type Buf = <Gpu as Prims>::Buf;

fn upload(gpu: &mut Gpu, width: usize, values: &[f32], decoding: usize) -> Buf {
    let rows = values.len() / width;
    let mut x = gpu.buffer(rows, width);
    gpu.upload(&mut x, values, &Step { tokens: &vec![0; rows], decoding, ..Step::default() });
    x
}

/// The product of a buffer's rows, and the dispatches that it took.
fn product(gpu: &mut Gpu, x: &Buf, w: &<Gpu as Prims>::Weight, rows: usize) -> (Vec<u32>, u64) {
    let mut out = gpu.buffer(rows, 37);
    let before = gpu.counters().dispatches;
    gpu.matmul(&mut out, x, w);
    let dispatches = gpu.counters().dispatches - before;
    (bits(&read(gpu, &out)), dispatches)
}

/// Checks that a buffer's product is that of its rows where nobody has rounded them before, and how many dispatches less it
/// takes.
fn check(gpu: &mut Gpu, case: &str, x: &Buf, (width, decoding): (usize, usize), fewer: u64) {
    let w = gpu.weight(Random(5).matrix(Format::Q4_0, 37, width)).expect("Q4_0 runs");
    let values = read(gpu, x);
    let rows = values.len() / width;
    let (got, dispatches) = product(gpu, x, &w, rows);
    let plain = upload(gpu, width, &values, decoding);
    let (expected, all) = product(gpu, &plain, &w, rows);
    assert!(got == expected, "{case}, {rows} rows of {width}");
    assert_eq!(all - dispatches, fewer, "{case}, {rows} rows of {width}");
}

/// Those that round, whose prompts are multiplied as bytes and as something else.
fn rounding() -> impl Iterator<Item = (String, Gpu)> {
    backends().into_iter().filter(|(_, gpu)| gpu.variant().int8_dot)
}

#[test]
fn norms_and_gates_leave_rows_as_rounding_them_does() {
    for (name, mut gpu) in rounding() {
        // Blocks that fill a workgroup, and that do not; a row that ends in the middle of a block of the device's.
        for (width, rows) in [(32, 1), (256, 3), (1056, 2), (2080, 9)] {
            let mut random = Random(width as u64);
            let w = gpu.weight(floats(1, width, &random.floats(width))).expect("floats run");
            let mut values = random.floats(rows * width);
            values[..32].fill(0.0);
            let (x, y) = (upload(&mut gpu, width, &values, rows), random.floats(rows * width));
            let mut h = gpu.buffer(rows, width);
            gpu.rms_norm(&mut h, &x, &w, 1e-5);
            check(&mut gpu, &format!("{name}, rms_norm"), &h, (width, rows), 1);
            // Again, to the place that was there.
            gpu.rms_norm(&mut h, &x, &w, 1e-2);
            check(&mut gpu, &format!("{name}, rms_norm again"), &h, (width, rows), 1);
            let up = upload(&mut gpu, width, &y, rows);
            gpu.swiglu(&mut h, &up);
            check(&mut gpu, &format!("{name}, swiglu"), &h, (width, rows), 1);
        }
        sound(&mut gpu);
    }
}

#[test]
fn what_is_not_finite_stays_so() {
    for (name, mut gpu) in rounding() {
        for wrong in [f32::INFINITY, f32::NAN] {
            let mut values = Random(3).floats(128);
            values[70] = wrong;
            let mut gate = upload(&mut gpu, 128, &values, 1);
            let up = upload(&mut gpu, 128, &[1.0; 128], 1);
            gpu.swiglu(&mut gate, &up);
            let w = gpu.weight(Random(5).matrix(Format::Q4_0, 37, 128)).expect("Q4_0 runs");
            let (got, _) = product(&mut gpu, &gate, &w, 1);
            assert!(got.iter().all(|&bits| f32::from_bits(bits).is_nan()), "{name}: {got:?}");
        }
        sound(&mut gpu);
    }
}

/// Positions of one span and of several, whose parts are merged.
#[test]
fn attention_leaves_rows_as_rounding_them_does() {
    const CONTEXT: usize = 300;
    for (name, mut gpu) in rounding() {
        // The last has heads that end in the middle of a block.
        for (heads, kv_heads, dim, fewer) in [(4, 2, 64, 1), (20, 2, 32, 1), (3, 3, 96, 1), (2, 1, 48, 0)] {
            let heads = Heads { heads, kv_heads, key_dim: dim, value_dim: dim, scale: 0.125 };
            let layers = vec![LayerCache::attention(kv_heads, dim, dim)];
            let (keys, values) = (KvFormat::F16, KvFormat::F16);
            let mut kv =
                gpu.kv(&KvPlan { layers, context: CONTEXT, step: CONTEXT, sequences: 2, pool: None, keys, values });
            let mut random = Random(dim as u64);
            for sequence in 0..2 {
                let [k, v] =
                    [0, 1].map(|_| upload(&mut gpu, kv_heads * dim, &random.floats(CONTEXT * kv_heads * dim), 0));
                let (tokens, sequences) = (vec![0; CONTEXT], vec![sequence; CONTEXT]);
                let positions: Vec<u32> = (0..CONTEXT as u32).collect();
                let step =
                    Step { tokens: &tokens, positions: &positions, sequences: &sequences, outputs: &[], decoding: 0 };
                gpu.kv_write(&mut kv, 0, &k, &v, &step);
            }
            let width = heads.heads * dim;
            let rows: [&[(u32, u32)]; 5] = [
                &[(0, 60)],
                &[(1, 299)],
                &[(0, 7), (1, 100)],
                &[(0, 7), (0, 8), (0, 9)],
                &[(0, 298), (0, 299), (1, 3)],
            ];
            for rows in rows {
                let (sequences, positions): (Vec<u32>, Vec<u32>) = rows.iter().copied().unzip();
                let q = upload(&mut gpu, width, &random.floats(rows.len() * width), rows.len());
                let mut out = gpu.buffer(rows.len(), width);
                let tokens = vec![0; rows.len()];
                let step = Step {
                    tokens: &tokens,
                    positions: &positions,
                    sequences: &sequences,
                    outputs: &[],
                    decoding: rows.len(),
                };
                gpu.attend(&mut out, &q, &kv, 0, Attention::causal(heads), &step);
                check(&mut gpu, &format!("{name}, attend {rows:?}"), &out, (width, rows.len()), fewer);
            }
        }
        sound(&mut gpu);
    }
}

#[test]
fn whatever_writes_to_rows_makes_them_be_rounded_again() {
    const WIDTH: usize = 128;
    type Write = (&'static str, fn(&mut Gpu, &mut Buf, &Buf));
    let writes: &[Write] = &[
        ("add", |gpu, h, y| gpu.add(h, y)),
        ("mul", |gpu, h, y| gpu.mul(h, y)),
        ("unary", |gpu, h, _| gpu.unary(h, Unary::Gelu)),
        ("copy", |gpu, h, y| gpu.copy(h, y, Columns::run(32, 0, 64))),
        ("norm", |gpu, h, _| gpu.norm(h, Norm { kind: NormKind::Layer, run: WIDTH, eps: 1e-5 }, None, None)),
        ("mul_groups", |gpu, h, y| gpu.mul_groups(h, y)),
        ("upload", |gpu, h, _| {
            let values = Random(77).floats(2 * WIDTH);
            gpu.upload(h, &values, &Step { tokens: &[0; 2], decoding: 2, ..Step::default() });
        }),
        ("matmul", |gpu, h, y| {
            let w = gpu.weight(Random(6).matrix(Format::F16, WIDTH, WIDTH)).expect("F16 runs");
            gpu.matmul(h, y, &w);
        }),
    ];
    for (name, mut gpu) in rounding() {
        let mut random = Random(8);
        let w = gpu.weight(floats(1, WIDTH, &random.floats(WIDTH))).expect("floats run");
        let [x, y] = [0, 1].map(|_| upload(&mut gpu, WIDTH, &random.floats(2 * WIDTH), 2));
        let mut h = gpu.buffer(2, WIDTH);
        for (what, write) in writes {
            gpu.rms_norm(&mut h, &x, &w, 1e-5);
            write(&mut gpu, &mut h, &y);
            check(&mut gpu, &format!("{name}, {what}"), &h, (WIDTH, 2), 0);
        }
        sound(&mut gpu);
    }
}

/// Only what will be multiplied as bytes is rounded.
#[test]
fn rows_of_prompts_and_exact_ones_are_not_rounded() {
    const WIDTH: usize = 128;
    for (name, mut gpu) in backends() {
        let w = gpu.weight(floats(1, WIDTH, &[1.0; WIDTH])).expect("floats run");
        let mut h = gpu.buffer(3, WIDTH);
        for (seed, decoding) in [3, 0, 3, 1, 3].into_iter().enumerate() {
            let x = upload(&mut gpu, WIDTH, &Random(seed as u64).floats(3 * WIDTH), decoding);
            gpu.rms_norm(&mut h, &x, &w, 1e-5);
            let Variant { int8_dot, .. } = gpu.variant();
            check(&mut gpu, &name, &h, (WIDTH, decoding), u64::from(int8_dot && decoding == 3));
        }
        sound(&mut gpu);
    }
}
