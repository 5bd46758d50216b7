//! A reference trace beside the suspect's: how far apart the two are, value by value. Nothing is concluded of it.

use std::collections::BTreeMap;

use candor_inspect::{Diagnosis, Evidence, Key, Known, Trace, Value, compare, import::Reading, text::TextReport};
use serde::Serialize;

/// Relative root mean square of the difference, by value.
pub type Residuals = BTreeMap<Key, f64>;

/// A diagnosis, with the reference where there is one.
#[derive(Serialize)]
pub struct Report<'a> {
    /// The diagnosis.
    #[serde(flatten)]
    pub diagnosis: &'a Diagnosis,
    /// Distances from the reference; infinite ones are null.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<&'a Residuals>,
    /// The side of tokens and text, where something is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<&'a TextReport>,
    /// How the lines of a log were read.
    #[serde(skip_serializing_if = "is_no_log")]
    pub read: &'a [Reading],
}

fn is_no_log(read: &&[Reading]) -> bool {
    read.is_empty()
}

/// How far the suspect is from the reference in each value that the reference has in full.
pub fn residuals(suspect: &Trace, reference: &Trace) -> Residuals {
    let residual = |(key, evidence): (&Key, &Evidence)| {
        let expected = whole(reference.values.get(key)?, evidence)?;
        Some((key.clone(), compare(&expected, evidence)?.relative))
    };
    suspect.values.iter().filter_map(residual).collect()
}

/// The reference's rows at the places of their tokens; `None` if the suspect has rows that it has not.
fn whole(reference: &Evidence, suspect: &Evidence) -> Option<Value> {
    let Known::All(values) = &reference.known else { return None };
    if reference.width == 0 {
        return None;
    }
    let count = values.len() / reference.width;
    let rows = reference.rows.clone().unwrap_or_else(|| (0..count).collect());
    let wanted = suspect.rows.clone().unwrap_or_else(|| (0..count).collect());
    if rows.len() != count || wanted.iter().any(|row| !rows.contains(row)) {
        return None;
    }
    let mut whole = Value::zeros(rows.iter().max()? + 1, reference.width);
    for (values, &row) in values.chunks_exact(reference.width).zip(&rows) {
        whole.row_mut(row).copy_from_slice(values);
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_compared_by_token() {
        let trace = |evidence: Evidence| {
            let values = BTreeMap::from([(Key::new("a", None), evidence)]);
            Trace { values, ..Trace::default() }
        };
        let all = Evidence::all(1, vec![3.0, 4.0, 5.0]);
        let last = |x: f32| Evidence { rows: Some(vec![2]), ..Evidence::all(1, vec![x]) };
        for (suspect, reference, expected) in [
            (all.clone(), all.clone(), Some(0.0)),
            (last(5.0), all.clone(), Some(0.0)),
            (last(10.0), all.clone(), Some(1.0)),
            (all.clone(), last(5.0), None),
            (Evidence::all(3, vec![3.0, 4.0, 5.0]), all, None),
        ] {
            let found = residuals(&trace(suspect.clone()), &trace(reference));
            assert_eq!(found.into_values().next(), expected, "{suspect:?}");
        }
    }
}
