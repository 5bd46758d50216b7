//! Tables that round no input: which formats they have, and that weights are what decoding says, to the bit.

use candor_kernels::{Activations, BatchKernels, BatchTask, Form, Kernels, Line, MatKernels, OutTile};
use candor_quant::Format;

use crate::cases::{Inputs, Random, weights};

/// The tables, each once.
fn tables() -> impl Iterator<Item = &'static Kernels> {
    Kernels::all().filter(|table| table.name.ends_with("-f32"))
}

/// Columns whose weights are looked at: all of them in turn, or with Miri a few.
const STEP: usize = if cfg!(miri) { 61 } else { 1 };

#[test]
fn every_table_has_one_that_takes_floats_alone() {
    for table in Kernels::all() {
        let exact = table.exact;
        assert!(exact.name.ends_with("-f32"), "{}: {}", table.name, exact.name);
        assert!(std::ptr::eq(exact.exact, exact), "{}", exact.name);
        assert!(Kernels::named(exact.name).is_err(), "{} is no instruction set", exact.name);
        for &format in Format::ALL {
            let (rows, batch) = ((exact.mat)(format), (exact.batch)(format));
            assert_eq!(rows.is_some(), (table.mat)(format).is_some(), "{} {format}", table.name);
            assert!(rows.is_none_or(|kernels| !kernels.q8), "{} {format}", exact.name);
            assert!(batch.is_none_or(|batch| batch.packing.form == Form::F32), "{} {format}", exact.name);
            if let Some(attention) = (exact.attention)(format) {
                assert!(attention.block.is_none(), "{} {format}", exact.name);
            }
        }
    }
}

/// Inputs that are 1 in one column and 0 elsewhere, a row for each column.
fn ones(cols: usize) -> Vec<f32> {
    let mut x = vec![0.0; cols.div_ceil(STEP) * cols];
    x.chunks_exact_mut(cols).enumerate().for_each(|(t, row)| row[t * STEP] = 1.0);
    x
}

fn check(got: &[f32], decoded: &[f32], (rows, cols): (usize, usize), case: &str) {
    for (i, &got) in got.iter().enumerate() {
        let (t, o) = (i / rows, i % rows);
        let want = decoded[o * cols + t * STEP];
        // The sum with zeros leaves all bits but the sign of a zero.
        assert!(got == want, "{case}: weight {o} {} is {got}, not {want}", t * STEP);
    }
}

#[test]
fn weights_are_what_decoding_says_to_the_bit() {
    const ROWS: usize = 7;
    for &format in Format::ALL.iter().filter(|format| format.block_len() > 1) {
        for (seed, blocks) in [(1, 1), (2, 5)] {
            let cols = blocks * format.block_len().max(64);
            let w = weights(format, ROWS, cols, &mut Random::new(seed));
            let (x, decoded) = (ones(cols), w.decode());
            if decoded.iter().any(|w| !w.is_finite()) {
                continue; // Q8_1 and Q8_K, which have no kernels
            }
            for table in tables() {
                let case = format!("{} {format} {cols}", table.name);
                let Some(kernels) = (table.mat)(format) else { continue };
                let inputs = x.len() / cols;
                let mut out = vec![f32::NAN; inputs * ROWS];
                let all = Activations::F32 { cols, values: &x };
                (kernels.mat)(OutTile { values: &mut out, stride: ROWS }, w.bytes(), ROWS, all);
                check(&out, &decoded, (ROWS, cols), &case);
                for (t, x) in x.chunks_exact(cols).enumerate().step_by(17) {
                    let mut one = [f32::NAN; ROWS];
                    let x = Activations::F32 { cols, values: x };
                    (kernels.mat)(OutTile { values: &mut one, stride: ROWS }, w.bytes(), ROWS, x);
                    assert_eq!(one, out[t * ROWS..][..ROWS], "{case}: input {t} alone");
                }
                if let Some(batch) = (table.batch)(format) {
                    check(&packed(&batch, w.bytes(), ROWS, cols, &x), &decoded, (ROWS, cols), &case);
                }
            }
        }
    }
}

/// Sums have the order of F32 rows: of segments, parts of one, and rows that are no whole tile; for one input and for several.
#[test]
fn blocks_are_multiplied_as_rows_of_floats_to_the_bit() {
    let shapes: &[(usize, usize)] = if cfg!(miri) { &[(256, 2)] } else { &[(256, 1), (1280, 5), (2560, 9)] };
    for &format in Format::ALL.iter().filter(|format| format.block_len() > 1) {
        for table in tables() {
            let Some(kernels) = (table.mat)(format) else { continue };
            let floats = (table.mat)(Format::F32).expect("every table has it");
            for &(cols, rows) in shapes {
                let random = &mut Random::new((cols + rows) as u64);
                let (w, x) = (weights(format, rows, cols, random), Inputs::new(3, cols, random));
                let decoded: Vec<u8> = w.decode().into_iter().flat_map(f32::to_le_bytes).collect();
                for inputs in [0..1, 0..3] {
                    let product = |kernels: &MatKernels, w: &[u8]| {
                        let mut out = vec![f32::NAN; inputs.len() * rows];
                        let tile = OutTile { values: &mut out, stride: rows };
                        (kernels.mat)(tile, w, rows, x.f32(inputs.clone()));
                        out.into_iter().map(f32::to_bits).collect::<Vec<_>>()
                    };
                    let case = format!("{} {format} cols {cols} rows {rows} inputs {inputs:?}", table.name);
                    assert_eq!(product(&kernels, w.bytes()), product(&floats, &decoded), "{case}");
                }
            }
        }
    }
}

fn packed(kernels: &BatchKernels, w: &[u8], rows: usize, cols: usize, x: &[f32]) -> Vec<f32> {
    let inputs = x.len() / cols;
    let mut lines = vec![Line::ZERO; kernels.packing.room(inputs, cols)];
    for (index, piece) in lines.chunks_mut(kernels.packing.lines).enumerate() {
        (kernels.packing.pack)(piece, x, cols, index);
    }
    let mut scratch = vec![Line::ZERO; (kernels.scratch)(rows, inputs)];
    let mut out = Vec::new();
    let task = BatchTask { w, rows, cols, inputs, x: &lines, scratch: &mut scratch };
    (kernels.mat)(task, &mut |_, values| out.extend_from_slice(values));
    out
}
