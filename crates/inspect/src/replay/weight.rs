//! Weights for replay: decoded, with the bytes at hand for faults that misread them.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use candor::Format;
use candor_ops::Tensor;

use crate::Value;

/// A decoded weight, `[rows][cols]`; a vector has one row.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
    /// How the bytes encode the values.
    pub format: Format,
    /// The elements.
    pub values: Vec<f32>,
}

impl Matrix {
    /// Decodes a weight.
    pub fn decode(tensor: &Tensor) -> Matrix {
        let mut matrix = Matrix {
            rows: tensor.rows,
            cols: tensor.cols,
            format: tensor.format,
            values: vec![0.0; tensor.rows * tensor.cols],
        };
        matrix.read(&tensor.bytes);
        matrix
    }

    /// One row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.cols..][..self.cols]
    }

    /// Takes over the elements that other bytes of the same length encode.
    pub fn read(&mut self, bytes: &[u8]) {
        let stride = bytes.len() / self.rows.max(1);
        if stride == 0 {
            return;
        }
        for (row, out) in bytes.chunks_exact(stride).zip(self.values.chunks_exact_mut(self.cols)) {
            self.format.decode(row, out);
        }
    }
}

/// Most bytes of decoded weights that are kept: those of a model of a billion parameters, where addresses reach that far.
const KEEP: u64 = if cfg!(target_pointer_width = "64") { 5 << 30 } else { 1 << 30 };

/// Decoded weights, kept while there is room.
#[derive(Default)]
pub struct Decoded {
    kept: RefCell<(usize, HashMap<String, Arc<Matrix>>)>,
}

impl Decoded {
    /// The decoded weight.
    pub fn get(&self, tensor: &Tensor) -> Arc<Matrix> {
        if let Some(matrix) = self.kept.borrow().1.get(&tensor.name) {
            return matrix.clone();
        }
        let matrix = Arc::new(Matrix::decode(tensor));
        let mut kept = self.kept.borrow_mut();
        if (kept.0 + matrix.values.len() * 4) as u64 > KEEP {
            *kept = (0, HashMap::new());
        }
        kept.0 += matrix.values.len() * 4;
        kept.1.insert(tensor.name.clone(), matrix.clone());
        matrix
    }
}

/// How products are summed; two right engines differ in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In sixteen lanes, front to back.
    Lanes,
    /// In one go, back to front.
    Reverse,
}

/// Computes the rows of `out`, dealt out to threads where there is enough to do.
fn fill(out: &mut Value, cost: usize, row: impl Fn(usize, &mut [f32]) + Sync) {
    let threads =
        if cost < 1 << 18 { 1 } else { std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(16) };
    let width = out.width.max(1);
    let each = out.rows.div_ceil(threads).max(1);
    let part = |first: usize, part: &mut [f32]| {
        part.chunks_exact_mut(width).enumerate().for_each(|(at, out)| row(first + at, out));
    };
    std::thread::scope(|scope| {
        let mut chunks = out.data.chunks_mut(each * width).enumerate();
        let mine = chunks.next();
        for (index, chunk) in chunks {
            let part = &part;
            scope.spawn(move || part(index * each, chunk));
        }
        if let Some((_, chunk)) = mine {
            part(0, chunk);
        }
    });
}

/// Rows that are multiplied back to front at once: each sum alone would wait for itself.
const TOGETHER: usize = 8;

/// The first `cols` columns of [`TOGETHER`] rows, then those of the next ones; zeros where there are fewer rows.
fn columns(x: &Value, cols: usize) -> Vec<[f32; TOGETHER]> {
    let mut columns = vec![[0.0; TOGETHER]; x.rows.div_ceil(TOGETHER) * cols];
    for t in 0..x.rows {
        let group = &mut columns[t / TOGETHER * cols..][..cols];
        group.iter_mut().zip(x.row(t)).for_each(|(column, &value)| column[t % TOGETHER] = value);
    }
    columns
}

/// [`Order::Reverse`]'s products of a row of weights with the rows of some columns.
fn reverse_dots(weights: &[f32], columns: &[[f32; TOGETHER]]) -> [f32; TOGETHER] {
    weights.iter().zip(columns).rev().fold([0.0; TOGETHER], |mut sums, (&weight, column)| {
        sums.iter_mut().zip(column).for_each(|(sum, &value)| *sum += weight * value);
        sums
    })
}

