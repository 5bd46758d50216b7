//! Inputs made of the sums of two products against those made of what the products hand out: the same bits.

use candor_kernels::{BatchKernels, BatchTask, Kernels, Line, Packing, SIDE, Sums};
use candor_quant::Format;

use super::products::product;
use super::random::{Random, columns};
use super::{formats, tables};

/// Inputs of a product, packed.
fn packed(packing: &Packing, x: &[f32], cols: usize) -> Vec<Line> {
    let mut lines = vec![Line::ZERO; packing.room(x.len() / cols, cols)];
    for (index, piece) in lines.chunks_mut(packing.lines).enumerate() {
        (packing.pack)(piece, x, cols, index);
    }
    lines
}

/// The sums of weight rows, a piece of the columns after the other, in memory that holds anything.
fn sums(kernels: &BatchKernels, w: &[u8], (rows, cols, inputs): (usize, usize, usize), x: &[Line]) -> Vec<Sums> {
    let mut sums = vec![[Line([0x7fc1_2345; 16]); _]; rows.div_ceil(SIDE) * inputs.div_ceil(SIDE)];
    for piece in 0..cols.div_ceil(kernels.packing.cols) {
        let task = BatchTask { w, rows, cols, inputs, x, scratch: sums.as_flattened_mut() };
        (kernels.sums.expect("the caller looked"))(task, piece);
    }
    sums
}

fn check(
    table: &Kernels,
    (format, kernels): (Format, BatchKernels),
    last: &Packing,
    (rows, cols, inputs): (usize, usize, usize),
) {
    let Some(fill) = last.gate else { return };
    let case = format!("{} {format} to {:?}: {rows} x {cols}, {inputs} inputs", table.name, last.form);
    let mut random = Random::new((rows * 1000 + cols + inputs) as u64);
    let weights = [(); 2].map(|()| random.weights(format, rows, cols));
    let x = random.inputs(inputs * cols);
    let [mut gated, up] = weights.each_ref().map(|w| product(&kernels, w, rows, cols, &x));
    (table.f32.swiglu)(&mut gated, &up);
    let expected = packed(last, &gated, rows);

    let x = packed(kernels.packing, &x, cols);
    let [gate, up] = weights.each_ref().map(|w| sums(&kernels, w, (rows, cols, inputs), &x));
    let blocks = inputs.div_ceil(SIDE);
    let mut filled = vec![false; expected.len()];
    for (i, (gate, up)) in gate.iter().zip(&up).enumerate() {
        let (row, input) = (i / blocks * SIDE, i % blocks * SIDE);
        let range = last.block(inputs, input, row);
        let mut block = vec![Line([0x7777_7777; 16]); range.len()];
        fill(&mut block, gate, up, rows - row);
        for (place, line) in range.zip(&block) {
            assert!(!filled[place], "{case}: line {place} twice");
            filled[place] = true;
            assert_eq!(line.0, expected[place].0, "{case}: line {place}");
        }
    }
    let missing = expected.iter().zip(&filled).position(|(line, &filled)| !filled && line.0 != [0; 16]);
    assert_eq!(missing, None, "{case}: a line that nothing filled");
}

#[test]
fn sums_become_the_inputs_that_their_rows_would() {
    for table in tables() {
        let last = [Format::Q8_0, Format::Bf16, Format::F16, Format::F32];
        let last = last.map(|format| (table.batch)(format).map(|kernels| kernels.packing));
        for (format, kernels) in formats(table).filter(|(_, kernels)| kernels.sums.is_some()) {
            let shapes = [(32, 256, 1), (45, 600, 17), (300, 512, 33), (545, 256, 15), (16, 1100, 50)];
            // All of them where they have most to do with each other.
            let shapes = if [Format::Q4K, Format::F16].contains(&format) { &shapes[..] } else { &shapes[1..2] };
            for &(rows, cols, inputs) in shapes {
                for last in last.into_iter().flatten() {
                    check(table, (format, kernels), last, (rows, columns(format, cols), inputs));
                }
            }
        }
    }
}
