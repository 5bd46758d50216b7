//! Fusions against their definitions.

use candor_ops::Plain;
use candor_quant::Format;
use candor_testing::backend::fusions::all_fusions;
use candor_testing::nmse;

use crate::{backends, differs, of_kind, sound};

const MIXES: &[[Format; 3]] = &[
    [Format::Q4K, Format::Q6K, Format::Q8_0],
    [Format::F16, Format::Q4_0, Format::F32],
    [Format::Mxfp4, Format::Iq4Xs, Format::Q5K],
];

#[test]
fn fusions_are_their_definitions() {
    for (name, mut gpu) in backends() {
        for (i, &mix) in MIXES.iter().enumerate() {
            for rows in [1, 2, 7, 33] {
                let few = (rows + i) % 2 == 0;
                if !differs(&gpu, few) {
                    continue;
                }
                let plain = of_kind(few, || all_fusions(&mut Plain(gpu.clone()), mix, rows, i as u64));
                let fused = of_kind(few, || all_fusions(&mut gpu, mix, rows, i as u64));
                for (which, (plain, fused)) in plain.iter().zip(&fused).enumerate() {
                    let error = nmse(fused, plain);
                    assert!(error < 1e-12, "{name}, {mix:?}, {rows} rows, result {which}: {error}");
                }
            }
        }
        sound(&mut gpu);
    }
}
