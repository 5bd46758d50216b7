//! Products of many inputs by an instruction set with batch kernels: one made up for these tests, which multiplies
//! inputs that are not rounded, so that its results tell it from the row kernels.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use candor_cpu::{Batching, Buf, Cpu, CpuOptions};
use candor_kernels::{BatchKernels, BatchTask, Emit, Form, Kernels, Line, Packing};
use candor_ops::{Gate, Ops, Plain, Prims, Reference, Router, Step, Tensor};
use candor_quant::Format;
use candor_testing::backend::experts::{Case, products};
use candor_testing::backend::{Random, bits, read, upload};
use candor_testing::nmse;

/// Inputs from which on batch kernels are used.
pub(crate) const LEAST: usize = 6;

/// The row kernels of the scalar table, and batch kernels for three formats. BF16 and F32 have none.
pub(crate) static TABLE: LazyLock<Kernels> = LazyLock::new(|| {
    let Kernels { f32, mat, attention, probe, exact, .. } = *Kernels::scalar();
    Kernels { name: "made up", f32, mat, attention, batch, probe, exact }
});

/// The first input of the test that counts pieces.
const WATCHED: f32 = 0.123_456_7;
/// Pieces that were packed of its inputs, by form.
static PACKED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

fn batch(format: Format) -> Option<BatchKernels> {
    static SMALL: Packing =
        Packing { form: Form::Bf16, inputs: 3, cols: 64, lines: 12, pack: pack::<3, 64, 0>, gate: None };
    static LARGE: Packing =
        Packing { form: Form::TwoBf16, inputs: 5, cols: 96, lines: 30, pack: pack::<5, 96, 1>, gate: None };
    let scratch = |rows: usize, _: usize| rows.div_ceil(16);
    let kernels = |packing, mat| Some(BatchKernels { least: LEAST, packing, scratch, mat, sums: None });
    match format {
        Format::Q4K => kernels(&SMALL, |task, emit| mat(task, emit, Format::Q4K, &SMALL)),
        Format::Q8_0 => kernels(&SMALL, |task, emit| mat(task, emit, Format::Q8_0, &SMALL)),
        Format::Iq2Xs => kernels(&LARGE, |task, emit| mat(task, emit, Format::Iq2Xs, &LARGE)),
        _ => None,
    }
}

fn pack<const INPUTS: usize, const COLS: usize, const FORM: usize>(
    piece: &mut [Line],
    x: &[f32],
    cols: usize,
    index: usize,
) {
    if x[0] == WATCHED {
        PACKED[FORM].fetch_add(1, Ordering::Relaxed);
    }
    assert_eq!(piece.len(), INPUTS * COLS / 16);
    let blocks = (x.len() / cols).div_ceil(INPUTS);
    let rows = x.chunks_exact(cols).skip(index % blocks * INPUTS).take(INPUTS);
    for (row, lines) in rows.zip(piece.chunks_exact_mut(COLS / 16)) {
        for (i, value) in row[index / blocks * COLS..].iter().take(COLS).enumerate() {
            lines[i / 16].0[i % 16] = value.to_bits();
        }
    }
}

fn mat(task: BatchTask<'_>, emit: &mut Emit<'_>, format: Format, packing: &Packing) {
    let BatchTask { w, rows, cols, inputs, x, scratch } = task;
    assert!(scratch.len() >= rows.div_ceil(16) && x.len() == packing.room(inputs, cols));
    let mut decoded = vec![0.0; rows * cols];
    for (row, out) in w.chunks_exact(w.len() / rows).zip(decoded.chunks_exact_mut(cols)) {
        format.decode(row, out);
    }
    let blocks = inputs.div_ceil(packing.inputs);
    for t in 0..inputs {
        let input = |column: usize| {
            let piece = column / packing.cols * blocks + t / packing.inputs;
            let line = piece * packing.lines + t % packing.inputs * (packing.cols / 16) + column % packing.cols / 16;
            f32::from_bits(x[line].0[column % packing.cols % 16])
        };
        let x: Vec<f32> = (0..cols).map(input).collect();
        let products = decoded.chunks_exact(cols).map(|w| (Kernels::scalar().f32.dot)(w, &x));
        emit(t, &products.collect::<Vec<f32>>());
    }
}

