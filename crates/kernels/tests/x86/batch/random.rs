//! Random weights and inputs.

use candor_quant::Format;

pub use crate::random::Random;

impl Random {
    /// Numbers of widely different sizes and some zeros.
    pub fn inputs(&mut self, count: usize) -> Vec<f32> {
        let mut number = || match self.bits() % 50 {
            0 => 30.0 * self.signed(),
            1 => 1e-4 * self.signed(),
            2 => 0.0,
            _ => self.signed(),
        };
        (0..count).map(|_| number()).collect()
    }

    /// A block of random bytes whose values please: scales of every kind, zero, negative and subnormal ones among them.
    fn block(&mut self, format: Format, pleases: impl Fn(&[f32]) -> bool) -> Option<Vec<u8>> {
        let (mut bytes, mut values) = (vec![0; format.block_bytes()], vec![0.0; format.block_len()]);
        (0..20_000).find_map(|_| {
            bytes.iter_mut().for_each(|byte| *byte = self.bits() as u8);
            format.decode(&bytes, &mut values);
            pleases(&values).then(|| bytes.clone())
        })
    }

    /// Rows of blocks whose values are at most 4.
    pub fn weights(&mut self, format: Format, rows: usize, cols: usize) -> Vec<u8> {
        let pleases = |values: &[f32]| values.iter().all(|value| value.abs() <= 4.0);
        let blocks = rows * cols / format.block_len();
        let block = |_| self.block(format, pleases).unwrap_or_else(|| panic!("{format}: no block"));
        (0..blocks).flat_map(block).collect()
    }

    /// A block with a value that is no number, or infinite; `None` where the format has none.
    pub fn poison(&mut self, format: Format) -> Option<Vec<u8>> {
        self.block(format, |values| values.iter().any(|value| !value.is_finite()))
    }
}

/// What the bytes say.
pub fn decode(format: Format, bytes: &[u8]) -> Vec<f32> {
    let mut values = vec![0.0; bytes.len() / format.block_bytes() * format.block_len()];
    format.decode(bytes, &mut values);
    values
}

/// A number of columns: whole blocks, and an odd number where blocks are numbers.
pub fn columns(format: Format, about: usize) -> usize {
    match format.block_len() {
        1 => about - 5,
        length => about.next_multiple_of(length),
    }
}
