//! Fusions against their definitions, and sessions that share threads and weights.

use candor_cpu::{Cpu, CpuOptions};
use candor_ops::{Ops, Plain, Prims, Tensor};
use candor_quant::Format;

use crate::random::Random;
use crate::{backends, bits, read, upload};

/// Formats with 8-bit inputs, with float inputs, and without a kernel.
const MIXES: &[[Format; 3]] = &[
    [Format::Q4K, Format::Q6K, Format::Q8_0],
    [Format::F16, Format::Q4_0, Format::F32],
    [Format::Iq2Xs, Format::F16, Format::Q5K],
];

const WIDTH: usize = 256;
const HEIGHTS: [usize; 3] = [300, 64, 33];

/// A feed-forward block and three projections: every fusion's result.
fn all_fusions<B: Ops>(ops: &mut B, mix: [Format; 3], rows: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut random = Random(seed);
    let mut weight = |ops: &mut B, format, rows, cols| {
        let tensor: Tensor = random.matrix(format, rows, cols);
        ops.weight(tensor).expect("every format runs")
    };
    let [a, b, c] = [0, 1, 2].map(|i| weight(ops, mix[i], HEIGHTS[i], WIDTH));
    let [gate, up, down] = [0, 1, 2].map(|i| weight(ops, mix[i], WIDTH, WIDTH));
    let x = upload(ops, WIDTH, &random.floats(rows * WIDTH));
    let mut out = HEIGHTS.map(|height| ops.buffer(rows, height));
    let [out_a, out_b, out_c] = &mut out;
    ops.matmul3((out_a, &a), (out_b, &b), (out_c, &c), &x);
    let mut results: Vec<Vec<f32>> = out.iter().map(|out| read(ops, out)).collect();
    let (mut g, mut u) = (ops.buffer(rows, WIDTH), ops.buffer(rows, WIDTH));
    ops.matmul2((&mut g, &gate), (&mut u, &up), &x);
    ops.swiglu(&mut g, &u);
    results.push(read(ops, &g));
    let (mut residual, mut product) = (upload(ops, WIDTH, &random.floats(rows * WIDTH)), ops.buffer(rows, WIDTH));
    ops.matmul_add(&mut residual, &g, &down, &mut product);
    results.push(read(ops, &residual));
    results
}

#[test]
fn fusions_are_their_definitions_to_the_bit() {
    for (i, &mix) in MIXES.iter().enumerate() {
        for rows in [1, 2, 7, 33] {
            for (name, cpu) in backends() {
                let plain = all_fusions(&mut Plain(cpu.clone()), mix, rows, i as u64);
                let fused = all_fusions(&mut cpu.clone(), mix, rows, i as u64);
                for (which, (plain, fused)) in plain.iter().zip(&fused).enumerate() {
                    assert!(plain.iter().all(|v| v.is_finite()));
                    assert_eq!(bits(plain), bits(fused), "{name}, {mix:?}, {rows} rows, result {which}");
                }
            }
        }
    }
}

#[test]
fn sessions_share_threads_and_weights() {
    let cpu = Cpu::new(CpuOptions { threads: 3, ..CpuOptions::default() });
    let mut random = Random(11);
    let tensor = random.matrix(Format::Q4K, 128, WIDTH);
    let w = cpu.clone().weight(tensor).expect("Q4_K runs");
    let inputs: Vec<Vec<f32>> = (0..4).map(|i| random.floats((i + 1) * WIDTH)).collect();
    let multiply = |cpu: &mut Cpu, x: &[f32]| {
        let x = upload(cpu, WIDTH, x);
        let mut out = cpu.buffer(4, 128);
        cpu.matmul(&mut out, &x, &w);
        read(cpu, &out)
    };
    let want: Vec<Vec<f32>> = inputs.iter().map(|x| multiply(&mut cpu.clone(), x)).collect();
    std::thread::scope(|scope| {
        for (x, want) in inputs.iter().zip(&want) {
            let mut cpu = cpu.clone();
            scope.spawn(move || (0..200).for_each(|_| assert_eq!(&multiply(&mut cpu, x), want)));
        }
    });
}