fn cpu(threads: usize, batching: Batching) -> Cpu {
    Cpu::new(CpuOptions { threads, kernels: &TABLE, batching, ..CpuOptions::default() })
}

fn product<B: Prims>(ops: &mut B, tensor: &Tensor, x: &[f32]) -> Vec<f32> {
    let w = ops.weight(tensor.clone()).expect("every format runs");
    let x = upload(ops, tensor.cols, x);
    let mut out = ops.buffer(2000, tensor.rows);
    ops.matmul(&mut out, &x, &w);
    read(ops, &out)
}

#[test]
fn many_inputs_go_to_batch_kernels_and_few_do_not() {
    for format in [Format::Q4K, Format::Q8_0, Format::Iq2Xs, Format::Bf16] {
        for (inputs, rows) in [(1, 40), (5, 40), (6, 300), (33, 129), (512, 70), (513, 33), (1100, 5)] {
            let (cols, seed) = (512, inputs as u64);
            let tensor = Random(seed).matrix(format, rows, cols);
            let x = Random(seed + 1).floats(inputs * cols);
            let exact = product(&mut Reference, &tensor, &x);
            let row_kernels = product(&mut cpu(1, Batching::Invariant), &tensor, &x);
            for threads in [1, 2, 5] {
                let case = format!("{format:?}, {inputs} inputs, {threads} threads");
                let fastest = product(&mut cpu(threads, Batching::Fastest), &tensor, &x);
                let invariant = product(&mut cpu(threads, Batching::Invariant), &tensor, &x);
                assert_eq!(bits(&invariant), bits(&row_kernels), "{case}");
                assert!(nmse(&row_kernels, &exact) < 3e-3, "{case}");
                if inputs < LEAST || format == Format::Bf16 {
                    assert_eq!(bits(&fastest), bits(&row_kernels), "{case}");
                } else {
                    let error = nmse(&fastest, &exact);
                    assert!(error < 1e-11, "{case}: {error}");
                    // Only formats whose row kernels round inputs give themselves away.
                    let rounded = nmse(&row_kernels, &exact) > 1e-7;
                    assert!(rounded || format == Format::Iq2Xs, "{case}");
                }
            }
        }
    }
}

/// Two experts of many rows each, and a product per head of many rows, go to batch kernels too.
#[test]
fn experts_of_many_rows_go_to_batch_kernels() {
    let router = Router { experts: 2, used: 2, gate: Gate::Softmax, groups: (1, 1), normalized: false, scale: 1.0 };
    let (cols, outputs) = (512, 40);
    for rows in [LEAST - 1, LEAST, 530] {
        let case = Case { router, rows, bias: false, steps: 0.0, seed: 3 };
        let mut random = Random(rows as u64);
        let tensor = random.matrix(Format::Q4K, router.experts * outputs, cols);
        for inputs in [rows, rows * router.used] {
            let x = random.floats(inputs * cols);
            let exact = products(&mut Reference, &case, &tensor, &x);
            for threads in [1, 3] {
                let case_name = format!("{inputs} inputs of {rows} rows, {threads} threads");
                let fastest = nmse(&products(&mut cpu(threads, Batching::Fastest), &case, &tensor, &x), &exact);
                let invariant = nmse(&products(&mut cpu(threads, Batching::Invariant), &case, &tensor, &x), &exact);
                assert!(invariant > 1e-7 && invariant < 3e-3, "{case_name}: {invariant}");
                assert!(if rows < LEAST { fastest == invariant } else { fastest < 1e-11 }, "{case_name}: {fastest}");
            }
        }
    }
}

