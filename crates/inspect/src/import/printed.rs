//! Arrays as programs print them: nested brackets, `...` where elements are left out, few digits. PyTorch, NumPy and
//! llama.cpp all print so.

use super::{caps, place::Place, place::rows_of};
use crate::{Evidence, Key, Known, names::Order};

/// One printed element.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    /// Index per dimension; negative ones count from the end, after a `...`.
    pub(super) at: Vec<i64>,
    pub(super) value: f32,
    /// Half a unit of its last printed place.
    pub(super) half_unit: f64,
    /// Whether it has an exponent.
    scientific: bool,
}

impl Cell {
    /// Reads a number as printed.
    pub(super) fn parse(at: &[i64], text: &str) -> Option<Cell> {
        let value: f32 = text.parse().ok()?;
        let half_unit = if value.is_finite() { half_unit(text) } else { 0.0 };
        Some(Cell { at: at.to_vec(), value, half_unit, scientific: text.contains(['e', 'E']) })
    }
}

/// Half a unit of the last printed place of a number: 5e-5 for `0.1234`, 5e-6 for `1.234e-2`.
fn half_unit(text: &str) -> f64 {
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let places = digits.split_once('.').map_or(0, |(_, places)| places.len());
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let places = i32::try_from(places).unwrap_or(i32::MAX);
    // Not `powi`: a negative power that is rounded once reads 5e-5, not 5.000000000000001e-5.
    format!("5e{}", exponent.saturating_sub(places).saturating_sub(1).clamp(-60, 60)).parse().unwrap_or(0.0)
}

/// A printed array.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Printed {
    pub(super) cells: Vec<Cell>,
    /// Its full shape, where the text says it.
    pub(super) shape: Option<Vec<usize>>,
    /// The token its only row stands for, where the text says it.
    pub(super) row: RowSaid,
}

/// What a text says about which token a printed row is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RowSaid {
    /// Nothing: people print the first.
    #[default]
    Nothing,
    /// `pos 3`.
    Token(usize),
    /// `last token`.
    Last,
}

impl Printed {
    pub(super) fn new(cells: Vec<Cell>) -> Printed {
        Printed { cells, ..Printed::default() }
    }

    /// Rows with a number in them.
    pub(super) fn rows(&self) -> usize {
        let mut rows: Vec<&[i64]> = self.cells.iter().map(|cell| &cell.at[..cell.at.len().saturating_sub(1)]).collect();
        rows.dedup();
        rows.len()
    }

    /// Half a unit of the last printed place. Where numbers have as few places as they need, as Rust and JSON print them, the
    /// longest tells; numbers with an exponent have each their own.
    fn precision(&self) -> f64 {
        let (mut plain, mut scientific) = (f64::INFINITY, 0.0_f64);
        for cell in self.cells.iter().filter(|cell| cell.value.is_finite()) {
            match cell.scientific {
                true => scientific = scientific.max(cell.half_unit),
                false => plain = plain.min(cell.half_unit),
            }
        }
        if plain.is_finite() { plain.max(scientific) } else { scientific }
    }

    /// Reads nested brackets; `None` where they do not close, hold something else than numbers, or nothing.
    pub(super) fn parse(text: &str) -> Option<Printed> {
        let mut reader = Reader { rest: text.trim(), depth: 0 };
        let array = reader.array()?;
        let mut cells = Vec::new();
        flatten(&array, &mut Vec::new(), &mut cells);
        (!cells.is_empty()).then(|| Printed::new(cells))
    }

    /// As evidence for a value.
    ///
    /// # Errors
    /// A sentence on what does not fit.
    pub(super) fn evidence(self, key: &Key, order: Order, tokens: Option<usize>) -> Result<Evidence, String> {
        let precision = self.precision();
        let some = |width, rows, cells| Evidence { width, rows, known: Known::Some(cells), sum: None, precision };
        if let Some(shape) = &self.shape {
            let place = Place::of(shape, key, order, tokens)?;
            let cells: Option<Vec<_>> = self
                .cells
                .iter()
                .map(|cell| {
                    let (row, column) = place.at(position(&cell.at, shape)?);
                    Some((row as i64, column as i64, cell.value))
                })
                .collect();
            let cells = cells.ok_or_else(|| format!("printed elements lie outside of its shape {shape:?}"))?;
            return Ok(some(place.width, rows_of(place.rows, key, tokens), cells));
        }
        let mut cells = Vec::with_capacity(self.cells.len());
        for cell in &self.cells {
            let (&column, outer) = cell.at.split_last().ok_or("no elements")?;
            let row = outer.last().copied().unwrap_or(0);
            if outer.iter().rev().skip(1).any(|&index| index != 0) {
                return Err("printed in more than two dimensions, and no shape with it".to_owned());
            }
            cells.push((row, column, cell.value));
        }
        let deep = cells.iter().any(|&(row, ..)| row != 0);
        Ok(match self.row {
            RowSaid::Nothing if deep => {
                // Rows from the end could stand for any token until the number of rows is known.
                let known = cells.iter().all(|&(row, ..)| row >= 0);
                let most = cells.iter().map(|&(row, ..)| row).max().unwrap_or(0);
                let rows = known.then(|| (0..=usize::try_from(most).unwrap_or(0)).collect());
                some(0, rows, cells)
            }
            RowSaid::Nothing => some(0, Some(vec![0]), cells),
            RowSaid::Token(token) if !deep => some(0, Some(vec![token]), cells),
            RowSaid::Last if !deep => {
                some(0, None, cells.into_iter().map(|(_, column, value)| (-1, column, value)).collect())
            }
            _ => return Err("several rows where the text names one".to_owned()),
        })
    }
}

