//! What a cell is made from: the elements that a trace holds of a value, whichever way it holds them.

use crate::{Evidence, Known, Value};

/// Where a value stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Tokens of the trace.
    pub rows: usize,
    /// Tokens of them that were the prompt.
    pub prompt: usize,
    /// Elements per row.
    pub width: usize,
    /// Heads side by side in a row; 1 where it has none.
    pub heads: usize,
}

/// What is known of a value.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    /// The suspect's elements.
    pub evidence: &'a Evidence,
    /// What follows from its inputs.
    pub expected: Option<&'a Value>,
    /// Whether an element, by token and column, says anything: what is masked later on does not.
    pub counts: &'a dyn Fn(usize, usize) -> bool,
    /// Where it stands.
    pub shape: Shape,
}

/// Calls with token, column and element for everything that is known, counts and is within the value.
pub(super) fn each(given: Given<'_>, mut take: impl FnMut(usize, usize, f32)) {
    let Given { evidence, shape, counts, .. } = given;
    let mut visit = |row: usize, col: usize, x: f32| {
        if counts(row, col) {
            take(row, col, x);
        }
    };
    let token = |row: usize| match &evidence.rows {
        Some(rows) => rows.get(row).copied(),
        None => Some(row),
    };
    match &evidence.known {
        Known::All(values) => {
            for (index, row) in values.chunks_exact(shape.width.max(1)).enumerate() {
                if let Some(at) = token(index).filter(|&at| at < shape.rows) {
                    row.iter().enumerate().for_each(|(col, &x)| visit(at, col, x));
                }
            }
        }
        Known::Some(points) => {
            let rows = evidence.rows.as_ref().map_or(shape.rows, Vec::len) as i64;
            let from_end = |at: i64, count: i64| usize::try_from(if at < 0 { at + count } else { at }).ok();
            for &(row, col, x) in points {
                let at = from_end(row, rows).and_then(token).filter(|&at| at < shape.rows);
                let col = from_end(col, shape.width as i64).filter(|&col| col < shape.width);
                if let (Some(at), Some(col)) = (at, col) {
                    visit(at, col, x);
                }
            }
        }
    }
}
