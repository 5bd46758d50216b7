//! Random activations and weights from a seed that the failing test prints.

use candor_ops::Tensor;
use candor_quant::Format;

/// splitmix64, with numbers as models have them.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// About normal, with now and then a large one, as activations have.
    pub fn float(&mut self) -> f32 {
        let sum: i64 = (0..4).map(|_| (self.next() >> 40) as i64 - (1 << 23)).sum();
        let x = sum as f32 / (1 << 23) as f32;
        if self.next().is_multiple_of(97) { x * 20.0 } else { x }
    }

    /// A whole number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() >> 32) as usize % end
    }

    /// `len` of them.
    pub fn floats(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.float()).collect()
    }

    /// A matrix of random blocks whose numbers are neither tiny nor huge.
    pub fn matrix(&mut self, format: Format, rows: usize, cols: usize) -> Tensor {
        let mut bytes = Vec::new();
        for _ in 0..rows * cols / format.block_len() {
            bytes.extend(self.block(format));
        }
        Tensor { name: format!("{} [{rows}, {cols}]", format.name()), format, rows, cols, bytes: bytes.into() }
    }

    fn block(&mut self, format: Format) -> Vec<u8> {
        match format {
            Format::F32 => return self.float().to_le_bytes().to_vec(),
            Format::F64 => return f64::from(self.float()).to_le_bytes().to_vec(),
            Format::I32 => return ((self.next() % 41) as i32 - 20).to_le_bytes().to_vec(),
            Format::I64 => return ((self.next() % 41) as i64 - 20).to_le_bytes().to_vec(),
            Format::I16 => return ((self.next() % 41) as i16 - 20).to_le_bytes().to_vec(),
            _ => {}
        }
        let mut values = vec![0.0f32; format.block_len()];
        loop {
            let block: Vec<u8> = (0..format.block_bytes()).map(|_| self.next() as u8).collect();
            format.decode(&block, &mut values);
            let largest =
                values.iter().fold(0.0, |largest: f32, v| if v.is_nan() { f32::NAN } else { largest.max(v.abs()) });
            if (1e-3..20.0).contains(&largest) {
                return block;
            }
        }
    }
}
