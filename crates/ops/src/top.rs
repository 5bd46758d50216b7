//! The best elements of a row: their order, which samplers and devices share, and its plain definition.

use std::cmp::Ordering;

/// An element of a row: its place and its value.
pub type Ranked = (u32, f32);

/// The better one first: the greater value, of equal ones the earlier place. Values are ordered as
/// [`f32::total_cmp`] does, so that zero comes before minus zero.
pub fn better_first(a: &Ranked, b: &Ranked) -> Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

/// What a value counts as: what is not a number as the one NaN that comes before all numbers, infinity as the largest number.
fn counted(value: f32) -> f32 {
    const FIRST: f32 = f32::from_bits(0x7fff_ffff);
    if value.is_nan() { FIRST } else { value.min(f32::MAX) }
}

/// Elements that are compared at once: without a branch for each of them the compiler makes vectors of it.
const BLOCK: usize = 16;

/// Appends the best `k` elements of a row, or all if it has fewer, the best first.
///
/// Infinity is the largest number, and what is not a number comes before all numbers: the first one tells whether there is any.
///
/// Reads the row once. Soon nearly every block ends at the comparison with the `k`-th best so far.
pub fn top_k(row: &[f32], k: usize, out: &mut Vec<Ranked>) {
    let k = k.min(row.len());
    if k == 0 {
        return;
    }
    let room = row.len().min(k.saturating_mul(4).max(256));
    let mut best: Vec<Ranked> = Vec::with_capacity(room);
    // Nothing is below what is not a number: all are looked at until there are `k`.
    let mut bar = f32::NAN;
    for (number, block) in row.chunks(BLOCK).enumerate() {
        if block.iter().fold(true, |below, &value| below & (value < bar)) {
            continue;
        }
        for (place, &value) in (number * BLOCK..).zip(block) {
            if value < bar {
                continue;
            }
            best.push((place as u32, counted(value)));
            if best.len() == room && k < room {
                bar = best.select_nth_unstable_by(k - 1, better_first).1.1;
                best.truncate(k);
            }
        }
    }
    if k < best.len() {
        best.select_nth_unstable_by(k - 1, better_first);
        best.truncate(k);
    }
    best.sort_unstable_by(better_first);
    out.extend(best);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(row: &[f32], k: usize) -> Vec<u32> {
        let mut out = Vec::new();
        top_k(row, k, &mut out);
        out.iter().map(|element| element.0).collect()
    }

    #[test]
    fn the_greater_comes_first_and_of_equals_the_earlier() {
        let row = [1.0, -0.0, 3.0, 0.0, 3.0, f32::NEG_INFINITY, -2.0];
        assert_eq!(places(&row, 1), [2]);
        assert_eq!(places(&row, 4), [2, 4, 0, 3]);
        assert_eq!(places(&row, 7), [2, 4, 0, 3, 1, 6, 5]);
        assert_eq!(places(&row, 70), places(&row, 7));
        assert_eq!(places(&row, 0), [0; 0]);
        assert_eq!(places(&[], 3), [0; 0]);
    }

    /// Against a sort of all, of rows longer than what is kept, whatever their order, with ties and what is not a number.
    #[test]
    fn the_best_of_long_rows_are_those_of_a_sort() {
        let mut random = 1u32;
        let mut next = || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            random >> 16
        };
        for round in 0..200 {
            let kind = round % 5;
            let length = (next() % 3000) as usize;
            let value = |at: usize, number: u32| match kind {
                0 => at as f32,
                1 => -(at as f32),
                2 => (number % 7) as f32,
                3 => [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX][number as usize % 6],
                _ => number as f32,
            };
            let row: Vec<f32> = (0..length).map(|at| value(at, next())).collect();
            let mut all: Vec<Ranked> = (0..).zip(&row).map(|(place, &value)| (place, counted(value))).collect();
            all.sort_by(better_first);
            for k in [1, 2, 40, 300, length] {
                let expected: Vec<u32> = all.iter().take(k).map(|element| element.0).collect();
                assert_eq!(places(&row, k), expected, "round {round}: {k} of {length}");
            }
        }
    }

    #[test]
    fn infinity_is_the_largest_number_and_no_number_comes_before_it() {
        let mut out = Vec::new();
        top_k(&[f32::MAX, f32::INFINITY, 1.0], 2, &mut out);
        assert_eq!(out, [(0, f32::MAX), (1, f32::MAX)]);
        let negative = f32::from_bits(0xffc0_0000);
        for nan in [f32::NAN, negative, f32::from_bits(0x7f80_0001)] {
            out.clear();
            top_k(&[1.0, f32::INFINITY, nan, 7.0, nan], 3, &mut out);
            assert_eq!(out.iter().map(|element| element.0).collect::<Vec<_>>(), [2, 4, 1], "{:x}", nan.to_bits());
            assert!(out[0].1.is_nan());
        }
    }
}
