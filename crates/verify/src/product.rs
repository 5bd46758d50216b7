//! Products with a matrix as it lies in the file, row by row in f64, and how far from them a right backend may be.
//!
//! A backend may round the inputs: to 8-bit blocks where the weights are quantized, to half precision where they are.
//! What that costs is derived per output from the weights and the inputs, not assumed.

use std::thread;

use candor_ops::Tensor;
use candor_quant::Format;

use crate::ledger::FLOOR;

/// Inputs per rounding step: the block of 8-bit activations.
const BLOCK: usize = 32;
/// The largest magnitude of a block becomes 120 to 127, so that a step is at most this share of it.
const Q8_STEP: f64 = 1.0 / 120.0;
/// Standard deviations that the rounding of the inputs may put an output off. Rounding errors are independent, so that
/// six would do; the rest is for inputs of which one dwarfs its block.
const DEVIATIONS: f64 = 12.0;
/// The same for the root mean square over all outputs of a call, which the inputs' rounding errors share: uniform errors
/// have a deviation of step / sqrt(12) and are at most sqrt(3) times that.
const CALL_DEVIATIONS: f64 = 4.0;
/// Outputs per thread that are worth starting one.
const WORTH_A_THREAD: usize = 1 << 20;

/// One output of a product.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Output {
    pub(crate) value: f64,
    /// Largest error that passes.
    pub(crate) allowed: f64,
    /// Deviation that rounding the inputs is expected to cause.
    pub(crate) deviation: f64,
    /// Largest error of adding up in f32.
    pub(crate) summing: f64,
}

/// The inputs of a product, `[rows, cols]`.
struct Inputs {
    cols: usize,
    values: Vec<f64>,
    /// Rounding step and length of each block.
    blocks: Vec<(f64, f64)>,
}

impl Inputs {
    fn new(x: &[f32], cols: usize, step: f64) -> Inputs {
        let values: Vec<f64> = x.iter().copied().map(f64::from).collect();
        let block = |block: &[f64]| {
            let most = block.iter().fold(0f64, |most, x| most.max(x.abs()));
            (most * step, block.iter().map(|x| x * x).sum::<f64>().sqrt())
        };
        let blocks = values.chunks_exact(cols).flat_map(|row| row.chunks(BLOCK)).map(block).collect();
        Inputs { cols, values, blocks }
    }
}

/// How coarsely a backend may see the inputs of a product with weights of this format, relative to a block's largest:
/// as 8-bit blocks where the weights are blocks, else as finely as the weights themselves are stored.
pub fn input_step(format: Format) -> f64 {
    if format.block_len() > 1 {
        return Q8_STEP;
    }
    // From 1 to the next number that the format has: 2^-10 for half precision, 2^-7 for bfloat16.
    let (mut bytes, mut next) = ([0; 8], [0.0]);
    let bytes = &mut bytes[..format.block_bytes()];
    if format.encode_direct(&[1.0], bytes).is_err() {
        return 0.0;
    }
    bytes[0] += 1;
    format.decode(bytes, &mut next);
    f64::from(next[0]) - 1.0
}

/// The outputs `columns` of `w @ x[t]` for every row of `x`: `[columns, rows]`. A backend that is `exact` rounds sums alone.
pub(crate) fn product(w: &Tensor, x: &[f32], columns: &[usize], exact: bool) -> Vec<Output> {
    let inputs = Inputs::new(x, w.cols, if exact { 0.0 } else { input_step(w.format) });
    let rows = x.len() / w.cols.max(1);
    let mut out = vec![Output::default(); columns.len() * rows];
    if out.is_empty() {
        return out;
    }
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(columns.len() * x.len() / WORTH_A_THREAD).max(1);
    if threads == 1 {
        multiply(w, &inputs, columns, &mut out);
        return out;
    }
    let share = columns.len().div_ceil(threads);
    thread::scope(|scope| {
        for (columns, out) in columns.chunks(share).zip(out.chunks_mut(share * rows)) {
            let inputs = &inputs;
            scope.spawn(move || multiply(w, inputs, columns, out));
        }
    });
    out
}

