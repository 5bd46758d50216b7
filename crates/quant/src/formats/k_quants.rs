//! What the encoders of Q2_K, Q4_K and Q5_K share: groups with scale and minimum, and numbers for those in turn.

use super::search::{self, Affine, Steps, affine, groups, nearest, positive, put};
use crate::half::{f16_to_f32, f32_to_f16};
use crate::lanes::Lanes;

/// How a format searches.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// Greatest quant, greatest number of a scale or minimum.
    pub levels: i32,
    pub scales: i32,
    /// Without importance: steps, and whether the group's root mean square is added to the magnitudes by which elements count.
    pub steps: Steps,
    pub even: bool,
    /// With importance: the square that elements are held against, in mean squares of the block.
    pub spread: f32,
}

impl Rules {
    /// What is found for groups, and the sum of their weights.
    #[inline(always)]
    fn search<V: Lanes, const N: usize>(
        self,
        x: &[V; N],
        importance: Option<&[f32; 256]>,
        first: usize,
        spread: f32,
    ) -> (Affine<V>, V) {
        match importance {
            None => (affine(x, &self.weights(x), self.steps), V::all(0.0)),
            Some(importance) => {
                let w = search::weights(x, &groups(importance, first), spread);
                (affine(x, &w, Steps::fine(self.levels)), search::sum(&w))
            }
        }
    }

    #[inline(always)]
    fn weights<V: Lanes, const N: usize>(self, x: &[V; N]) -> [V; N] {
        let mean = if self.even { (search::squares(x) / V::all(N as f32)).sqrt() } else { V::all(0.0) };
        let mut w = *x;
        for w in &mut w {
            *w = mean + w.abs();
        }
        w
    }
}

/// A block of `G` groups before it is packed.
pub(super) struct Block<const G: usize> {
    pub d: u16,
    pub dmin: u16,
    pub scales: [u8; G],
    pub minima: [u8; G],
    pub quants: [u8; 256],
}

/// Encodes a block of `G` groups of `N`.
#[inline(always)]
pub(super) fn block<V: Lanes, const G: usize, const N: usize>(
    values: &[f32; 256],
    importance: Option<&[f32; 256]>,
    rules: Rules,
) -> Block<G> {
    let (mut scales, mut minima, mut totals) = ([0.0; G], [0.0; G], [0.0; G]);
    let spread = importance.map_or(0.0, |_| rules.spread * search::squares(values) / 256.0);
    for first in (0..G).step_by(V::COUNT) {
        let (found, total) = rules.search::<V, N>(&groups(values, first), importance, first, spread);
        search::place(&mut scales, first, found.scale);
        search::place(&mut minima, first, V::all(0.0) - found.minimum);
        search::place(&mut totals, first, total);
    }
    let numbers = |scales: &[f32; G]| match importance {
        None => shared(scales, rules.scales),
        Some(_) => positive(scales, &totals, rules.scales),
    };
    let ((d, scales), (dmin, minima)) = (numbers(&scales), numbers(&minima));
    let (d, dmin) = (f32_to_f16(d), f32_to_f16(dmin));
    // The quants that go with the scales as they are stored; where these are nothing, those of the search.
    let (wide_d, wide_dmin) = (f16_to_f32(d), f16_to_f32(dmin));
    let mut quants = [0; 256];
    for first in (0..G).step_by(V::COUNT) {
        let x = groups::<V, N>(values, first);
        let scale = V::each(|lane| wide_d * f32::from(scales[first + lane]));
        let minimum = V::each(|lane| wide_dmin * f32::from(minima[first + lane]));
        let mut exact = x;
        for exact in &mut exact {
            *exact = ((*exact + minimum) / scale).nearest().between(0, rules.levels);
        }
        if (0..V::COUNT).any(|lane| wide_d * f32::from(scales[first + lane]) == 0.0) {
            let (found, _) = rules.search(&x, importance, first, spread);
            let some = V::all(0.0).less(scale.abs());
            for i in 0..N {
                exact[i] = V::select(some, exact[i], found.quant(x[i]));
            }
        }
        put(&mut quants, first, &exact);
    }
    Block { d, dmin, scales, minima, quants }
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
