//! Speed of every matrix kernel on one thread: `cargo bench -p candor-kernels -- [TABLE] [FORMAT] [INPUTS,...]`.
//!
//! Decode: one input row, weights streamed from memory, GB/s of weight bytes. Cached: the same of weights in the
//! second-level cache, where instructions alone count. Prompt: up to 512 input rows, GMAC/s.
//! With numbers of inputs: nanoseconds per weight row, streamed from memory, of the row kernels and of the batch kernels.
//! Best of several passes, since other work on the machine only ever slows a pass down.

use std::hint::black_box;
use std::time::Instant;

use candor_kernels::{Activations, BatchKernels, BatchTask, Kernels, Line, MatKernels, OutTile, Q8RowMut, Q8Rows};
use candor_quant::Format;

const COLS: usize = 2048;
/// Weight rows per call of a prompt, as a thread pool would deal them out.
const CHUNK_ROWS: usize = 64;
/// The same of decoding: long runs of memory are read faster.
const DECODE_ROWS: usize = 512;
/// More than the last cache holds.
const STREAM_BYTES: usize = 640 << 20;
/// Less than the second-level cache holds.
const CACHED_BYTES: usize = 256 << 10;
/// Weight bytes between two looks at the clock while streaming: under the time slice of a busy machine.
const WINDOW_BYTES: usize = 4 << 20;
/// Inputs with which a window is worth several chunks, and a chunk of a thread pool has as many rows as with one.
const FEW_INPUTS: usize = 32;
const PROMPT_ROWS: usize = 1024;
const PROMPT_INPUTS: [usize; 5] = [2, 3, 8, 32, 512];

/// Inputs in both forms.
struct Inputs {
    values: Vec<f32>,
    quants: Vec<i8>,
    scales: Vec<f32>,
    sums: Vec<i16>,
}

impl Inputs {
    fn new(rows: usize) -> Inputs {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        let values: Vec<f32> = (0..rows * COLS).map(|_| next()).collect();
        let (mut quants, mut scales) = (vec![0; values.len()], vec![0.0; values.len() / 32]);
        let mut sums = vec![0; values.len() / 16];
        let out = Q8RowMut { quants: &mut quants, scales: &mut scales, sums: &mut sums };
        (Kernels::best().f32.quantize_q8)(out, &values);
        Inputs { values, quants, scales, sums }
    }

    fn rows(&self, kernels: &MatKernels, rows: usize) -> Activations<'_> {
        if kernels.q8 {
            Activations::Q8(Q8Rows {
                cols: COLS,
                quants: &self.quants[..rows * COLS],
                scales: &self.scales[..rows * COLS / 32],
                sums: &self.sums[..rows * COLS / 16],
            })
        } else {
            Activations::F32 { cols: COLS, values: &self.values[..rows * COLS] }
        }
    }
}

/// Seconds per weight row in the best of the windows of `WINDOW_BYTES` that a pass over `rows` rows consists of.
fn pass(kernels: &MatKernels, format: Format, w: &[u8], rows: usize, x: Activations<'_>, out: &mut [f32]) -> f64 {
    let x_rows = match x {
        Activations::F32 { cols, values } => values.len() / cols,
        Activations::Q8(x) => x.quants.len() / x.cols,
    };
    let row_bytes = format.row_bytes(COLS).expect("whole blocks");
    let chunk = if x_rows <= FEW_INPUTS { DECODE_ROWS } else { CHUNK_ROWS };
    let window = if x_rows <= FEW_INPUTS { (WINDOW_BYTES / row_bytes).next_multiple_of(chunk) } else { chunk };
    let window = window.min(rows);
    let mut least = f64::INFINITY;
    for from in (0..rows + 1 - window).step_by(window) {
        let start = Instant::now();
        for first in (from..from + window).step_by(chunk) {
            let count = chunk.min(from + window - first);
            let w = &w[first * row_bytes..][..count * row_bytes];
            (kernels.mat)(OutTile { values: out, stride: chunk }, black_box(w), count, x);
        }
        black_box(&mut *out);
        least = least.min(start.elapsed().as_secs_f64() / window as f64);
    }
    least
}

/// The same of a batch kernel; its inputs are packed before.
fn batch_pass(kernels: &BatchKernels, format: Format, w: &[u8], x: &[f32]) -> f64 {
    let row_bytes = format.row_bytes(COLS).expect("whole blocks");
    let inputs = x.len() / COLS;
    let mut packed = vec![Line::ZERO; kernels.packing.room(inputs, COLS)];
    for (index, piece) in packed.chunks_mut(kernels.packing.lines).enumerate() {
        (kernels.packing.pack)(piece, x, COLS, index);
    }
    let mut scratch = vec![Line::ZERO; (kernels.scratch)(PROMPT_ROWS, inputs)];
    let w = &w[..PROMPT_ROWS * row_bytes];
    let start = Instant::now();
    let task = BatchTask { w, rows: PROMPT_ROWS, cols: COLS, inputs, x: &packed, scratch: &mut scratch };
    (kernels.mat)(task, &mut |_, values| {
        black_box(values);
    });
    start.elapsed().as_secs_f64() / PROMPT_ROWS as f64
}

