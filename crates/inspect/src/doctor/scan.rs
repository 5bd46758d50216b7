//! Statistics of a file's decoded weights, row by row. What they mean is `weights`.

use std::thread;

use candor_gguf::{Format, Gguf, TensorInfo};
use serde::{Deserialize, Serialize};

/// Rows of a tensor that a sampled scan looks at.
const SAMPLED_ROWS: usize = 64;
/// Elements per thread that are worth starting one.
const WORTH_A_THREAD: usize = 1 << 20;

/// How much of each tensor is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Every row.
    All,
    /// The first and last rows and others spread between.
    Sampled,
}

/// What was found in the weights of a tensor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TensorStats {
    /// Its name.
    pub name: String,
    /// Its format's name.
    pub format: String,
    /// Rows: outputs of a matrix, 1 of a vector.
    pub rows: usize,
    /// Elements of a row.
    pub cols: usize,
    /// Rows looked at.
    pub seen_rows: usize,
    /// Elements that are NaN.
    pub nan: usize,
    /// Elements that are infinite.
    pub infinite: usize,
    /// The first row with either.
    pub first_bad_row: Option<usize>,
    /// Rows of zeros.
    pub zero_rows: usize,
    /// Rows of zeros without another after them.
    pub zero_tail_rows: usize,
    /// Share of elements below zero.
    pub negative_share: f64,
    /// Mean of the finite elements.
    pub mean: f64,
    /// Root mean square of the finite elements.
    pub rms: f64,
    /// Largest finite magnitude.
    pub max: f64,
    /// Half-precision block scales that are subnormal: below 2^-14 and not zero.
    pub subnormal_scales: usize,
    /// Root mean square of each row looked at, with its index.
    #[serde(skip)]
    pub(crate) row_rms: Vec<(usize, f32)>,
}

/// Sums over some rows.
#[derive(Default)]
struct Sums {
    rows: Vec<(usize, f32)>,
    nan: usize,
    infinite: usize,
    first_bad_row: Option<usize>,
    negative: usize,
    sum: f64,
    squares: f64,
    max: f32,
    subnormal_scales: usize,
}

/// Statistics of every tensor, in the order of the file. Tensors without an element are left out.
pub(crate) fn scan(gguf: &Gguf, extent: Extent) -> Vec<TensorStats> {
    gguf.tensors().iter().filter(|tensor| tensor.bytes > 0).map(|tensor| tensor_stats(gguf, tensor, extent)).collect()
}

