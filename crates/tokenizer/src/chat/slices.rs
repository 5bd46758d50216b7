//! Python's slices with a step, of lists, tuples and strings.

use minijinja::value::{Tuple, Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind};

use super::generator::is_generator;

/// `value[start:stop:step]`.
pub(super) fn slice(value: &Value, args: &[Value]) -> Result<Value, Error> {
    let (start, stop, step): (Option<i64>, Option<i64>, Option<i64>) = from_args(args)?;
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(Error::new(ErrorKind::InvalidOperation, "slice step cannot be zero"));
    }
    let take = |len: usize| indices(len, start, stop, step);
    match value.kind() {
        ValueKind::String => {
            let chars: Vec<char> = value.as_str().unwrap_or_default().chars().collect();
            Ok(Value::from(take(chars.len()).map(|at| chars[at]).collect::<String>()))
        }
        ValueKind::Seq | ValueKind::Iterable if !is_generator(value) => {
            let items: Vec<Value> = value.try_iter()?.collect();
            let taken = take(items.len()).map(|at| items[at].clone()).collect::<Vec<Value>>();
            Ok(if value.is_tuple() { Value::from(Tuple::from(taken)) } else { Value::from(taken) })
        }
        kind => Err(Error::new(ErrorKind::InvalidOperation, format!("{kind} cannot be sliced"))),
    }
}

/// The indices that a slice of `len` items has.
fn indices(len: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> impl Iterator<Item = usize> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let bound = |bound: i64| if bound < 0 { bound.saturating_add(len).max(low) } else { bound.min(high) };
    let start = start.map_or(if step > 0 { low } else { high }, bound);
    let stop = stop.map_or(if step > 0 { high } else { low }, bound);
    let within = move |at: &i64| if step > 0 { *at < stop } else { *at > stop };
    let all = std::iter::successors(Some(start), move |at| at.checked_add(step));
    all.take_while(within).filter_map(|at| usize::try_from(at).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_s_indices() {
        let cases = [
            (0, None, None, -1, &[][..]),
            (3, None, None, -1, &[2, 1, 0]),
            (5, None, None, 2, &[0, 2, 4]),
            (5, Some(1), Some(-1), 2, &[1, 3]),
            (5, Some(-2), None, -2, &[3, 1]),
            (5, Some(9), Some(0), -3, &[4, 1]),
            (3, Some(-9), Some(9), 1, &[0, 1, 2]),
            (3, Some(0), Some(-9), -1, &[0]),
            (3, Some(i64::MIN), Some(i64::MAX), i64::MAX, &[0]),
        ];
        for (len, start, stop, step, expected) in cases {
            let got: Vec<usize> = indices(len, start, stop, step).collect();
            assert_eq!(got, expected, "{len} {start:?} {stop:?} {step}");
        }
    }
}