fn multiply(w: &Tensor, inputs: &Inputs, columns: &[usize], out: &mut [Output]) {
    let rows = inputs.values.len() / inputs.cols;
    let (mut decoded, mut weights) = (vec![0f32; w.cols], vec![0f64; w.cols]);
    let blocks = w.cols.div_ceil(BLOCK);
    let mut sums = vec![(0.0, 0.0); blocks];
    // Sixteen lanes and their reduction, each step rounding by at most 2^-24 of what is added up.
    let gamma = (w.cols as f64 / 16.0 + 16.0) * f64::from(f32::EPSILON) / 2.0;
    for (&column, out) in columns.iter().zip(out.chunks_exact_mut(rows)) {
        w.format.decode(w.row(column), &mut decoded);
        weights.iter_mut().zip(&decoded).for_each(|(out, &w)| *out = f64::from(w));
        for (sums, block) in sums.iter_mut().zip(weights.chunks(BLOCK)) {
            *sums = block.iter().fold((0.0, 0.0), |(one, two): (f64, f64), w| (one + w.abs(), two + w * w));
        }
        let inputs = inputs.values.chunks_exact(w.cols).zip(inputs.blocks.chunks_exact(blocks));
        for (out, (x, steps)) in out.iter_mut().zip(inputs) {
            let (mut most, mut variance, mut size) = (0.0, 0.0, 0.0);
            for (&(one, two), &(step, length)) in sums.iter().zip(steps) {
                most += one * step / 2.0;
                variance += two * step * step / 12.0;
                // The sum of |w| |x| is at most the product of the lengths (Cauchy, Schwarz).
                size += two.sqrt() * length;
            }
            let deviation = variance.sqrt();
            let summing = gamma * size;
            let allowed = most.min(DEVIATIONS * deviation) + summing;
            *out = Output { value: dot(&weights, x), allowed, deviation, summing };
        }
    }
}

/// Eight partial sums, so that the compiler may use vectors: f64 has room to spare.
fn dot(w: &[f64], x: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let ((w, w_rest), (x, x_rest)) = (w.as_chunks::<8>(), x.as_chunks::<8>());
    for (w, x) in w.iter().zip(x) {
        for lane in 0..8 {
            lanes[lane] += w[lane] * x[lane];
        }
    }
    let rest: f64 = w_rest.iter().zip(x_rest).map(|(w, x)| w * x).sum();
    lanes.iter().sum::<f64>() + rest
}

/// The error of a call as a whole and its bound, both relative to the expected values' root mean square.
pub(crate) fn whole(got: impl Iterator<Item = f32>, expected: &[Output]) -> (f64, f64) {
    let (mut error, mut size, mut variance, mut summing) = (0.0, 0.0, 0.0, 0.0);
    for (got, expected) in got.zip(expected) {
        error += (f64::from(got) - expected.value).powi(2);
        size += expected.value * expected.value;
        variance += expected.deviation * expected.deviation;
        summing += expected.summing * expected.summing;
    }
    let scale = size.sqrt().max(FLOOR);
    (error.sqrt() / scale, (CALL_DEVIATIONS * variance.sqrt() + summing.sqrt()) / scale)
}

/// Which outputs of a matrix are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    /// Every one.
    All,
    /// This many at most: the first and last, where tiles begin and end, and others spread between.
    Sampled(usize),
}

