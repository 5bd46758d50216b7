//! The numbers of a log put together, value by value: the first number for an element stands, and another one later is a
//! contradiction that is said.

use std::{cell::Cell as Count, collections::BTreeMap};

use crate::{Evidence, Key, Known, names::Wiring};

/// The token that a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Token {
    /// Counted from the first, or with negative numbers from the end.
    At(i64),
    /// The log does not say.
    Unsaid,
}

#[derive(Clone, Copy, Debug)]
struct Number {
    value: f32,
    half_unit: f64,
    line: usize,
}

/// Numbers that are held of a log, most of which are then read from it by mistake.
const MAX_NUMBERS: usize = 1 << 23;

/// Everything that a log says of each value.
#[derive(Default)]
pub(super) struct Gather {
    rows: BTreeMap<Key, BTreeMap<Token, BTreeMap<i64, Number>>>,
    held: Count<usize>,
}

/// Rows of a value of which the log does not say which token they are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unsaid {
    pub(crate) key: Key,
    /// What else is known of the value.
    pub(crate) said: Option<Evidence>,
    /// Columns and numbers.
    pub(crate) numbers: Vec<(i64, f32)>,
    pub(crate) precision: f64,
}

impl Gather {
    /// Adds the numbers of a line.
    ///
    /// # Errors
    /// A sentence on what contradicts: nothing of the line is added then.
    pub(super) fn add(
        &mut self,
        key: &Key,
        evidence: &Evidence,
        line: usize,
        token: impl Fn(i64) -> Token,
        wiring: Option<&Wiring>,
    ) -> Result<usize, String> {
        let Known::Some(cells) = &evidence.known else { return Err("printed whole".to_owned()) };
        if let Some(width) = wiring.and_then(|wiring| wiring.width(key)) {
            let most = cells.iter().map(|&(_, column, _)| if column < 0 { -column } else { column + 1 }).max();
            if let Some(most) = most.filter(|&most| most > width as i64) {
                let vocabulary = key.name == "result_output";
                return Err(match vocabulary {
                    true => format!("token {} is beyond the vocabulary of {width}", most - 1),
                    false => format!("it has {most} numbers, a row of the model's has {width}"),
                });
            }
        }
        if self.held.get().saturating_add(cells.len()) > MAX_NUMBERS {
            return Err(format!("a log holds more than {MAX_NUMBERS} numbers"));
        }
        let rows = self.rows.entry(key.clone()).or_default();
        for &(row, column, value) in cells {
            let Some(before) = rows.get(&token(row)).and_then(|row| row.get(&column)) else { continue };
            let slack = before.half_unit + evidence.precision + 1e-6 * f64::from(value.abs());
            let apart = (f64::from(before.value) - f64::from(value)).abs();
            let same = apart <= slack || (before.value.is_nan() && value.is_nan()) || before.value == value;
            if !same {
                return Err(format!(
                    "line {} has {} where this has {value}: a later pass or another run, the first stands",
                    before.line, before.value
                ));
            }
        }
        for &(row, column, value) in cells {
            let number = Number { value, half_unit: evidence.precision, line };
            rows.entry(token(row)).or_default().entry(column).or_insert(number);
        }
        self.held.set(self.held.get() + cells.len());
        Ok(cells.len())
    }

    /// What is known of each value, the rows that are not said as the likeliest: the last one's logits, else the first one's
    /// values. Beside it, what was not said.
    pub(super) fn finish(self) -> (Vec<(Key, Evidence)>, Vec<Unsaid>) {
        let (mut known, mut open) = (Vec::new(), Vec::new());
        for (key, mut rows) in self.rows {
            let Some(numbers) = rows.remove(&Token::Unsaid) else {
                known.extend(evidence(&rows).map(|evidence| (key, evidence)));
                continue;
            };
            let said = evidence(&rows);
            let precision = numbers.values().map(|number| number.half_unit).fold(0.0, f64::max);
            let numbers = numbers.iter().map(|(&column, number)| (column, number.value)).collect();
            let unsaid = Unsaid { key: key.clone(), said, numbers, precision };
            let row = if key.name == "result_output" { -1 } else { 0 };
            known.extend(unsaid.at(row).map(|evidence| (key, evidence)));
            open.push(unsaid);
        }
        (known, open)
    }
}

