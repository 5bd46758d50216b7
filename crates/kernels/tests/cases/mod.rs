//! Random weights and activations that bite: every sub-block scale and minimum different, zero, negative, subnormal
//! and infinite scales, the full range of quants, slices at odd addresses.

mod random;

use candor_kernels::{Activations, Kernels, Q8RowMut, Q8Rows};
use candor_quant::{Format, half};

pub use random::Random;

/// Where the halves of a block are: its scales and minima. Those of IQ1_M, MXFP4 and NVFP4 are no halves.
fn halves(format: Format) -> &'static [usize] {
    match format {
        Format::Q4_0 | Format::Q5_0 | Format::Q8_0 | Format::Iq4Nl | Format::Iq4Xs => &[0],
        Format::Q1_0 | Format::Q2_0 => &[0],
        Format::Iq1S | Format::Iq2Xxs | Format::Iq2Xs | Format::Iq2S | Format::Iq3Xxs | Format::Iq3S => &[0],
        Format::Tq1_0 => &[52],
        Format::Tq2_0 => &[64],
        Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => &[0, 2],
        Format::Q2K => &[80, 82],
        Format::Q3K => &[108],
        Format::Q6K => &[208],
        _ => &[],
    }
}

/// The scale of IQ1_M.
fn quarters(block: &[u8]) -> u16 {
    (0..4).map(|i| u16::from(block[49 + 2 * i] >> 4) << (4 * i)).sum()
}

/// Sets the scales and minima of a block.
fn put_halves(format: Format, block: &mut [u8], mut half: impl FnMut() -> u16) {
    match format {
        // A quarter of the half is on top of each of the last words.
        Format::Iq1M => {
            let bits = half();
            for i in 0..4 {
                let byte = &mut block[49 + 2 * i];
                *byte = *byte & 15 | ((bits >> (4 * i)) as u8) << 4;
            }
        }
        // The exponent alone; a subnormal half becomes the smallest power.
        Format::Mxfp4 => {
            let size = half::f16_to_f32(half() & 0x7fff);
            block[0] = if size < 1e-4 { 0 } else { ((2.0 * size).to_bits() >> 23) as u8 };
        }
        // No sign: negative numbers are 64 times as large instead, so that sums leave 32 bits. Instead of a subnormal number any
        // byte, the NaN and what has the ignored sign among them.
        Format::Nvfp4 => {
            for byte in &mut block[..4] {
                let bits = half();
                let size = half::f16_to_f32(bits & 0x7fff) * if bits & 0x8000 == 0 { 1.0 } else { 64.0 };
                *byte = if bits & 0x7c00 == 0 { bits as u8 } else { (half::f32_to_f16(size / 128.0) >> 7) as u8 };
            }
        }
        _ => {
            for &at in halves(format) {
                block[at..at + 2].copy_from_slice(&half().to_le_bytes());
            }
        }
    }
}

/// Weight rows, one byte off any alignment.
#[derive(Clone)]
pub struct Weights {
    pub format: Format,
    pub rows: usize,
    pub cols: usize,
    shifted: Vec<u8>,
}

/// Random bytes with sensible scales, some of them zero, negative or subnormal.
pub fn weights(format: Format, rows: usize, cols: usize, random: &mut Random) -> Weights {
    weights_with(format, rows, cols, random, |random| match random.bits() % 8 {
        0 => 0x0000,
        1 => 0x8000 | (random.bits() % 1024) as u16,
        2 => (random.bits() % 1024) as u16,
        _ => half::f32_to_f16(random.signed() * 0.1),
    })
}

/// As [`weights`] with scales 1 or -2 and minima 0.
pub fn unit_weights(format: Format, rows: usize, cols: usize, random: &mut Random) -> Weights {
    let mut w = weights_with(
        format,
        rows,
        cols,
        random,
        |random| if random.bits().is_multiple_of(2) { 0x3c00 } else { 0xc000 },
    );
    if let &[_, minimum] = halves(format) {
        for block in w.shifted[1..].chunks_exact_mut(format.block_bytes()) {
            block[minimum..minimum + 2].fill(0);
        }
    }
    w
}

fn weights_with(
    format: Format,
    rows: usize,
    cols: usize,
    random: &mut Random,
    mut scale: impl FnMut(&mut Random) -> u16,
) -> Weights {
    let bytes = rows * format.row_bytes(cols).expect("whole blocks");
    let mut shifted: Vec<u8> = (0..bytes + 1).map(|_| random.bits() as u8).collect();
    for block in shifted[1..].chunks_exact_mut(format.block_bytes()) {
        match format {
            Format::F32 => block.copy_from_slice(&random.signed().to_le_bytes()),
            Format::F16 => block.copy_from_slice(&half::f32_to_f16(random.signed()).to_le_bytes()),
            Format::Bf16 => block.copy_from_slice(&half::f32_to_bf16(random.signed()).to_le_bytes()),
            _ => put_halves(format, block, || scale(random)),
        }
    }
    Weights { format, rows, cols, shifted }
}

impl Weights {
    pub fn bytes(&self) -> &[u8] {
        &self.shifted[1..]
    }

    pub fn row(&self, row: usize) -> Weights {
        let bytes = self.bytes().len() / self.rows;
        let shifted = self.shifted[row * bytes..(row + 1) * bytes + 1].to_vec();
        Weights { rows: 1, shifted, ..*self }
    }

