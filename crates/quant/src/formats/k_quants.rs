//! What the encoders of Q2_K, Q4_K and Q5_K share: groups with scale and minimum, and numbers for those in turn.

use super::search::{self, Steps, affine, each, groups, in_a_row, nearest, positive};
use crate::half::{f16_to_f32, f32_to_f16};

/// How a format of `L` groups of `N` searches.
pub(super) struct Rules<const L: usize, const N: usize> {
    /// Greatest quant, greatest number of a scale or minimum.
    pub levels: i32,
    pub scales: i32,
    /// Without importance: the steps, and the weights of elements.
    pub steps: Steps,
    pub weights: fn(&[[f32; L]; N]) -> [[f32; L]; N],
    /// With importance: the square that elements are held against, in mean squares of the block.
    pub spread: f32,
}

/// A block before it is packed.
pub(super) struct Block<const L: usize> {
    pub d: u16,
    pub dmin: u16,
    pub scales: [u8; L],
    pub minima: [u8; L],
    pub quants: [u8; 256],
}

#[inline(always)]
pub(super) fn block<const L: usize, const N: usize>(
    values: &[f32; 256],
    importance: Option<&[f32; 256]>,
    rules: &Rules<L, N>,
) -> Block<L> {
    let x = groups::<L, N>(values);
    let (found, d, dmin, scales, minima) = match importance {
        None => {
            let found = affine(&x, &(rules.weights)(&x), rules.steps);
            let (d, scales) = shared(&found.scale, rules.scales);
            let (dmin, minima) = shared(&found.minimum.map(|minimum| -minimum), rules.scales);
            (found, d, dmin, scales, minima)
        }
        Some(importance) => {
            let spread = rules.spread * search::squares(values) / 256.0;
            let w = search::weights(&x, &groups(importance), spread);
            let found = affine(&x, &w, Steps::fine(rules.levels));
            let totals = search::sums(&w);
            let (d, scales) = positive(&found.scale, &totals, rules.scales);
            let (dmin, minima) = positive(&found.minimum.map(|minimum| -minimum), &totals, rules.scales);
            (found, d, dmin, scales, minima)
        }
    };
    let (d, dmin) = (f32_to_f16(d), f32_to_f16(dmin));
    // The quants that go with the scales as they are stored.
    let (mut scale, mut minimum, mut zero) = ([0.0; L], [0.0; L], false);
    for lane in 0..L {
        scale[lane] = f16_to_f32(d) * f32::from(scales[lane]);
        minimum[lane] = f16_to_f32(dmin) * f32::from(minima[lane]);
        zero |= scale[lane] == 0.0;
    }
    let mut quants: [[i32; L]; N] =
        each(|i, lane| nearest((x[i][lane] + minimum[lane]) / scale[lane]).clamp(0, rules.levels));
    if zero {
        let kept = found.quants(&x);
        quants = each(|i, lane| if scale[lane] == 0.0 { kept[i][lane] } else { quants[i][lane] });
    }
    Block { d, dmin, scales, minima, quants: in_a_row(&quants) }
}

/// Numbers up to `levels` for scales, the greatest of which gets `levels`, and what they are multiplied by.
#[inline(always)]
fn shared<const L: usize>(scales: &[f32; L], levels: i32) -> (f32, [u8; L]) {
    let greatest = scales.iter().fold(0.0, |greatest, &scale| if scale > greatest { scale } else { greatest });
    let inverse = if greatest > 0.0 { levels as f32 / greatest } else { 0.0 };
    let number = |scale: f32| (nearest(inverse * scale) as u8).min(levels as u8);
    (greatest / levels as f32, scales.map(number))
}

/// Four runs of 32 quants of 2 bits per 32 bytes, as Q2_K and Q3_K have them.
#[inline(always)]
pub(super) fn pack_twos(quants: &[u8; 256], bytes: &mut [u8]) {
    for (quants, bytes) in quants.as_chunks::<128>().0.iter().zip(bytes.as_chunks_mut::<32>().0) {
        for j in 0..32 {
            bytes[j] = quants[j] | (quants[j + 32] << 2) | (quants[j + 64] << 4) | (quants[j + 96] << 6);
        }
    }
}

/// Two runs of 32 quants of 4 bits per 32 bytes, as Q4_K and Q5_K have them; higher bits are left out.
#[inline(always)]
pub(super) fn pack_fours(quants: &[u8; 256], bytes: &mut [u8]) {
    for (quants, bytes) in quants.as_chunks::<64>().0.iter().zip(bytes.as_chunks_mut::<32>().0) {
        for j in 0..32 {
            bytes[j] = (quants[j] & 15) | (quants[j + 32] << 4);
        }
    }
}
