//! WebAssembly: every row of every table gives the bits of the scalar one, and these are the same in all modules.
#![cfg(target_family = "wasm")]

#[allow(dead_code, reason = "shared with the tests of other kernels")]
mod cases;

use candor_kernels::{Activations, Kernels, MatKernels, OutTile, Queries, Weights, padded};
use candor_quant::Format;
use cases::{Inputs, Random, weights};

/// Which function of a row, and the bits of what it gives.
type Row = (&'static str, Format, Vec<u32>);

fn bits(values: &[f32]) -> impl Iterator<Item = u32> {
    values.iter().map(|value| value.to_bits())
}

/// Products of rows and of tiles, their ends and those of segments among them.
fn products(kernels: &MatKernels, format: Format) -> Vec<u32> {
    let mut all = Vec::new();
    for (blocks, rows, inputs) in [(1, 3, 1), (2, 9, 2), (5, 11, 5), (8, 8, 1), (41, 5, 3), (19, 33, 1)] {
        let cols = blocks * format.block_len().max(32) - if format.block_len() == 1 { 5 } else { 0 };
        let random = &mut Random::new(cols as u64);
        let (w, x) = (weights(format, rows, cols, random), Inputs::new(inputs, cols, random));
        let x = if kernels.q8 { Activations::Q8(x.q8(0..inputs)) } else { x.f32(0..inputs) };
        let mut out = vec![f32::NAN; inputs * rows];
        (kernels.mat)(OutTile { values: &mut out, stride: rows }, w.bytes(), rows, x);
        all.extend(bits(&out));
    }
    all
}

/// Scores, and mixes with them as weights.
fn attention(table: &Kernels, format: Format) -> Option<Vec<u32>> {
    const DIM: usize = 96;
    const POSITIONS: usize = 48;
    let kernels = (table.attention)(format)?;
    let (panel, row) = (kernels.panel_bytes(DIM)?, kernels.row_bytes(DIM)?);
    let mut all = Vec::new();
    for queries in [1, 2, 5] {
        let mut random = Random::new(queries as u64);
        let mut floats = |count: usize| (0..count).map(|_| random.signed()).collect::<Vec<f32>>();
        let (q, x) = (floats(queries * DIM), floats(POSITIONS * DIM));
        let (mut keys, mut values) = (vec![0; POSITIONS / 16 * panel], vec![0; POSITIONS * row]);
        for (p, x) in x.chunks_exact(DIM).enumerate() {
            (kernels.put_key)(&mut keys[p / 16 * panel..][..panel], p % 16, x);
            (kernels.put_value)(&mut values[p * row..][..row], x);
        }
        let (mut scores, mut mixed) = (vec![0.0; queries * POSITIONS], vec![0.0; queries * padded(DIM)]);
        let tile = OutTile { values: &mut scores, stride: POSITIONS };
        (kernels.scores)(tile, Queries { dim: DIM, values: &q }, &keys);
        let counts: Vec<usize> = (0..queries).map(|i| POSITIONS - i).collect();
        (kernels.mix)(&mut mixed, Weights { values: &scores, stride: POSITIONS, counts: &counts }, &values);
        all.extend(bits(&scores).chain(bits(&mixed)));
    }
    Some(all)
}

/// What all rows of a table, and of its exact one, give.
fn rows(table: &Kernels) -> Vec<Row> {
    let mut rows = Vec::new();
    for &format in Format::ALL {
        let mut add = |what, row: Option<Vec<u32>>| rows.extend(row.map(|bits| (what, format, bits)));
        add("mat", (table.mat)(format).map(|kernels| products(&kernels, format)));
        add("exact mat", (table.exact.mat)(format).map(|kernels| products(&kernels, format)));
        add("attention", attention(table, format));
    }
    rows
}

#[test]
fn every_row_of_every_table_has_the_bits_of_the_scalar_one() {
    let scalar = rows(Kernels::scalar());
    for table in Kernels::available().skip(1) {
        let rows = rows(table);
        assert_eq!(rows.len(), scalar.len(), "{}", table.name);
        for ((what, format, bits), expected) in rows.iter().zip(&scalar) {
            assert_eq!((*what, *format), (expected.0, expected.1), "{}", table.name);
            assert!(*bits == expected.2, "{} {what} {format}", table.name);
        }
    }
}

/// The number is the same in a module without vectors, with simd128 and with relaxed-simd, on any engine. A new row changes it:
/// the failure says what it is then.
#[test]
fn all_modules_give_the_same_bits() {
    for table in Kernels::available() {
        let all = rows(table).into_iter().flat_map(|(_, _, bits)| bits);
        // FNV-1a, word by word.
        let digest =
            all.fold(0xcbf2_9ce4_8422_2325u64, |digest, bits| (digest ^ u64::from(bits)).wrapping_mul(0x100_0000_01b3));
        assert_eq!(digest, 0xa863_832b_87d1_cdb2, "{}: {digest:#x}", table.name);
    }
}
