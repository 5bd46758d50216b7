//! Where the elements of a tensor go in `[rows, width]`, known by its shape, its name and the number of tokens.

use super::Tensor;
use crate::{
    Evidence, Key, Known,
    names::{Order, Parts},
};

/// The way from a shape to rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) rows: usize,
    pub(super) width: usize,
    /// `[heads, rows, inner]` where heads come first.
    heads: Option<[usize; 3]>,
}

impl Place {
    /// Understands a shape.
    ///
    /// # Errors
    /// A sentence for the list of what was left out.
    pub(super) fn of(shape: &[usize], key: &Key, order: Order, tokens: Option<usize>) -> Result<Place, String> {
        let misfit = || format!("shape {shape:?} fits no {key}");
        let flat = |rows, width| Place { rows, width, heads: None };
        let turned = |[heads, rows, inner]: [usize; 3]| Place {
            rows,
            width: heads.saturating_mul(inner),
            heads: Some([heads, rows, inner]),
        };
        let place = match (squeezed(shape), order) {
            (&[width], _) => flat(1, width),
            (&[rows, width], _) => flat(rows, width),
            (&[heads, rows, positions], Order::Scores) => turned([heads, rows, positions]),
            (&[first, second, inner], order) => match tokens {
                Some(tokens) if first == tokens && second != tokens => flat(first, second.saturating_mul(inner)),
                Some(tokens) if second == tokens && first != tokens => turned([first, second, inner]),
                Some(tokens) if first != tokens => return Err(misfit()),
                _ if order == Order::Heads => turned([first, second, inner]),
                _ => flat(first, second.saturating_mul(inner)),
            },
            _ => return Err(misfit()),
        };
        if place.rows == 0 || place.width == 0 { Err(misfit()) } else { Ok(place) }
    }

    /// Row and column of the element at a row-major position.
    pub(super) fn at(&self, position: usize) -> (usize, usize) {
        match self.heads {
            None => (position / self.width, position % self.width),
            Some([_, rows, inner]) => {
                let (head, row) = (position / (rows * inner), position / inner % rows);
                (row, head * inner + position % inner)
            }
        }
    }

    fn values(&self, values: Vec<f32>) -> Vec<f32> {
        let Some([heads, rows, inner]) = self.heads else { return values };
        let mut turned = Vec::with_capacity(values.len());
        for row in 0..rows {
            for head in 0..heads {
                turned.extend_from_slice(&values[(head * rows + row) * inner..][..inner]);
            }
        }
        turned
    }
}

/// A shape without its leading batch of one.
pub(super) fn squeezed(shape: &[usize]) -> &[usize] {
    let mut shape = shape;
    while shape.len() > 2 && shape[0] == 1 {
        shape = &shape[1..];
    }
    shape
}

/// Elements `[rows, width]` of a complete tensor.
pub(super) fn lay(tensor: Tensor, key: &Key, order: Order, tokens: Option<usize>) -> Result<Evidence, String> {
    let place = Place::of(&tensor.shape, key, order, tokens)?;
    Ok(Evidence {
        width: place.width,
        rows: rows_of(place.rows, key, tokens),
        known: Known::All(place.values(tensor.values)),
        sum: None,
        precision: 0.0,
    })
}

/// The values that lie one beside the other in a value.
///
/// # Errors
/// A sentence on what does not fit.
pub(super) fn apart(evidence: Evidence, parts: &Parts) -> Result<Vec<(Key, Evidence)>, String> {
    if let [(key, _)] = &parts.keys[..] {
        return Ok(vec![(key.clone(), evidence)]);
    }
    let total: usize = parts.keys.iter().map(|(_, width)| width).sum();
    let groups = parts.groups.max(1);
    let names = || parts.keys.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>().join(", ");
    if evidence.width != 0 && evidence.width != total {
        return Err(format!("rows of {}, expected {total} for {} beside each other", evidence.width, names()));
    }
    if total == 0 || parts.keys.iter().any(|(_, width)| width % groups != 0) {
        return Err(format!("{} do not lie in {groups} groups", names()));
    }
    // A column's part and its place in it.
    let place = |column: usize| {
        let (group, mut rest) = (column / (total / groups), column % (total / groups));
        for (part, (_, width)) in parts.keys.iter().enumerate() {
            let width = width / groups;
            if rest < width {
                return Some((part, group * width + rest));
            }
            rest -= width;
        }
        None
    };
    let empty = |width: usize, known| Evidence { width, known, sum: None, ..evidence.clone() };
    let mut all: Vec<(Key, Evidence)> = match &evidence.known {
        Known::All(values) => {
            let mut split: Vec<Vec<f32>> = vec![Vec::new(); parts.keys.len()];
            for row in values.chunks_exact(total) {
                let mut columns: Vec<(usize, usize, f32)> = row
                    .iter()
                    .enumerate()
                    .filter_map(|(column, &value)| place(column).map(|(part, column)| (part, column, value)))
                    .collect();
                columns.sort_by_key(|&(part, column, _)| (part, column));
                columns.into_iter().for_each(|(part, _, value)| split[part].push(value));
            }
            let whole = parts.keys.iter().zip(split);
            whole.map(|((key, width), values)| (key.clone(), empty(*width, Known::All(values)))).collect()
        }
        Known::Some(cells) => {
            let mut split: Vec<Vec<(i64, i64, f32)>> = vec![Vec::new(); parts.keys.len()];
            for &(row, column, value) in cells {
                let column = if column < 0 { column + total as i64 } else { column };
                let at = usize::try_from(column).ok().filter(|&column| column < total).and_then(place);
                let (part, column) = at.ok_or_else(|| format!("more numbers than {} have", names()))?;
                split[part].push((row, column as i64, value));
            }
            let width = |width: usize| if evidence.width == 0 { 0 } else { width };
            let some = parts.keys.iter().zip(split);
            some.map(|((key, own), cells)| (key.clone(), empty(width(*own), Known::Some(cells)))).collect()
        }
    };
    all.retain(|(_, evidence)| !matches!(&evidence.known, Known::Some(cells) if cells.is_empty()));
    Ok(all)
}

