//! Short convolutions and linear recurrences.

use candor_ops::Reference;
use candor_testing::backend::bits;
use candor_testing::backend::recurrent::{convolved, scanned, scans};
use candor_testing::nmse;

use crate::beside_products;

const LENGTHS: [[usize; 2]; 4] = [[1, 0], [2, 3], [33, 9], [70, 0]];

/// The results of the reference and of each way of the CPU, fed in steps of several sizes: all the CPU's are the same to
/// the bit, from position 0 again too.
fn check<T>(case: &str, lengths: [usize; 2], want: &[Vec<f32>; 2], mut run: T)
where
    T: FnMut(&mut candor_cpu::Cpu, usize) -> [Vec<f32>; 2],
{
    assert_eq!(bits(&want[0]), bits(&want[1]), "{case}, {lengths:?}: the reference has something left over");
    let mut first = None;
    for (name, mut cpu) in beside_products() {
        for chunk in [100, 1, 7] {
            let got = run(&mut cpu, chunk);
            let error = nmse(&got[0], &want[0]);
            assert!(error < 1e-11, "{name}, {case}, {lengths:?}, {chunk} at a time: {error}");
            let first = first.get_or_insert_with(|| bits(&got[0]));
            for (got, which) in got.iter().zip(["first", "second"]) {
                assert_eq!(*first, bits(got), "{name}, {case}, {lengths:?}, {chunk} at a time: {which} run");
            }
        }
    }
}

#[test]
fn convolutions_are_the_reference_however_they_are_fed() {
    for shape in [(1, 1), (3, 2), (64, 4), (600, 4), (37, 3), (257, 7)] {
        for lengths in LENGTHS {
            let want = convolved(&mut Reference, shape, lengths, |_| 100);
            check(&format!("{shape:?}"), lengths, &want, |cpu, chunk| convolved(cpu, shape, lengths, |_| chunk));
        }
    }
}

#[test]
fn recurrences_are_the_reference_however_they_are_fed() {
    for scan in scans() {
        for lengths in LENGTHS {
            let want = scanned(&mut Reference, &scan, lengths, |_| 100);
            check(&format!("{scan:?}"), lengths, &want, |cpu, chunk| scanned(cpu, &scan, lengths, |_| chunk));
        }
    }
}
