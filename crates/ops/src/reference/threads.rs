//! The reference's long loops in several threads. Every element is computed as it would be alone, on any thread:
//! the formulas are elsewhere and know nothing of it.

use std::thread;

/// Multiplications that are worth a thread.
const WORTH_A_THREAD: usize = 1 << 20;

/// Has `f` fill each run of `len` elements of `out`, given the run's index. `work` is how many multiplications all of them take.
pub(super) fn each_run(out: &mut [f32], len: usize, work: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
    let runs = out.len().div_ceil(len.max(1));
    let most = || thread::available_parallelism().map_or(1, usize::from);
    let threads = (work / WORTH_A_THREAD).min(runs);
    // What the processor has is only asked where there is something to share.
    let share = if threads > 1 { runs.div_ceil(threads.min(most())) } else { runs };
    let fill = |first: usize, part: &mut [f32]| {
        part.chunks_mut(len.max(1)).enumerate().for_each(|(i, run)| f(first + i, run));
    };
    if share == runs {
        return fill(0, out);
    }
    thread::scope(|scope| {
        for (i, part) in out.chunks_mut(share * len).enumerate() {
            let fill = &fill;
            scope.spawn(move || fill(i * share, part));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_filled_once_and_knows_its_place() {
        for (length, len, work) in
            [(0, 3, usize::MAX), (10, 4, 0), (10, 4, usize::MAX), (1000, 1, usize::MAX), (7, 9, usize::MAX)]
        {
            let mut out = vec![0.0; length];
            each_run(&mut out, len, work, |index, run| run.iter_mut().for_each(|x| *x += 1.0 + index as f32));
            let expected: Vec<f32> = (0..length).map(|i| 1.0 + (i / len) as f32).collect();
            assert_eq!(out, expected, "{length} {len}");
        }
    }
}