    pub fn decode(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.rows * self.cols];
        let bytes = self.bytes().len() / self.rows;
        for (row, out) in self.bytes().chunks_exact(bytes).zip(out.chunks_exact_mut(self.cols)) {
            self.format.decode(row, out);
        }
        out
    }

    /// The same with every byte but those of its halves set to one value.
    pub fn filled(mut self, byte: u8) -> Weights {
        for block in self.shifted[1..].chunks_exact_mut(self.format.block_bytes()) {
            let kept = block.to_vec();
            block.fill(byte);
            match self.format {
                Format::Iq1M => put_halves(self.format, block, || quarters(&kept)),
                Format::Mxfp4 => block[0] = kept[0],
                Format::Nvfp4 => block[..4].copy_from_slice(&kept[..4]),
                format => halves(format).iter().for_each(|&at| block[at..at + 2].copy_from_slice(&kept[at..at + 2])),
            }
        }
        self
    }

    /// What the magnitudes of `scale * quant` exceed those of the weights by: minima times inputs.
    pub fn minima_size(&self, row: usize, x: &[f64]) -> f64 {
        let minimum_at = match *halves(self.format) {
            [_, minimum] => minimum,
            _ => return 0.0,
        };
        let bytes = self.bytes().len() / self.rows;
        let blocks = self.bytes()[row * bytes..][..bytes].chunks_exact(self.format.block_bytes());
        let per_block = blocks.zip(x.chunks_exact(self.format.block_len())).map(|(block, x)| {
            let minimum = half::f16_to_f32(u16::from_le_bytes([block[minimum_at], block[minimum_at + 1]]));
            // 6-bit factors at most; no factor for Q4_1 and Q5_1.
            let factor = if self.format.block_len() == 256 { 63.0 } else { 1.0 };
            2.0 * factor * f64::from(minimum.abs()) * x.iter().map(|x| x.abs()).sum::<f64>()
        });
        per_block.sum()
    }

    /// Makes the scale of a row's first block infinite, or so large that its sums are. Returns whether it can be.
    pub fn poison_row(&mut self, row: usize) -> bool {
        let bytes = self.bytes().len() / self.rows;
        let block = &mut self.shifted[1 + row * bytes..][..self.format.block_bytes()];
        match self.format {
            Format::Mxfp4 => block[0] = 255,
            Format::Nvfp4 => return false,
            format => put_halves(format, block, || 0x7c00),
        }
        true
    }
}

/// Input rows in both forms, each one element off the start of its buffer.
pub struct Inputs {
    cols: usize,
    values: Vec<f32>,
    quants: Vec<i8>,
    scales: Vec<f32>,
    sums: Vec<i16>,
}

impl Inputs {
    /// Random numbers of widely different sizes, rounded by the scalar table where whole blocks allow.
    pub fn new(rows: usize, cols: usize, random: &mut Random) -> Inputs {
        let values: Vec<f32> = (0..rows * cols + 1)
            .map(|i| {
                let outlier = if random.bits().is_multiple_of(50) { 30.0 } else { 1.0 };
                if i / 32 % 7 == 5 { 0.0 } else { random.signed() * outlier }
            })
            .collect();
        let count = rows * cols;
        let (mut quants, mut scales) = (vec![0; count + 1], vec![0.0; count / 32 + 1]);
        let mut sums = vec![0; count / 16 + 1];
        if cols.is_multiple_of(32) {
            let out = Q8RowMut { quants: &mut quants[1..], scales: &mut scales[1..], sums: &mut sums[1..] };
            (Kernels::scalar().f32.quantize_q8)(out, &values[1..]);
        }
        Inputs { cols, values, quants, scales, sums }
    }

    /// Scales of 1, quants at and near both ends of -127..=127 in one block of 32 of each row, zeros elsewhere.
    pub fn extreme(rows: usize, cols: usize, seed: u64, random: &mut Random) -> Inputs {
        let mut x = Inputs::new(rows, cols, random);
        x.scales.fill(1.0);
        for (i, quant) in x.quants[1..].iter_mut().enumerate() {
            let block = (i / cols + seed as usize) % (cols / 32);
            if i % cols / 32 != block {
                *quant = 0;
                continue;
            }
            *quant = match (seed % 4, i / cols % 2) {
                (0, 0) => 127,
                (0, _) => -127,
                (1, _) => [127, -127][i % 2],
                (2, _) => [127, -127][random.bits() as usize % 2],
                _ => (random.bits() as i8).max(-127),
            };
        }
        for (sum, quants) in x.sums[1..].iter_mut().zip(x.quants[1..].chunks_exact(16)) {
            *sum = quants.iter().map(|&q| i16::from(q)).sum();
        }
        x
    }

    /// Sets a scale, counted over all rows.
    pub fn set_scale(&mut self, index: usize, scale: f32) {
        self.scales[1 + index] = scale;
    }

    pub fn q8(&self, rows: std::ops::Range<usize>) -> Q8Rows<'_> {
        let part = |per_row: usize| 1 + rows.start * per_row..1 + rows.end * per_row;
        Q8Rows {
            cols: self.cols,
            quants: &self.quants[part(self.cols)],
            scales: &self.scales[part(self.cols / 32)],
            sums: &self.sums[part(self.cols / 16)],
        }
    }

    pub fn f32(&self, rows: std::ops::Range<usize>) -> Activations<'_> {
        let values = &self.values[1 + rows.start * self.cols..1 + rows.end * self.cols];
        Activations::F32 { cols: self.cols, values }
    }

    /// What the kernels see of a row.
    pub fn exact(&self, row: usize, q8: bool) -> Vec<f64> {
        (row * self.cols..(row + 1) * self.cols)
            .map(|i| match q8 {
                true => f64::from(self.quants[1 + i]) * f64::from(self.scales[1 + i / 32]),
                false => f64::from(self.values[1 + i]),
            })
            .collect()
    }
}