impl Unsaid {
    /// All that is known of the value if its rows are this token's; `None` where that row is known already.
    pub(crate) fn at(&self, row: i64) -> Option<Evidence> {
        let cells = |row: i64| self.numbers.iter().map(move |&(column, value)| (row, column, value));
        let alone = |rows: Option<Vec<usize>>, row: i64| Evidence {
            width: 0,
            rows,
            known: Known::Some(cells(row).collect()),
            sum: None,
            precision: self.precision,
        };
        let Some(said) = &self.said else {
            return Some(match usize::try_from(row) {
                Ok(token) => alone(Some(vec![token]), 0),
                Err(_) => alone(None, row),
            });
        };
        let mut all = said.clone();
        all.precision = all.precision.max(self.precision);
        let Known::Some(known) = &mut all.known else { return None };
        match (&mut all.rows, usize::try_from(row)) {
            (Some(rows), Ok(token)) if !rows.contains(&token) => {
                known.extend(cells(rows.len() as i64));
                rows.push(token);
            }
            (None, _) if !known.iter().any(|&(other, ..)| other == row) => known.extend(cells(row)),
            _ => return None,
        }
        Some(all)
    }
}

fn evidence(rows: &BTreeMap<Token, BTreeMap<i64, Number>>) -> Option<Evidence> {
    let tokens: Vec<i64> =
        rows.keys().filter_map(|token| if let Token::At(at) = token { Some(*at) } else { None }).collect();
    let precision = rows.values().flat_map(BTreeMap::values).map(|number| number.half_unit).fold(0.0, f64::max);
    // Rows from the end could be any token's: then each row is named by its token.
    let list: Option<Vec<usize>> = tokens.iter().map(|&token| usize::try_from(token).ok()).collect();
    let index = |place: usize, token: i64| if list.is_some() { place as i64 } else { token };
    let mut known = Vec::new();
    for (place, &token) in tokens.iter().enumerate() {
        let numbers = rows.get(&Token::At(token)).into_iter().flatten();
        known.extend(numbers.map(|(&column, number)| (index(place, token), column, number.value)));
    }
    let first = tokens.first()?;
    debug_assert!(rows.contains_key(&Token::At(*first)));
    Some(Evidence { width: 0, rows: list, known: Known::Some(known), sum: None, precision })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(cells: &[(i64, i64, f32)]) -> Evidence {
        Evidence { width: 0, rows: None, known: Known::Some(cells.to_vec()), sum: None, precision: 5e-3 }
    }

    #[test]
    fn the_first_number_stands() {
        let (mut gather, key) = (Gather::default(), Key::new("l_out", Some(0)));
        let mut add = |line, cells: &[(i64, i64, f32)]| gather.add(&key, &numbers(cells), line, Token::At, None);
        assert_eq!(add(3, &[(0, 0, 0.5), (0, 1, 0.25)]), Ok(2));
        assert_eq!(add(5, &[(0, 1, 0.254), (0, 2, 1.0)]), Ok(2));
        let error = add(9, &[(0, 2, 1.5)]).unwrap_err();
        assert!(error.starts_with("line 5 has 1 where this has 1.5"), "{error}");
        assert_eq!(add(11, &[(2, 0, 1.5)]), Ok(1));
        let (known, open) = gather.finish();
        let [(_, evidence)] = &known[..] else { panic!("{known:?}") };
        assert_eq!(evidence.rows, Some(vec![0, 2]));
        assert_eq!(evidence.known, Known::Some(vec![(0, 0, 0.5), (0, 1, 0.25), (0, 2, 1.0), (1, 0, 1.5)]));
        assert!(open.is_empty());
    }

    #[test]
    fn rows_that_are_not_said_can_be_put_elsewhere() {
        let mut gather = Gather::default();
        for (key, said) in [("l_out", false), ("result_output", false), ("ffn_out", true)] {
            let key = Key::new(key, None);
            gather.add(&key, &numbers(&[(0, 0, 0.5)]), 1, |_| Token::Unsaid, None).unwrap();
            if said {
                gather.add(&key, &numbers(&[(3, 0, 1.5)]), 2, Token::At, None).unwrap();
            }
        }
        let (known, open) = gather.finish();
        let rows: Vec<_> = known.iter().map(|(key, value)| (key.name.as_str(), value.rows.clone())).collect();
        assert_eq!(rows, [("ffn_out", Some(vec![3, 0])), ("l_out", Some(vec![0])), ("result_output", None)]);
        let moved: Vec<_> = open.iter().map(|unsaid| unsaid.at(4).unwrap().rows).collect();
        assert_eq!(moved, [Some(vec![3, 4]), Some(vec![4]), Some(vec![4])]);
        assert_eq!(open[0].at(3), None);
    }
}
