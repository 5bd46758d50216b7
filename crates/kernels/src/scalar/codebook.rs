//! Formats that are looked up: what `crate::codebook` says of them, one weight after the other.

use candor_quant::Format;

use super::q8::{self, Blocks};
use crate::codebook::{Block, Book};
use crate::weights::Minima;

impl<B: Book> Blocks for B {
    const FORMAT: Format = B::FORMAT;
    const MINIMA: Minima = Minima::None;

    fn block(row: &[u8], index: usize) -> q8::Block {
        let w = &B::groups(row)[index / 8];
        let (factors, j) = (B::factors(w), index % 8);
        let quants = match B::block(w, j) {
            Block::Raised(words) => bytes(words).map(|raised| (i16::from(raised) - B::OFFSET) as i8),
            Block::Signed(words, signs) => {
                let magnitudes = bytes(words).map(|magnitude| magnitude as i8);
                std::array::from_fn(|i| if signs >> i & 1 == 1 { -magnitudes[i] } else { magnitudes[i] })
            }
        };
        let (scale, minima) = (B::scale(w), [0.0; 2]);
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