impl Columns {
    /// Ascending indices below `len`.
    pub(crate) fn of(self, len: usize) -> Vec<usize> {
        match self {
            Columns::Sampled(count) if count < len => {
                let edge = count / 4;
                let (middle, between) = (count - 2 * edge, len - 2 * edge);
                let spread = (0..middle).map(|i| {
                    let (first, next) = (i * between / middle, (i + 1) * between / middle);
                    // A place within the stretch that differs from one to the next, so that no period goes unseen.
                    edge + first + i.wrapping_mul(0x9e37_79b9) % (next - first).max(1)
                });
                (0..edge).chain(spread).chain(len - edge..len).collect()
            }
            _ => (0..len).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_ascending_and_have_the_edges() {
        for (count, len) in [(64, 2048), (64, 65), (64, 64), (64, 3), (4, 1000), (2, 10)] {
            let columns = Columns::Sampled(count).of(len);
            assert_eq!(columns.len(), count.min(len), "{count} of {len}");
            assert!(columns.is_sorted_by(|a, b| a < b) && columns.iter().all(|&c| c < len), "{columns:?}");
            if count >= 4 {
                assert_eq!((columns[0], columns[columns.len() - 1]), (0, len - 1));
            }
        }
    }

    #[test]
    fn inputs_may_be_as_coarse_as_the_weights() {
        let cases = [
            (Format::F32, 2f64.powi(-23)),
            (Format::F16, 2f64.powi(-10)),
            (Format::Bf16, 2f64.powi(-7)),
            (Format::I16, 0.0),
            (Format::Q8_0, 1.0 / 120.0),
            (Format::Q4K, 1.0 / 120.0),
        ];
        for (format, expected) in cases {
            assert_eq!(input_step(format), expected, "{format}");
        }
    }

    /// A backend of 8-bit inputs is within the bounds, and the bounds are narrow enough for a single wrong output.
    #[test]
    fn bounds_hold_for_rounded_inputs_and_for_little_more() {
        const COLS: usize = 2048;
        const ROWS: usize = 300;
        let mut random = candor_testing::Random(3);
        let mut floats = |count: usize| -> Vec<f32> { (0..count).map(|_| random.signed()).collect() };
        let (values, x) = (floats(ROWS * COLS), floats(COLS));
        let mut bytes = vec![0; Format::Q8_0.row_bytes(values.len()).unwrap()];
        Format::Q8_0.encode(&values, &mut bytes).unwrap();
        let w = Tensor { name: "w".into(), format: Format::Q8_0, rows: ROWS, cols: COLS, bytes: bytes.into() };
        // Blocks of 32 bytes with a scale, as the processor's kernels have them.
        let rounded: Vec<f32> = x
            .chunks(32)
            .flat_map(|block| {
                let scale = block.iter().fold(0f32, |most, x| most.max(x.abs())) / 127.0;
                block.iter().map(move |x| (x / scale).round() * scale)
            })
            .collect();
        let columns: Vec<usize> = (0..ROWS).collect();
        let (exact, seen) = (product(&w, &x, &columns, false), product(&w, &rounded, &columns, false));
        let size = (exact.iter().map(|output| output.value.powi(2)).sum::<f64>() / ROWS as f64).sqrt();
        for (exact, seen) in exact.iter().zip(&seen) {
            assert!((exact.value - seen.value).abs() < exact.allowed / 2.0, "{exact:?} {seen:?}");
            assert!(exact.allowed < 0.08 * size, "{exact:?}, outputs of size {size}");
        }
        let (error, bound) = whole(seen.iter().map(|output| output.value as f32), &exact);
        assert!(error < bound / 2.0 && bound < 0.03, "{error} {bound}");
        // A backend that promises not to round them is not within its bounds.
        let strict = product(&w, &x, &columns, true);
        let (error, bound) = whole(seen.iter().map(|output| output.value as f32), &strict);
        assert!(error > 2.0 * bound, "{error} {bound}");
    }

    #[test]
    fn a_product_takes_a_row_of_the_matrix_per_output() {
        let values = [1f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let w = Tensor { name: "w".into(), format: Format::F32, rows: 3, cols: 2, bytes: bytes.into() };
        let got: Vec<f64> =
            product(&w, &[1.0, 10.0, -1.0, 0.5], &[0, 2], false).iter().map(|output| output.value).collect();
        assert_eq!(got, [21.0, 0.0, 65.0, -2.0]);
    }
}
