//! Matrix products of every format.

use std::collections::HashMap;

use candor_kernels::{Kernels, Q8RowMut};
use candor_ops::{Prims, Reference, Step, Tensor};
use candor_quant::Format;
use candor_testing::backend::products::{SHAPES, embedded, product};
use candor_testing::backend::{Random, bits, read, upload};
use candor_testing::nmse;

use crate::backends;

/// The inputs as a kernel for 8-bit blocks sees them.
pub(crate) fn rounded(x: &[f32]) -> Vec<f32> {
    let (mut quants, mut scales, mut sums) = (vec![0; x.len()], vec![0.0; x.len() / 32], vec![0; x.len() / 16]);
    let out = Q8RowMut { quants: &mut quants, scales: &mut scales, sums: &mut sums };
    (Kernels::scalar().f32.quantize_q8)(out, x);
    quants.iter().enumerate().map(|(i, &q)| f32::from(q) * scales[i / 32]).collect()
}

fn check(tensor: &Tensor, rows: usize, seed: u64) {
    let x = Random(seed).floats(rows * tensor.cols);
    let mut first: HashMap<&str, Vec<f32>> = HashMap::new();
    for (name, mut cpu) in backends() {
        let case = format!("{}, {rows} rows, {name}, seed {seed}", tensor.name);
        let got = product(&mut cpu, tensor, &x);
        let first = first.entry(cpu.kernels().name).or_insert_with(|| {
            let q8 = tensor.rows > 1 && (cpu.kernels().mat)(tensor.format).is_some_and(|kernels| kernels.q8);
            let seen = if q8 { rounded(&x) } else { x.clone() };
            let error = nmse(&got, &product(&mut Reference, tensor, &seen));
            assert!(error < 1e-11, "{case}: {error}");
            if q8 {
                // What rounding to 8 bits may cost.
                let error = nmse(&got, &product(&mut Reference, tensor, &x));
                assert!(error < 3e-3, "{case}: {error} against exact inputs");
            }
            got.clone()
        });
        assert_eq!(bits(first), bits(&got), "{case}: unlike one thread");
        for t in [0, rows / 2, rows - 1] {
            let alone = product(&mut cpu, tensor, &x[t * tensor.cols..][..tensor.cols]);
            assert_eq!(bits(&alone), bits(&got[t * tensor.rows..][..tensor.rows]), "{case}: row {t} alone");
        }
    }
}

#[test]
fn every_format_multiplies() {
    for (i, &format) in Format::ALL.iter().enumerate() {
        for (j, &(inputs, blocks, outputs)) in SHAPES.iter().enumerate() {
            let seed = (i * SHAPES.len() + j) as u64;
            check(&Random(seed).matrix(format, outputs, blocks * 256), inputs, seed);
        }
    }
}

#[test]
fn short_and_odd_rows_multiply() {
    for (i, &format) in Format::ALL.iter().filter(|format| format.block_len() < 256).enumerate() {
        for (j, cols) in [1, 3, 31, 33, 77].into_iter().enumerate() {
            let (seed, cols) = ((i * 5 + j) as u64, cols * format.block_len());
            check(&Random(seed).matrix(format, 37, cols), 3, seed);
        }
    }
}

#[test]
fn only_the_rows_asked_for_are_multiplied() {
    let (mut random, width) = (Random(5), 256);
    let (tensor, x) = (random.matrix(Format::Q4K, 40, width), random.floats(5 * width));
    for (name, mut cpu) in backends() {
        let w = cpu.weight(tensor.clone()).expect("Q4_K runs");
        let x = upload(&mut cpu, width, &x);
        let (mut all, mut some) = (cpu.buffer(5, 40), cpu.buffer(5, 40));
        cpu.matmul(&mut all, &x, &w);
        let all = read(&mut cpu, &all);
        for outputs in [&[1, 4][..], &[0], &[], &[0, 1, 2, 3, 4]] {
            cpu.matmul_rows(
                &mut some,
                &x,
                &w,
                &Step { tokens: &[], positions: &[], sequences: &[], outputs, decoding: 0 },
            );
            let want: Vec<f32> = outputs.iter().flat_map(|&t| &all[t as usize * 40..][..40]).copied().collect();
            assert_eq!(read(&mut cpu, &some), want, "{name}, rows {outputs:?}");
        }
    }
}

#[test]
fn embed_decodes_rows_of_every_format() {
    for (i, &format) in Format::ALL.iter().enumerate() {
        let table = Random(i as u64).matrix(format, 9, 512);
        let step = Step { tokens: &[8, 0, 3, 8], positions: &[0; 4], sequences: &[0; 4], outputs: &[], decoding: 0 };
        let mut cpu = backends().next().expect("there is a scalar table").1;
        let (got, want) = (embedded(&mut cpu, &table, &step), embedded(&mut Reference, &table, &step));
        assert_eq!(bits(&got), bits(&want), "{}", format.name());
    }
}
