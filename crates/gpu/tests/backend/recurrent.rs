//! Short convolutions and linear recurrences.

use candor_ops::Reference;
use candor_testing::backend::bits;
use candor_testing::backend::recurrent::{convolved, scanned, scans};
use candor_testing::nmse;

use crate::{sound, vector_backends};

const LENGTHS: [[usize; 2]; 3] = [[1, 0], [2, 3], [33, 9]];

/// The reference's results, however they are fed: what fits in a step, one row after the other, and from position 0 again.
fn check<T>(case: &str, lengths: [usize; 2], want: &[Vec<f32>; 2], mut run: T)
where
    T: FnMut(&mut candor_gpu::Gpu, usize) -> [Vec<f32>; 2],
{
    // Nothing is summed up within subgroups.
    for (name, mut gpu) in vector_backends().into_iter().take(1) {
        for chunk in [100, 1, 7] {
            let got = run(&mut gpu, chunk);
            let error = nmse(&got[0], &want[0]);
            assert!(error < 1e-11, "{name}, {case}, {lengths:?}, {chunk} at a time: {error}");
            assert_eq!(bits(&got[0]), bits(&got[1]), "{name}, {case}, {lengths:?}, {chunk} at a time: once more");
        }
        sound(&mut gpu);
    }
}

#[test]
fn convolutions_are_the_reference_however_they_are_fed() {
    for shape in [(1, 1), (3, 2), (64, 4), (600, 4), (37, 3), (257, 7)] {
        for lengths in LENGTHS {
            let want = convolved(&mut Reference, shape, lengths, |_| 100);
            check(&format!("{shape:?}"), lengths, &want, |gpu, chunk| convolved(gpu, shape, lengths, |_| chunk));
        }
    }
}

#[test]
fn recurrences_are_the_reference_however_they_are_fed() {
    for scan in scans() {
        for lengths in LENGTHS {
            let want = scanned(&mut Reference, &scan, lengths, |_| 100);
            check(&format!("{scan:?}"), lengths, &want, |gpu, chunk| scanned(gpu, &scan, lengths, |_| chunk));
        }
    }
}