/// The tokens that `rows` rows stand for: all, or the last one for logits alone. `None` where nothing tells.
pub(super) fn rows_of(rows: usize, key: &Key, tokens: Option<usize>) -> Option<Vec<usize>> {
    match tokens {
        Some(tokens) if rows < tokens => {
            let output = matches!(key.name.as_str(), "result_output" | "result_norm");
            (rows == 1 && output).then(|| vec![tokens - 1])
        }
        None if rows == 1 && key.name == "result_output" => None,
        _ => Some((0..rows).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fused_values_come_apart() {
        let keys = |groups| Parts { keys: vec![(Key::new("q", None), 4), (Key::new("k", None), 2)], groups };
        let evidence = Evidence::all(6, (0..12).map(|value| value as f32).collect());
        for (groups, q, k) in [
            (1, [0., 1., 2., 3., 6., 7., 8., 9.], [4., 5., 10., 11.]),
            (2, [0., 1., 3., 4., 6., 7., 9., 10.], [2., 5., 8., 11.]),
        ] {
            let parts = apart(evidence.clone(), &keys(groups)).unwrap();
            let known: Vec<_> = parts.iter().map(|(_, part)| (part.width, part.known.clone())).collect();
            assert_eq!(known, [(4, Known::All(q.to_vec())), (2, Known::All(k.to_vec()))], "{groups}");
        }
        let some = Evidence { width: 0, known: Known::Some(vec![(0, 1, 1.0), (0, -1, 2.0)]), ..evidence.clone() };
        let parts = apart(some, &keys(1)).unwrap();
        assert_eq!(parts[1].1.known, Known::Some(vec![(0, 1, 2.0)]));
        assert!(apart(Evidence { width: 5, ..evidence.clone() }, &keys(1)).is_err());
        assert!(apart(evidence, &keys(3)).is_err());
    }

    #[test]
    fn shapes_become_rows() {
        let values: Vec<f32> = (0..12).map(|value| value as f32).collect();
        let turned = [0., 1., 6., 7., 2., 3., 8., 9., 4., 5., 10., 11.];
        for (shape, name, order, tokens, rows, width, expected) in [
            (vec![3, 4], "l_out", Order::Tokens, Some(3), Some(vec![0, 1, 2]), 4, &values[..]),
            (vec![1, 3, 4], "l_out", Order::Tokens, Some(3), Some(vec![0, 1, 2]), 4, &values[..]),
            (vec![1, 2, 3, 2], "Qcur", Order::Tokens, Some(3), Some(vec![0, 1, 2]), 4, &turned[..]),
            (vec![3, 2, 2], "Qcur", Order::Heads, Some(3), Some(vec![0, 1, 2]), 4, &values[..]),
            (vec![2, 3, 2], "kq", Order::Scores, Some(3), Some(vec![0, 1, 2]), 4, &turned[..]),
            (vec![12], "result_output", Order::Tokens, Some(3), Some(vec![2]), 12, &values[..]),
            (vec![12], "l_out", Order::Tokens, Some(3), None, 12, &values[..]),
            (vec![1, 12], "result_output", Order::Tokens, None, None, 12, &values[..]),
        ] {
            let key = Key::new(name, Some(0));
            let laid = lay(Tensor { shape: shape.clone(), values: values.clone() }, &key, order, tokens).unwrap();
            assert_eq!((laid.rows, laid.width), (rows, width), "{shape:?} {name}");
            assert_eq!(laid.known, Known::All(expected.to_vec()), "{shape:?} {name}");
            let place = Place::of(&shape, &key, order, tokens).unwrap();
            for (position, &value) in values.iter().enumerate() {
                let (row, column) = place.at(position);
                assert_eq!(expected[row * width + column], value, "{shape:?} {name}");
            }
        }
        for shape in [vec![2, 2, 3], vec![0, 4], vec![2, 2, 2, 2]] {
            assert!(Place::of(&shape, &Key::new("Qcur", Some(0)), Order::Tokens, Some(5)).is_err(), "{shape:?}");
        }
    }
}
