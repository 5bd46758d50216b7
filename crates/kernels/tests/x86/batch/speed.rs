//! Not a test: how fast inputs are packed, weights unpacked and both multiplied, on one thread; tiles only by a processor
//! that has them. `cargo test --release -p candor-kernels --test x86 speed -- --ignored --nocapture`

use std::hint::black_box;
use std::time::Instant;

use candor_quant::Format;

use super::random::Random;
use super::{formats, has_bf16, tables};
use candor_kernels::inside::x86::Amx;
use candor_kernels::inside::x86::batch::{self, BLOCK_ROWS, Form, Panel, Unpack, packing};
use candor_kernels::{BatchTask, Kernels, Line};

const COLS: usize = 2048;
const INPUTS: usize = 512;
/// More than the last cache holds.
const STREAM_BYTES: usize = 96 << 20;

/// Seconds of the best of some runs: other work on the machine only ever slows one down.
fn best(runs: usize, mut run: impl FnMut()) -> f64 {
    let mut timed = || {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    (0..runs).map(|_| timed()).fold(f64::INFINITY, f64::min)
}

/// Rows repeated to `bytes` bytes.
fn rows(format: Format, bytes: usize) -> Vec<u8> {
    let some = Random::new(1).weights(format, BLOCK_ROWS, COLS);
    some.repeat(bytes.div_ceil(some.len()))
}

/// Unpacks all rows as a product would: 32 rows of a panel, then the next panel.
fn unpack_all<W: Unpack>(w: &[u8], panel: &mut Panel) {
    let row_bytes = W::FORMAT.row_bytes(COLS).expect("whole blocks");
    let panel_bytes = W::FORMAT.row_bytes(W::FORM.panel_cols()).expect("whole blocks");
    for rows in w.chunks_exact(row_bytes * BLOCK_ROWS) {
        for start in (0..row_bytes).step_by(panel_bytes) {
            for (r, row) in rows.chunks_exact(row_bytes).enumerate() {
                // SAFETY: `has_bf16` found the features.
                unsafe { W::unpack(&row[start..start + panel_bytes], panel, r) };
            }
            black_box(&mut *panel);
        }
    }
}

fn unpacking<W: Unpack>() {
    let mut panel: Panel = [[Line::ZERO; BLOCK_ROWS]; batch::PANEL_LINES / BLOCK_ROWS];
    let w = rows(W::FORMAT, STREAM_BYTES);
    let block_bytes = W::FORMAT.row_bytes(COLS).expect("whole blocks") * BLOCK_ROWS;
    print!("unpack {:8}", W::FORMAT.name());
    let weights = (BLOCK_ROWS * COLS) as f64;
    for name in ["hot", "from memory"] {
        // Windows shorter than the time slice of a busy machine.
        let mut windows = w.chunks_exact(8 * block_bytes).cycle();
        let window = windows.next().expect("many");
        let seconds = best(if name == "hot" { 200 } else { 800 }, || {
            let w = if name == "hot" { window } else { windows.next().expect("endless") };
            let count = if name == "hot" { 8 } else { 1 };
            let w = if name == "hot" { &w[..block_bytes] } else { w };
            (0..count).for_each(|_| unpack_all::<W>(black_box(w), &mut panel));
        }) / 8.0;
        let (bytes, block) = (block_bytes as f64 / seconds / 1e9, 256.0 * seconds / weights * 1e9);
        print!("  {name}: {bytes:6.2} GB/s, {block:6.1} ns per 256");
    }
    println!();
}

fn pack() {
    let x = Random::new(2).inputs(INPUTS * COLS);
    for packing in [Form::F32, Form::Bf16, Form::TwoBf16].map(packing) {
        let mut lines = vec![Line::ZERO; packing.room(INPUTS, COLS)];
        let seconds = best(50, || {
            for (index, piece) in lines.chunks_mut(packing.lines).enumerate() {
                (packing.pack)(piece, black_box(&x), COLS, index);
            }
        });
        let bytes = (4 * x.len()) as f64;
        println!(
            "pack {:?}: {:.2} GB/s of floats, {:.3} ms for {INPUTS} x {COLS}",
            packing.form,
            bytes / seconds / 1e9,
            seconds * 1e3
        );
    }
}

/// TFLOP/s with inputs packed before.
fn multiplying(table: &Kernels) {
    const ROWS: usize = 1024;
    let x = Random::new(3).inputs(INPUTS * COLS);
    for (format, kernels) in formats(table) {
        let w = rows(format, ROWS * format.row_bytes(COLS).expect("whole blocks"));
        let mut packed = vec![Line::ZERO; kernels.packing.room(INPUTS, COLS)];
        for (index, piece) in packed.chunks_mut(kernels.packing.lines).enumerate() {
            (kernels.packing.pack)(piece, &x, COLS, index);
        }
        let mut scratch = vec![Line::ZERO; (kernels.scratch)(ROWS, INPUTS)];
        print!("multiply {} {:8}", table.name, format.name());
        let seconds = best(20, || {
            let task = BatchTask { w: &w, rows: ROWS, cols: COLS, inputs: INPUTS, x: &packed, scratch: &mut scratch };
            (kernels.mat)(task, &mut |_, outputs| {
                black_box(outputs);
            });
        });
        println!("  {:.2} TFLOP/s", 2.0 * (ROWS * COLS * INPUTS) as f64 / seconds / 1e12);
    }
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    if !has_bf16() {
        return;
    }
    pack();
    unpacking::<batch::Q2K>();
    unpacking::<batch::Q3K>();
    unpacking::<batch::Q4K>();
    unpacking::<batch::Q5K>();
    unpacking::<batch::Q6K>();
    unpacking::<batch::Q8_0>();
    unpacking::<batch::Q4_0>();
    unpacking::<batch::F16>();
    unpacking::<batch::Bf16>();
    unpacking::<batch::Iq4Xs>();
    unpacking::<batch::Q4_1>();
    unpacking::<batch::Q5_0>();
    unpacking::<batch::Q5_1>();
    unpacking::<batch::Iq4Nl>();
    unpacking::<batch::Mxfp4>();
    unpacking::<batch::Nvfp4>();
    unpacking::<batch::Iq1S>();
    unpacking::<batch::Iq1M>();
    unpacking::<batch::Iq2Xxs>();
    unpacking::<batch::Iq2Xs>();
    unpacking::<batch::Iq2S>();
    unpacking::<batch::Iq3Xxs>();
    unpacking::<batch::Iq3S>();
    unpacking::<batch::Tq1_0>();
    unpacking::<batch::Tq2_0>();
    for table in tables() {
        if table.name != "amx" || Amx::detect().is_some() {
            multiplying(table);
        }
    }
}
