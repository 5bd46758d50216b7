//! Formats that are looked up: what `crate::codebook` says of them, one weight after the other.

use candor_quant::Format;

use super::q8::{self, Blocks};
use crate::codebook::{Bits, Book};
use crate::weights::Minima;

impl<B: Book> Blocks for B {
    const FORMAT: Format = B::FORMAT;
    const MINIMA: Minima = Minima::None;

    fn block(row: &[u8], index: usize) -> q8::Block {
        let w = &B::groups(row)[index / 8];
        let (factors, j) = (B::factors(w), index % 8);
        let read = B::read(w);
        let (bytes, bits) = (bytes(B::words(&read, j)), B::bits(&read, j));
        let bit = |i: usize| (bits >> i & 1) as i8;
        let quants = std::array::from_fn(|i| {
            let raised = || (i16::from(bytes[i]) - B::OFFSET) as i8;
            match B::BITS {
                Bits::None => raised(),
                Bits::Signs => bytes[i] as i8 * (1 - 2 * bit(i)),
                Bits::Down => raised() + 1 - 2 * bit(i),
            }
        });
        let (scale, minima) = (B::UNIT * candor_quant::half::f16_to_f32(B::scale(w)), [0.0; 2]);
        if B::HALVES {
            let factors = [factors[2 * j], factors[2 * j + 1]].map(i32::from);
            return q8::Block { quants, factors, scale, minima };
        }
        q8::Block { quants, factors: [1; 2], scale: scale * f32::from(factors[j]), minima }
    }
}

fn bytes(words: [u64; 4]) -> [u8; 32] {
    let words = words.map(u64::to_le_bytes);
    std::array::from_fn(|i| words[i / 8][i % 8])
}