/// Row-major position of an index, negative ones counted from the end.
pub(super) fn position(at: &[i64], shape: &[usize]) -> Option<usize> {
    // A 0-dimensional print of a shape [1] and the like: ranks must agree.
    if at.len() != shape.len() {
        return None;
    }
    at.iter().zip(shape).try_fold(0_usize, |position, (&index, &dim)| {
        let size = i64::try_from(dim).ok()?;
        let index = if index < 0 { index.checked_add(size)? } else { index };
        let index = usize::try_from(index).ok().filter(|&index| index < dim)?;
        position.checked_mul(dim)?.checked_add(index)
    })
}

/// Elements before and after the `...` of one pair of brackets.
#[derive(Default)]
struct Array {
    before: Vec<Node>,
    after: Option<Vec<Node>>,
}

enum Node {
    Array(Array),
    Value(Cell),
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn array(&mut self) -> Option<Array> {
        self.rest = self.rest.strip_prefix('[')?;
        self.depth += 1;
        if self.depth > caps::MAX_DIMS {
            return None;
        }
        let mut array = Array::default();
        loop {
            self.rest = self.rest.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
            let node = match self.rest.chars().next()? {
                ']' => {
                    self.rest = &self.rest[1..];
                    self.depth -= 1;
                    return Some(array);
                }
                '[' => Node::Array(self.array()?),
                '.' if self.rest.starts_with("...") => {
                    self.rest = self.rest.trim_start_matches('.');
                    array.after.get_or_insert_default();
                    continue;
                }
                _ => {
                    let end = self.rest.find(|c: char| matches!(c, ',' | ']' | '[') || c.is_whitespace())?;
                    let (number, rest) = self.rest.split_at(end);
                    self.rest = rest;
                    Node::Value(Cell::parse(&[], number)?)
                }
            };
            array.after.as_mut().unwrap_or(&mut array.before).push(node);
        }
    }
}

fn flatten(array: &Array, at: &mut Vec<i64>, cells: &mut Vec<Cell>) {
    let after = array.after.as_deref().unwrap_or_default();
    let from_end = -(after.len() as i64);
    for (index, node) in (0..).zip(&array.before).chain((from_end..).zip(after)) {
        at.push(index);
        match node {
            Node::Array(inner) => flatten(inner, at, cells),
            Node::Value(cell) => cells.push(Cell { at: at.clone(), ..cell.clone() }),
        }
        at.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_read() {
        let printed =
            Printed::parse("[[1.0, -2.5,  ...,  3.0],\n [4.0, nan, ..., 1e-3], ..., [5, 6, ..., 7]]").unwrap();
        let found: Vec<_> = printed.cells.iter().map(|cell| (cell.at.clone(), cell.value.to_bits())).collect();
        let expected: Vec<_> = [
            ([0, 0], 1.0_f32),
            ([0, 1], -2.5),
            ([0, -1], 3.0),
            ([1, 0], 4.0),
            ([1, 1], f32::NAN),
            ([1, -1], 1e-3),
            ([-1, 0], 5.0),
            ([-1, 1], 6.0),
            ([-1, -1], 7.0),
        ]
        .map(|(at, value)| (at.to_vec(), value.to_bits()))
        .into();
        assert_eq!(found, expected);
        for text in ["[1, 2", "", "[]", "[a]", "1", "[1, [2, ]", "[[[[[[[[[[1]]]]]]]]]]"] {
            assert_eq!(Printed::parse(text), None, "{text}");
        }
    }

    #[test]
    fn printed_places_say_the_precision() {
        for (text, expected) in [("0.1234", 5e-5), ("-12.5", 0.05), ("7", 0.5), ("1.2345e-02", 5e-7), ("1.5e3", 50.0)] {
            assert_eq!(half_unit(text), expected, "{text}");
        }
    }

    #[test]
    fn a_shape_places_the_end() {
        let shape = Some(vec![1, 4, 8]);
        let printed = Printed { shape, ..Printed::parse("[[[1.00, ..., 2.00], ..., [3.00, ..., 4.00]]]").unwrap() };
        let evidence = printed.evidence(&Key::new("l_out", Some(0)), Order::Tokens, None).unwrap();
        assert_eq!(evidence.known, Known::Some(vec![(0, 0, 1.0), (0, 7, 2.0), (3, 0, 3.0), (3, 7, 4.0)]));
        assert_eq!((evidence.width, evidence.rows, evidence.precision), (8, Some(vec![0, 1, 2, 3]), 0.005));
        let small = Printed { shape: Some(vec![1]), ..Printed::parse("[1.0, 2.0]").unwrap() };
        assert!(small.evidence(&Key::new("l_out", Some(0)), Order::Tokens, None).is_err());
    }
}
