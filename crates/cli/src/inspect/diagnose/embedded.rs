//! Which tokens a dump's embeddings are of, where they are not those of its tokens: the sign of another prompt.

use std::fmt;

use candor_inspect::{Diagnosis, Evidence, Graph, Key, Kind, Known, Status, Trace};

/// Relative distance of a row from the embedding that it is: half-precision and 8-bit tables differ by less.
const SAME: f64 = 0.02;
/// Elements of a row that are enough to know it by: a log shows three at each end.
const ENOUGH: usize = 6;
/// Elements of a row that are looked at: more would only take longer.
const LOOK: usize = 64;

/// The tokens that a dump's embeddings are of.
#[derive(Debug, PartialEq, Eq)]
pub struct OtherTokens {
    /// Those that the trace names.
    named: Vec<u32>,
    /// Those of the embeddings; `None` where the dump shows too little of one.
    found: Vec<Option<u32>>,
}

impl fmt::Display for OtherTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Option<Vec<u32>> = self.found.iter().copied().collect();
        if let Some(ids) = all {
            let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
            return write!(f, "--ids {}", ids.join(","));
        }
        let differs = self.found.iter().zip(&self.named).enumerate();
        let texts = differs.filter_map(|(index, (found, named))| {
            found.filter(|found| found != named).map(|found| format!("{found} as token {index}"))
        });
        f.write_str(&texts.collect::<Vec<_>>().join(", "))
    }
}

/// The tokens of the rows of `inp_embd`, if no known fault explains them and each is a row of the table.
pub fn other_tokens(diagnosis: &Diagnosis, trace: &Trace, graph: &Graph) -> Option<OtherTokens> {
    let key = Key::new("inp_embd", None);
    let check = diagnosis.checks.iter().find(|check| check.key == key)?;
    if check.status != Status::Wrong || diagnosis.findings.iter().any(|finding| finding.places.contains(&key)) {
        return None;
    }
    let Kind::Embed(table) = &graph.nodes[graph.find(&key)?].kind else { return None };
    let (evidence, named) = (trace.values.get(&key)?, trace.origin.tokens.clone()?);
    let rows = rows(evidence, named.len(), table.cols);
    let embeddings = || table.bytes.chunks_exact(table.bytes.len() / table.rows).enumerate();
    let mut decoded = vec![0.0; table.cols];
    // Where several tokens are as near, the named one is meant.
    let mut nearest = vec![(f64::INFINITY, 0); rows.len()];
    for named_first in [true, false] {
        for (id, bytes) in embeddings() {
            if named_first && !named.contains(&(id as u32)) {
                continue;
            }
            table.format.decode(bytes, &mut decoded);
            for ((row, named), best) in rows.iter().zip(&named).zip(&mut nearest) {
                if !named_first || *named == id as u32 {
                    let distance = distance(row, &decoded, evidence.precision);
                    *best = if distance < best.0 { (distance, id as u32) } else { *best };
                }
            }
        }
    }
    let shown = |row: &Vec<(usize, f32)>| row.len() >= ENOUGH.min(table.cols);
    if rows.iter().zip(&nearest).any(|(row, (distance, _))| shown(row) && *distance >= SAME) {
        return None;
    }
    let found: Vec<_> = rows.iter().zip(&nearest).map(|(row, (_, id))| shown(row).then_some(*id)).collect();
    let differs = found.iter().zip(&named).any(|(found, named)| found.is_some_and(|found| found != *named));
    differs.then_some(OtherTokens { named, found })
}

/// The known elements of each token's row, with their columns.
fn rows(evidence: &Evidence, tokens: usize, width: usize) -> Vec<Vec<(usize, f32)>> {
    let mut rows = vec![Vec::new(); tokens];
    let held = evidence.rows.clone().unwrap_or_else(|| (0..tokens).collect());
    let place = |at: i64, len: usize| usize::try_from(if at < 0 { at + len as i64 } else { at }).ok();
    let mut add = |row: Option<usize>, column: Option<usize>, x: f32| {
        let row = row.and_then(|row| held.get(row)).and_then(|&token| rows.get_mut(token));
        if let (Some(row), Some(column)) = (row, column.filter(|&column| column < width))
            && row.len() < LOOK
        {
            row.push((column, x));
        }
    };
    match &evidence.known {
        Known::All(values) if evidence.width == width => {
            let elements = values.iter().enumerate();
            elements.for_each(|(index, &x)| add(Some(index / width), Some(index % width), x));
        }
        Known::All(_) => {}
        Known::Some(points) => {
            points.iter().for_each(|&(row, column, x)| add(place(row, held.len()), place(column, width), x));
        }
    }
    rows
}

/// Root of the summed squared difference over that of the expected values, beyond what was printed.
fn distance(got: &[(usize, f32)], expected: &[f32], precision: f64) -> f64 {
    let (mut apart, mut size) = (0.0, f64::MIN_POSITIVE);
    for &(column, got) in got {
        let expected = f64::from(expected[column]);
        apart += ((f64::from(got) - expected).abs() - precision).max(0.0).powi(2);
        size += expected * expected;
    }
    (apart / size).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_listed_or_where_some_are_not_shown_named_one_by_one() {
        for (found, expected) in [
            ([Some(1), Some(7), Some(3)], "--ids 1,7,3"),
            ([Some(1), Some(7), None], "7 as token 1"),
            ([Some(5), None, Some(6)], "5 as token 0, 6 as token 2"),
        ] {
            assert_eq!(OtherTokens { named: vec![1, 2, 3], found: found.to_vec() }.to_string(), expected);
        }
    }

    #[test]
    fn corners_count_from_both_ends() {
        let points = vec![(0, 0, 1.0), (0, -1, 2.0), (-1, 1, 3.0), (9, 0, 4.0), (0, -9, 5.0)];
        let evidence = Evidence { known: Known::Some(points), ..Evidence::all(4, vec![0.0; 8]) };
        assert_eq!(rows(&evidence, 2, 4), [vec![(0, 1.0), (3, 2.0)], vec![(1, 3.0)]]);
    }
}
