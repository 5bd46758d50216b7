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

/// Appends the best `k` elements of a row, or all if it has fewer, the best first.
///
/// Infinity is the largest number, and what is not a number comes before all numbers: the first one tells whether there is any.
pub fn top_k(row: &[f32], k: usize, out: &mut Vec<Ranked>) {
    let mut elements: Vec<Ranked> = (0..).zip(row).map(|(place, &value)| (place, counted(value))).collect();
    let k = k.min(elements.len());
    if k > 0 && k < elements.len() {
        elements.select_nth_unstable_by(k - 1, better_first);
    }
    elements.truncate(k);
    elements.sort_unstable_by(better_first);
    out.extend(elements);
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