/// Random bytes without infinite or NaN halves; of plain numbers, rows of `values`: random bits would be subnormal now
/// and then, which costs a processor a hundred cycles each.
fn weights(format: Format, bytes: usize, values: &[f32]) -> Vec<u8> {
    if format.can_encode() && format.block_len() == 1 {
        let mut row = vec![0; format.row_bytes(COLS).expect("whole blocks")];
        format.encode(&values[..COLS], &mut row).expect("can_encode said so");
        return row.repeat(bytes / row.len());
    }
    let mut state = 1u64;
    let words = (0..bytes / 8).map(|_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state & 0xbbff_bbff_bbff_bbff).to_le_bytes()
    });
    words.flatten().collect()
}

/// A line for each number of inputs.
fn by_number((table, format): (&Kernels, Format), numbers: &[usize], inputs: &Inputs, out: &mut [f32]) {
    let Some(kernels) = (table.mat)(format) else { return };
    let weights = weights(format, STREAM_BYTES, &inputs.values);
    let rows = weights.len() / format.row_bytes(COLS).expect("whole blocks");
    for &count in numbers {
        let x = inputs.rows(&kernels, count);
        let time = best(4, || pass(&kernels, format, &weights, rows, x, out));
        print!("{:10} {:8} {count:6} {:12.1}", table.name, format.name(), time * 1e9);
        match (table.batch)(format) {
            Some(batch) => {
                let x = &inputs.values[..count * COLS];
                println!(" {:12.1}", best(24, || batch_pass(&batch, format, &weights, x)) * 1e9);
            }
            None => println!(),
        }
    }
}

fn best(passes: usize, mut pass: impl FnMut() -> f64) -> f64 {
    (0..passes).map(|_| pass()).fold(f64::INFINITY, f64::min)
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let is_wanted = |name: &str| wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(name));
    let tables: Vec<_> = Kernels::all().collect();
    let one_table = tables.iter().any(|table| is_wanted(table.name));
    let one_format = Format::ALL.iter().any(|format| is_wanted(format.name()));
    let numbers = wanted.iter().find_map(|argument| {
        let numbers: Result<Vec<usize>, _> = argument.split(',').map(str::parse).collect();
        numbers.ok()
    });

    let most = numbers.iter().flatten().chain(&PROMPT_INPUTS).copied().max().expect("not empty");
    let inputs = Inputs::new(most);
    let mut out = vec![0.0; most * CHUNK_ROWS];
    if let Some(numbers) = numbers {
        println!("{:10} {:8} {:>6} {:>12} {:>12}", "table", "format", "inputs", "rows ns", "batch ns");
        for table in tables.iter().filter(|table| !one_table || is_wanted(table.name)) {
            for &format in Format::ALL.iter().filter(|format| !one_format || is_wanted(format.name())) {
                by_number((table, format), &numbers, &inputs, &mut out);
            }
        }
        return;
    }
    print!("{:8} {:8} {:>12} {:>12}", "table", "format", "decode GB/s", "cached GB/s");
    for inputs in PROMPT_INPUTS {
        print!(" {:>12}", format!("x{inputs} GMAC/s"));
    }
    println!();
    for table in tables.iter().filter(|table| !one_table || is_wanted(table.name)) {
        let slow = table.name.starts_with("scalar");
        for &format in Format::ALL.iter().filter(|format| !one_format || is_wanted(format.name())) {
            let Some(kernels) = (table.mat)(format) else { continue };
            let row_bytes = format.row_bytes(COLS).expect("whole blocks");
            let bytes = if slow { STREAM_BYTES / 16 } else { STREAM_BYTES };
            let weights = weights(format, bytes, &inputs.values);
            let rows = bytes / row_bytes;
            let passes = if slow { 2 } else { 6 };
            let time = best(passes, || pass(&kernels, format, &weights, rows, inputs.rows(&kernels, 1), &mut out));
            print!("{:8} {:8} {:12.2}", table.name, format.name(), row_bytes as f64 / time / 1e9);
            let rows = CACHED_BYTES / row_bytes;
            let time =
                best(passes * 100, || pass(&kernels, format, &weights, rows, inputs.rows(&kernels, 1), &mut out));
            print!(" {:12.2}", row_bytes as f64 / time / 1e9);
            for count in PROMPT_INPUTS {
                let rows = if slow { PROMPT_ROWS / 8 } else { PROMPT_ROWS };
                let time = match (table.batch)(format).filter(|batch| batch.least <= count) {
                    Some(batch) => {
                        let x = &inputs.values[..count * COLS];
                        best(passes * 4, || batch_pass(&batch, format, &weights, x))
                    }
                    None => {
                        let x = inputs.rows(&kernels, count);
                        best(passes * 4, || pass(&kernels, format, &weights, rows, x, &mut out))
                    }
                };
                print!(" {:12.1}", (COLS * count) as f64 / time / 1e9);
            }
            println!();
        }
    }
}