/// [`Order::Reverse`]'s products of some rows with one.
fn reverse_dots_of_rows(rows: [&[f32]; TOGETHER], x: &[f32]) -> [f32; TOGETHER] {
    let len = x.len().min(rows[0].len());
    let (rows, x) = (rows.map(|row| &row[..len]), &x[..len]);
    let mut sums = [0.0; TOGETHER];
    for at in (0..len).rev() {
        sums.iter_mut().zip(rows).for_each(|(sum, row)| *sum += row[at] * x[at]);
    }
    sums
}

/// `out[t] = w @ x[t]`.
pub fn multiply(x: &Value, w: &Matrix, order: Order) -> Value {
    let cols = w.cols.min(x.width);
    // As the transpose, so that a row of the matrix is read once and threads write to separate places.
    let mut transposed = Value::zeros(w.rows, x.rows);
    let together = if order == Order::Reverse { columns(x, cols) } else { Vec::new() };
    fill(&mut transposed, w.values.len() * x.rows, |row, outs| {
        let weights = &w.row(row)[..cols];
        match order {
            Order::Lanes => outs.iter_mut().enumerate().for_each(|(t, out)| *out = dot(weights, &x.row(t)[..cols])),
            Order::Reverse => {
                for (outs, columns) in outs.chunks_mut(TOGETHER).zip(together.chunks(cols.max(1))) {
                    outs.copy_from_slice(&reverse_dots(weights, columns)[..outs.len()]);
                }
            }
        }
    });
    let mut out = Value::zeros(x.rows, w.rows);
    if x.rows > 0 {
        for (row, outs) in transposed.data.chunks_exact(x.rows).enumerate() {
            outs.iter().enumerate().for_each(|(t, &value)| out.data[t * w.rows + row] = value);
        }
    }
    out
}

/// Products with several matrices, `[matrices * out][in]`. With a choice, pairs of a matrix and its weight for each row
/// of tokens: `out[place] = w[choice[place]] @ x[place]`, or `x` of the token where it has one row for all of its
/// places. Without, `x` has one part for each matrix, and so does the output.
pub fn multiply_stacked(x: &Value, w: &Matrix, matrices: usize, choice: Option<&Value>, order: Order) -> Value {
    let outs = w.rows / matrices.max(1);
    let product = |matrix: usize, x: &[f32], out: &mut [f32]| {
        let row = |o: usize| w.row(matrix * outs + o);
        match order {
            Order::Lanes => out.iter_mut().enumerate().for_each(|(o, out)| *out = dot(row(o), x)),
            Order::Reverse => {
                for (group, out) in out.chunks_mut(TOGETHER).enumerate() {
                    // Where there are fewer rows, the last one over again.
                    let rows = std::array::from_fn(|o| row(group * TOGETHER + o.min(out.len() - 1)));
                    out.copy_from_slice(&reverse_dots_of_rows(rows, x)[..out.len()]);
                }
            }
        }
    };
    let Some(choice) = choice else {
        let mut out = Value::zeros(x.rows, w.rows);
        fill(&mut out, x.rows * w.values.len(), |t, out| {
            for (head, (x, out)) in x.row(t).chunks(w.cols).zip(out.chunks_mut(outs)).enumerate() {
                product(head, x, out);
            }
        });
        return out;
    };
    let chosen: Vec<usize> = choice.data.chunks_exact(2).map(|pair| pair[0] as usize).collect();
    let mut out = Value::zeros(chosen.len(), outs);
    let shared = chosen.len() / x.rows.max(1);
    fill(&mut out, chosen.len() * outs * w.cols, |place, out| {
        // A trace may choose what is not there: that gives nothing.
        if chosen[place] < matrices {
            product(chosen[place], x.row(place / shared.max(1)), out);
        }
    });
    out
}

/// A product of two rows: f32 in sixteen lanes over 256 elements at a time, f64 over those.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sum = 0.0f64;
    for (a, b) in a.chunks(256).zip(b.chunks(256)) {
        let mut lanes = [0.0f32; 16];
        let (a, rest_a) = a.as_chunks::<16>();
        let (b, rest_b) = b.as_chunks::<16>();
        for (a, b) in a.iter().zip(b) {
            for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
                *lane += a * b;
            }
        }
        sum += halved(lanes.map(f64::from));
        sum += rest_a.iter().zip(rest_b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
    }
    sum as f32
}

/// The sum of sixteen, half by half: one after the other each would wait for the one before, as long as a short row takes.
fn halved(mut lanes: [f64; 16]) -> f64 {
    for half in [8, 4, 2, 1] {
        let (low, high) = lanes.split_at_mut(half);
        low.iter_mut().zip(high).for_each(|(low, high)| *low += *high);
    }
    lanes[0]
}