/// Kernels of all kinds in one product, each with its own form of the inputs; sums, too.
#[test]
fn parts_of_a_product_may_differ() {
    let (formats, width, rows) = ([Format::Q4K, Format::Bf16, Format::Iq2Xs], 512, 40);
    let mut random = Random(7);
    let tensors = formats.map(|format| random.matrix(format, width, width));
    let (x, residual) = (random.floats(rows * width), random.floats(rows * width));
    let exact = all(&mut Reference, &tensors, &x, &residual);
    let plain = all(&mut Plain(cpu(1, Batching::Fastest)), &tensors, &x, &residual);
    for threads in [1, 3] {
        let fused = all(&mut cpu(threads, Batching::Fastest), &tensors, &x, &residual);
        for (i, ((fused, plain), exact)) in fused.iter().zip(&plain).zip(&exact).enumerate() {
            assert_eq!(bits(fused), bits(plain), "result {i}, {threads} threads");
            let error = nmse(fused, exact);
            assert!(error < 1e-11, "result {i}: {error}");
        }
    }
}

#[test]
fn inputs_are_packed_once_for_all_that_share_them() {
    let (rows, width) = (40, 512);
    let mut random = Random(8);
    let mut ops = cpu(3, Batching::Fastest);
    let [a, b, c] = [Format::Q4K, Format::Iq2Xs, Format::Q8_0]
        .map(|format| ops.weight(random.matrix(format, 70, width)).expect("every format runs"));
    let mut x = random.floats(rows * width);
    x[0] = WATCHED;
    let x = upload(&mut ops, width, &x);
    let mut out = [0; 3].map(|_| ops.buffer(rows, 70));
    let [out_a, out_b, out_c] = &mut out;
    ops.matmul3((out_a, &a), (out_b, &b), (out_c, &c), &x);
    let packed = PACKED.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert_eq!(packed, [rows.div_ceil(3) * width / 64, rows.div_ceil(5) * width.div_ceil(96)]);
}

fn all<B: Ops>(ops: &mut B, tensors: &[Tensor; 3], x: &[f32], residual: &[f32]) -> Vec<Vec<f32>> {
    let width = tensors[0].cols;
    let rows = x.len() / width;
    let [a, b, c] = tensors.each_ref().map(|tensor| ops.weight(tensor.clone()).expect("every format runs"));
    let mut out = [0; 3].map(|_| ops.buffer(rows, width));
    let (x, mut sum) = (upload(ops, width, x), upload(ops, width, residual));
    let [out_a, out_b, out_c] = &mut out;
    ops.matmul3((out_a, &a), (out_b, &b), (out_c, &c), &x);
    let mut results: Vec<Vec<f32>> = out.iter().map(|out| read(ops, out)).collect();
    let mut product = ops.buffer(rows, width);
    ops.matmul_add(&mut sum, &x, &c, &mut product);
    results.push(read(ops, &sum));
    results
}

/// Rows of a step of which the last `decoding` decode.
fn rows(ops: &mut Cpu, cols: usize, values: &[f32], decoding: usize) -> Buf {
    let count = values.len() / cols;
    let mut x = ops.buffer(count, cols);
    ops.upload(&mut x, values, &Step { tokens: &vec![0; count], decoding, ..Step::default() });
    x
}

