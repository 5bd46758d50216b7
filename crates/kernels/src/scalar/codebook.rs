//! Formats that are looked up: what `crate::codebook` says of them, one weight after the other.

use candor_quant::Format;

use super::q8::{self, Blocks};
use crate::array::{self, Each};
use crate::codebook::{Bits, Book};
use crate::weights::Minima;

impl<B: Book> Blocks for B {
    const FORMAT: Format = B::FORMAT;
    const MINIMA: Minima = Minima::None;

    fn block(row: &[u8], index: usize) -> q8::Block {
        let w = &B::groups(row)[index / 8];
        block::<B>(&B::read(w), &B::factors(w), unit::<B>(w), index % 8)
    }

    // A group is read once for all of its blocks.
    fn fill(blocks: &mut [q8::Block], row: &[u8], first: usize) {
        for (blocks, w) in blocks.chunks_mut(8).zip(&B::groups(row)[first / 8..]) {
            let (read, factors, unit) = (B::read(w), B::factors(w), unit::<B>(w));
            for (j, out) in blocks.iter_mut().enumerate() {
                *out = block::<B>(&read, &factors, unit, j);
            }
        }
    }
}

fn unit<B: Book>(w: &B::Group) -> f32 {
    B::UNIT * candor_quant::half::f16_to_f32(B::scale(w))
}

fn block<B: Book>(read: &B::Read, factors: &[i8; 16], scale: f32, j: usize) -> q8::Block {
    let (bytes, bits) = (bytes(B::words(read, j)), B::bits(read, j));
    let mut quants = [0; 32];
    for (i, (quant, byte)) in quants.iter_mut().zip(bytes).enumerate() {
        let bit = (bits >> i & 1) as i8;
        let raised = byte.wrapping_sub(B::OFFSET as u8) as i8;
        *quant = match B::BITS {
            Bits::None => raised,
            Bits::Signs => byte as i8 * (1 - 2 * bit),
            Bits::Down => raised + 1 - 2 * bit,
        };
    }
    let minima = [0.0; 2];
    if B::HALVES {
        let factors = [factors[2 * j], factors[2 * j + 1]].each(i32::from);
        return q8::Block { quants, factors, scale, minima };
    }
    q8::Block { quants, factors: [1; 2], scale: scale * f32::from(factors[j]), minima }
}

fn bytes(words: [u64; 4]) -> [u8; 32] {
    let words = words.each(u64::to_le_bytes);
    array::of(|i| words[i / 8][i % 8])
}