fn tensor_stats(gguf: &Gguf, tensor: &TensorInfo, extent: Extent) -> TensorStats {
    let cols = tensor.shape[0] as usize;
    let rows = (tensor.elements() / tensor.shape[0]) as usize;
    let data = gguf.data(tensor);
    let stride = data.len() / rows;
    let scales = scale_offsets(tensor.format);
    let look = |rows: &[usize]| {
        let mut sums = Sums::default();
        let mut values = vec![0.0; cols];
        for &row in rows {
            let bytes = &data[row * stride..(row + 1) * stride];
            tensor.format.decode(bytes, &mut values);
            sums.add(row, &values);
            sums.subnormal_scales += subnormals(bytes, tensor.format, &scales);
        }
        sums
    };
    let chosen: Vec<usize> = match extent {
        Extent::Sampled if rows > SAMPLED_ROWS => sampled(rows),
        _ => (0..rows).collect(),
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(chosen.len() * cols / WORTH_A_THREAD).max(1);
    let parts: Vec<Sums> = if threads == 1 {
        vec![look(&chosen)]
    } else {
        thread::scope(|scope| {
            let share = chosen.len().div_ceil(threads);
            let workers: Vec<_> = chosen.chunks(share).map(|rows| scope.spawn(|| look(rows))).collect();
            workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
        })
    };
    let total = parts.into_iter().fold(Sums::default(), Sums::join);
    let mut zero_tail_rows = total.rows.iter().rev().take_while(|(_, rms)| *rms == 0.0).count();
    if chosen.len() < rows && zero_tail_rows > 0 {
        // A sample shows that there is a tail, not where it begins.
        let zero = |row: &usize| look(&[*row]).rows[0].1 == 0.0;
        zero_tail_rows = (0..rows).rev().take_while(zero).count();
    }
    let finite = (chosen.len() * cols - total.nan - total.infinite).max(1) as f64;
    TensorStats {
        name: tensor.name.clone(),
        format: tensor.format.name().to_owned(),
        rows,
        cols,
        seen_rows: chosen.len(),
        nan: total.nan,
        infinite: total.infinite,
        first_bad_row: total.first_bad_row,
        zero_rows: total.rows.iter().filter(|(_, rms)| *rms == 0.0).count(),
        zero_tail_rows,
        negative_share: total.negative as f64 / finite,
        mean: total.sum / finite,
        rms: (total.squares / finite).sqrt(),
        max: total.max.into(),
        subnormal_scales: total.subnormal_scales,
        row_rms: total.rows,
    }
}

fn sampled(rows: usize) -> Vec<usize> {
    let edge = SAMPLED_ROWS / 4;
    let (middle, between) = (SAMPLED_ROWS - 2 * edge, rows - 2 * edge);
    let spread = (0..middle).map(|i| edge + i * between / middle);
    (0..edge).chain(spread).chain(rows - edge..rows).collect()
}

impl Sums {
    fn add(&mut self, row: usize, values: &[f32]) {
        let (mut sum, mut squares, mut max, mut negative) = ([0f32; 8], [0f32; 8], [0f32; 8], [0u32; 8]);
        let (mut total, mut total_squares) = (0f64, 0f64);
        // Short runs in f32, which vectors can do, then f64.
        for run in values.chunks(256) {
            let (eights, rest) = run.as_chunks::<8>();
            for eight in eights {
                for lane in 0..8 {
                    let x = eight[lane];
                    sum[lane] += x;
                    squares[lane] += x * x;
                    max[lane] = if x.abs() > max[lane] { x.abs() } else { max[lane] };
                    negative[lane] += u32::from(x < 0.0);
                }
            }
            for &x in rest {
                total += f64::from(x);
                total_squares += f64::from(x) * f64::from(x);
                max[0] = if x.abs() > max[0] { x.abs() } else { max[0] };
                negative[0] += u32::from(x < 0.0);
            }
            total += sum.iter().map(|&x| f64::from(x)).sum::<f64>();
            total_squares += squares.iter().map(|&x| f64::from(x)).sum::<f64>();
            (sum, squares) = ([0.0; 8], [0.0; 8]);
        }
        if !total.is_finite() || !total_squares.is_finite() {
            return self.add_carefully(row, values);
        }
        self.sum += total;
        self.squares += total_squares;
        self.max = max.into_iter().fold(self.max, f32::max);
        self.negative += negative.iter().sum::<u32>() as usize;
        self.rows.push((row, row_rms(values, total_squares)));
    }

    /// A row with values that are not finite, or too large to be squared.
    fn add_carefully(&mut self, row: usize, values: &[f32]) {
        let mut squares = 0.0;
        for &x in values {
            if x.is_nan() {
                self.nan += 1;
            } else if x.is_infinite() {
                self.infinite += 1;
            } else {
                self.sum += f64::from(x);
                squares += f64::from(x) * f64::from(x);
                self.max = self.max.max(x.abs());
                self.negative += usize::from(x < 0.0);
            }
        }
        if values.iter().any(|x| !x.is_finite()) {
            self.first_bad_row.get_or_insert(row);
        }
        self.squares += squares;
        self.rows.push((row, f32::INFINITY));
    }

    fn join(mut self, other: Sums) -> Sums {
        self.rows.extend(other.rows);
        self.nan += other.nan;
        self.infinite += other.infinite;
        self.first_bad_row = self.first_bad_row.or(other.first_bad_row);
        self.negative += other.negative;
        self.sum += other.sum;
        self.squares += other.squares;
        self.max = self.max.max(other.max);
        self.subnormal_scales += other.subnormal_scales;
        self
    }
}

/// Zero only where every element is, however small the others.
fn row_rms(values: &[f32], squares: f64) -> f32 {
    let rms = (squares / values.len() as f64).sqrt() as f32;
    if rms == 0.0 && values.iter().any(|&x| x != 0.0) { f32::MIN_POSITIVE } else { rms }
}

/// Where a block has half-precision scales: the words that most of the block's elements follow linearly. Found by
/// decoding, so that what a format's bytes mean stays with the format.
fn scale_offsets(format: Format) -> Vec<usize> {
    const ONE_TWO_FOUR: [u16; 3] = [0x3c00, 0x4000, 0x4400];
    let (length, bytes) = (format.block_len(), format.block_bytes());
    if length == 1 {
        return Vec::new();
    }
    // Bytes that are neither all alike nor, read as half precision, anything but moderate numbers.
    let block: Vec<u8> = (0..bytes).map(|i| 0x31 + (i * 7 % 11) as u8).collect();
    let is_scale = |&at: &usize| {
        let decoded = ONE_TWO_FOUR.map(|word| {
            let mut block = block.clone();
            block[at..at + 2].copy_from_slice(&word.to_le_bytes());
            let mut out = vec![0.0; length];
            format.decode(&block, &mut out);
            out
        });
        let steps = |i: usize| (decoded[1][i] - decoded[0][i], decoded[2][i] - decoded[1][i]);
        let linear = (0..length).all(|i| {
            let (first, second) = steps(i);
            (second - 2.0 * first).abs() <= 1e-3 * (first.abs() + 1.0)
        });
        linear && (0..length).filter(|&i| steps(i).0 != 0.0).count() * 2 > length
    };
    (0..bytes.saturating_sub(1)).step_by(2).filter(is_scale).collect()
}

fn subnormals(row: &[u8], format: Format, offsets: &[usize]) -> usize {
    let subnormal = |block: &&[u8], at: usize| {
        let word = u16::from_le_bytes([block[at], block[at + 1]]);
        word & 0x7c00 == 0 && word & 0x3ff != 0
    };
    let blocks = || row.chunks_exact(format.block_bytes());
    offsets.iter().map(|&at| blocks().filter(|block| subnormal(block, at)).count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_found_where_the_formats_have_them() {
        for (format, offsets) in [
            (Format::F16, &[][..]),
            (Format::Q4_0, &[0]),
            (Format::Q4_1, &[0, 2]),
            (Format::Q5_0, &[0]),
            (Format::Q5_1, &[0, 2]),
            (Format::Q8_0, &[0]),
            (Format::Q2K, &[80, 82]),
            (Format::Q3K, &[108]),
            (Format::Q4K, &[0, 2]),
            (Format::Q5K, &[0, 2]),
            (Format::Q6K, &[208]),
            (Format::Iq4Xs, &[0]),
            (Format::Iq2Xxs, &[0]),
            (Format::Mxfp4, &[]),
        ] {
            assert_eq!(scale_offsets(format), offsets, "{format}");
        }
    }
}