/// Products, heads and outputs of rows of both kinds have the bits that each row has alone.
#[test]
fn a_row_has_the_kernels_of_its_role() {
    let (cols, outputs) = (512, 96);
    let kernels = std::iter::once(&*TABLE).chain(Kernels::all());
    for kernels in kernels {
        for format in [Format::Q4K, Format::Q8_0, Format::F16, Format::F32, Format::Bf16, Format::Iq2Xs] {
            let tensor = Random(1).matrix(format, outputs, cols);
            let product = |threads, values: &[f32], decoding| {
                let mut ops = Cpu::new(CpuOptions { threads, kernels, ..CpuOptions::default() });
                let w = ops.weight(tensor.clone()).expect("every format runs");
                let x = rows(&mut ops, cols, values, decoding);
                let count = values.len() / cols;
                let mut all = Vec::new();
                let mut out = ops.buffer(count, outputs);
                ops.matmul(&mut out, &x, &w);
                all.push(read(&mut ops, &out));
                let chosen: Vec<u32> = (0..count as u32).collect();
                ops.matmul_rows(&mut out, &x, &w, &Step { outputs: &chosen, ..Step::default() });
                all.push(read(&mut ops, &out));
                let heads: Vec<f32> = values.iter().flat_map(|x| [*x, x + 1.0]).collect();
                let x = rows(&mut ops, 2 * cols, &heads, decoding);
                let w = ops.weight(tensor.clone()).expect("every format runs");
                let mut out = ops.buffer(count, outputs);
                ops.matmul_heads(&mut out, &x, &w, 2);
                all.push(read(&mut ops, &out));
                all
            };
            let x = Random(2).floats(60 * cols);
            let alone = |row: usize, decoding| product(1, &x[row * cols..][..cols], decoding);
            for (prefill, decoding) in [(1, 0), (0, 1), (1, 1), (25, 0), (0, 33), (3, 2), (21, 1), (1, 40), (20, 40)] {
                let together = product(2, &x[..(prefill + decoding) * cols], decoding);
                for row in [0, prefill.saturating_sub(1), prefill.min(prefill + decoding - 1), prefill + decoding - 1] {
                    let expected = alone(row, usize::from(row >= prefill));
                    for (operation, (all, one)) in together.iter().zip(&expected).enumerate() {
                        let got = &all[row * outputs..][..outputs];
                        let case = format!("{}, {format:?}, {prefill} and {decoding}, row {row}", kernels.name);
                        assert_eq!(bits(got), bits(one), "{case}, operation {operation}");
                    }
                }
            }
        }
    }
}

/// The same of experts, whose rows are brought together by expert.
#[test]
fn a_row_of_an_expert_has_the_kernels_of_its_role() {
    let router = Router { experts: 3, used: 2, gate: Gate::Softmax, groups: (1, 1), normalized: false, scale: 1.0 };
    let (cols, outputs) = (512, 40);
    for kernels in std::iter::once(&*TABLE).chain(Kernels::all()) {
        let tensor = Random(1).matrix(Format::Q4K, router.experts * outputs, cols);
        let (x, logits) = (Random(2).floats(70 * cols), Random(3).floats(70 * router.experts));
        let product = |threads, rows_of: std::ops::Range<usize>, decoding| {
            let mut ops = Cpu::new(CpuOptions { threads, kernels, ..CpuOptions::default() });
            let count = rows_of.len();
            let logits = &logits[rows_of.start * router.experts..rows_of.end * router.experts];
            let logits = rows(&mut ops, router.experts, logits, decoding);
            let mut routes = ops.routes(count, router.used);
            ops.route(&mut routes, &logits, None, router);
            let w = ops.weight(tensor.clone()).expect("every format runs");
            let x = rows(&mut ops, cols, &x[rows_of.start * cols..rows_of.end * cols], decoding);
            let mut out = ops.buffer(count * router.used, outputs);
            ops.matmul_experts(&mut out, &x, &w, &routes);
            read(&mut ops, &out)
        };
        for (prefill, decoding) in [(1, 0), (0, 1), (40, 0), (0, 40), (30, 40), (1, 1)] {
            let together = product(2, 0..prefill + decoding, decoding);
            for row in [0, prefill.min(prefill + decoding - 1), prefill + decoding - 1] {
                let one = product(1, row..row + 1, usize::from(row >= prefill));
                let got = &together[row * router.used * outputs..][..router.used * outputs];
                assert_eq!(bits(got), bits(&one), "{}: {prefill} and {decoding}, row {row}", kernels.name);
            }
        }
    }
}
