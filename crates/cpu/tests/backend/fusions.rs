//! Fusions against their definitions, and sessions that share threads and weights.

use candor_cpu::{Cpu, CpuOptions};
use candor_ops::{Plain, Prims};
use candor_quant::Format;
use candor_testing::backend::fusions::{WIDTH, all_fusions};
use candor_testing::backend::{Random, bits, read, upload};

use crate::backends;

/// Formats with 8-bit inputs, with float inputs, and without a kernel.
const MIXES: &[[Format; 3]] = &[
    [Format::Q4K, Format::Q6K, Format::Q8_0],
    [Format::F16, Format::Q4_0, Format::F32],
    [Format::Iq2Xs, Format::F16, Format::Q5K],
];

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
