//! Attention that does not see everything, or whose scores are changed before their softmax.

use std::collections::HashMap;

use candor_ops::{KvFormat, Mask, Reference};
use candor_testing::backend::attention::{Case, Rows, Rules, long, ruled, rules};
use candor_testing::backend::bits;
use candor_testing::nmse;

use crate::beside_products;

const FORMATS: [KvFormat; 4] = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0, KvFormat::Q4_0];

/// Every way of the CPU against the reference, however steps are cut: whole first, which is the only way for rows that see
/// what comes after them.
fn check(case: &Case, rules: &Rules, chunks: &[usize]) {
    let want = ruled(&mut Reference, (case, rules), |_| 1000, |_| ());
    let mut first: HashMap<&str, Vec<f32>> = HashMap::new();
    for (name, mut cpu) in beside_products() {
        let got = ruled(&mut cpu, (case, rules), |_| 1000, |_| ());
        let error = nmse(&got, &want);
        assert!(error < 1e-11, "{name}, {case:?}, {rules:?}: {error}");
        let first = first.entry(cpu.kernels().name).or_insert_with(|| got.clone());
        assert_eq!(bits(first), bits(&got), "{name}, {case:?}, {rules:?}: unlike one thread");
        for &chunk in chunks.iter().filter(|_| !rules.mask.is_both()) {
            let steps = ruled(&mut cpu, (case, rules), |_| chunk, |_| ());
            assert_eq!(bits(&steps), bits(&got), "{name}, {case:?}, {rules:?}: {chunk} at a time");
        }
    }
}

#[test]
fn every_rule_is_the_reference_however_it_is_fed() {
    for (i, rules) in rules().iter().enumerate() {
        for (j, heads) in [(4, 2, 32, 64), (7, 1, 64, 96), (3, 3, 32, 32)].into_iter().enumerate() {
            let (keys, values) = (FORMATS[(i + j) % 4], FORMATS[(i + j / 2) % 4]);
            check(&Case { lengths: [130, 40], ..long(heads, (keys, values)) }, rules, &[1, 3, 64]);
        }
    }
}

#[test]
fn a_long_text_is_the_same_in_one_go_and_in_steps() {
    for (i, rules) in rules().iter().enumerate() {
        let heads = [(8, 2, 32, 32), (5, 1, 64, 32), (2, 2, 32, 64)][i % 3];
        check(&long(heads, (FORMATS[i % 4], FORMATS[(i + 1) % 4])), rules, &[1, 51]);
    }
}

#[test]
fn what_is_no_number_spoils_the_rows_that_see_it_alone() {
    let case = Case { lengths: [400, 0], ..long((4, 2, 16, 16), (KvFormat::F16, KvFormat::F16)) };
    for mask in [Mask::Window(30), Mask::Window(290), Mask::Chunk(50), Mask::Around(9)] {
        let rules = Rules { mask, ..Rules::default() };
        for at in [0, 3, 255, 256, 300] {
            for (name, mut cpu) in beside_products() {
                let good = ruled(&mut cpu, (&case, &rules), |_| 1000, |_| ());
                let key = ruled(&mut cpu, (&case, &rules), |_| 1000, |rows: &mut Rows| rows.k[at * 32 + 5] = f32::NAN);
                let value =
                    ruled(&mut cpu, (&case, &rules), |_| 1000, |rows: &mut Rows| rows.v[at * 32 + 5] = f32::NAN);
                for row in 0..400 {
                    let sees = mask.seen(row, 400).contains(&at);
                    let part = |all: &[f32]| bits(&all[row * 64..][..32]);
                    let case = format!("{name}, {mask:?}, at {at}, row {row}");
                    assert_eq!(part(&key) == part(&good), !sees, "{case}: key");
                    assert_eq!(part(&value) == part(&good), !sees, "{case}: value");
                }
            }
        }
    }
}

/// A cache that keeps no more than rows of a step can see: the same bits as one that keeps all.
#[test]
fn a_ring_is_the_same_as_the_whole_cache() {
    for (i, mask) in [Mask::Window(30), Mask::Window(256), Mask::Window(290), Mask::Chunk(100), Mask::Chunk(300)]
        .into_iter()
        .enumerate()
    {
        let heads = [(8, 2, 32, 32), (5, 1, 64, 32), (2, 2, 32, 64)][i % 3];
        let case = Case { lengths: [1100, 857], ..long(heads, (FORMATS[i % 4], FORMATS[(i + 1) % 4])) };
        let (whole, ring) = (Rules { mask, ..Rules::default() }, Rules { mask, ring: true, ..Rules::default() });
        for (name, mut cpu) in beside_products() {
            let want = ruled(&mut cpu, (&case, &whole), |_| 64, |_| ());
            for chunk in [1, 51, 100] {
                let got = ruled(&mut cpu, (&case, &ring), |_| chunk, |_| ());
                assert_eq!(bits(&got), bits(&want), "{name}, {mask:?}, {chunk} at a time");
            }
        }
    }
}
