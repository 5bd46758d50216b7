//! Operations that only move, scale and add.

use std::rc::Rc;

use candor_ops::Columns;

use crate::{Value, graph::Weighted};

use super::Matrix;

/// Combines inputs of equal shape, from the first on.
pub(super) fn fold(inputs: &[Rc<Value>], combine: fn(f32, f32) -> f32) -> Value {
    let mut out = (*inputs[0]).clone();
    for other in &inputs[1..] {
        out.data.iter_mut().zip(&other.data).for_each(|(x, &y)| *x = combine(*x, y));
    }
    out
}

/// Rows of `width` columns: some copied from the first input, the others as the second has them, or zero.
pub(super) fn copy(inputs: &[Rc<Value>], columns: Columns, width: usize) -> Value {
    let x = &inputs[0];
    let mut out = inputs.get(1).map_or_else(|| Value::zeros(x.rows, width), |before| (**before).clone());
    for t in 0..x.rows.min(out.rows) {
        for group in 0..columns.groups {
            let (from, to) = (columns.from.0 + group * columns.from.1, columns.to.0 + group * columns.to.1);
            let read = x.row(t).get(from..from + columns.len);
            let write = out.row_mut(t).get_mut(to..to + columns.len);
            if let (Some(read), Some(write)) = (read, write) {
                write.copy_from_slice(read);
            }
        }
    }
    out
}

/// Each row times the same vector.
pub(super) fn scale(x: &Value, w: &Matrix) -> Value {
    let mut out = x.clone();
    for row in out.data.chunks_exact_mut(x.width.max(1)) {
        row.iter_mut().zip(&w.values).for_each(|(x, w)| *x *= w);
    }
    out
}

/// Each of a row's equal groups times one number of the other input's row.
pub(super) fn mul_groups(x: &Value, y: &Value) -> Value {
    let (mut out, len) = (x.clone(), (x.width / y.width.max(1)).max(1));
    for (group, &y) in out.data.chunks_mut(len).zip(&y.data) {
        group.iter_mut().for_each(|x| *x *= y);
    }
    out
}

/// A number for each of a row's equal groups: its product with the other input's.
pub(super) fn dot_groups(x: &Value, y: &Value, width: usize) -> Value {
    let len = (x.width / width.max(1)).max(1);
    let dot =
        |(x, y): (&[f32], &[f32])| x.iter().zip(y).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum::<f64>() as f32;
    Value { rows: x.rows, width, data: x.data.chunks(len).zip(y.data.chunks(len)).map(dot).collect() }
}

/// Outputs of chosen experts with their biases, by their weights, or added up. A trace may choose what is not there: that
/// has no bias.
pub(super) fn weighted(by: &Weighted, inputs: &[Rc<Value>], bias: &Matrix) -> Value {
    let (x, choice) = (&inputs[0], &inputs[1]);
    let pairs = choice.data.chunks_exact(2);
    let mut out = (**x).clone();
    let rows = out.data.chunks_exact_mut(x.width.max(1)).zip(pairs);
    match by {
        Weighted::Bias(_) => rows.for_each(|(row, pair)| {
            if (pair[0] as usize) < bias.rows {
                row.iter_mut().zip(bias.row(pair[0] as usize)).for_each(|(x, b)| *x += b);
            }
        }),
        Weighted::Scale => rows.for_each(|(row, pair)| row.iter_mut().for_each(|x| *x *= pair[1])),
        Weighted::Sum(_) => {
            // A choice may be of more experts than the file says.
            let used = (choice.width / 2).max(1);
            let mut sum = Value::zeros(x.rows / used, x.width);
            for t in 0..sum.rows {
                for (c, sum) in sum.row_mut(t).iter_mut().enumerate() {
                    *sum = (0..used).map(|at| f64::from(x.row(t * used + at)[c])).sum::<f64>() as f32;
                }
            }
            return sum;
        }
    }
    out
}
