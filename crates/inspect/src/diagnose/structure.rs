//! What can be said of a wrong value that no known fault reproduces: where it is wrong, and in what way.

use crate::{Evidence, Kind, Known, NodeId, Value, replay::Stage};

/// Sentences about the difference, the most telling first.
pub(super) fn describe(stage: &Stage<'_>, id: NodeId, expected: &Value, evidence: &Evidence) -> Vec<String> {
    let mut lines = Vec::new();
    let Known::All(got) = &evidence.known else { return lines };
    if got.len() != expected.data.len() || expected.data.is_empty() {
        return lines;
    }
    let bad = got.iter().filter(|x| !x.is_finite()).count();
    if bad > 0 {
        lines.push(format!("{bad} of {} elements are NaN or infinite, its inputs are finite", got.len()));
        return lines;
    }
    let zeros = got.iter().rev().take_while(|&&x| x == 0.0).count();
    if zeros > 1 && got.len() > zeros {
        lines.push(format!("the last {zeros} of {} elements are exactly 0", got.len()));
    }
    if let Some(factor) = constant_ratio(got, &expected.data) {
        lines.push(format!("every element is {factor:.6} times what it should be: a scale is missing or extra"));
    }
    let mut sorted = (got.clone(), expected.data.clone());
    sorted.0.sort_by(f32::total_cmp);
    sorted.1.sort_by(f32::total_cmp);
    if relative(&sorted.0, &sorted.1) < 1e-4 {
        lines.push("the elements are right, but in another order: a permutation or a layout".to_owned());
    }
    let rows: Vec<bool> = (0..expected.rows)
        .map(|row| relative(&got[row * expected.width..][..expected.width], expected.row(row)) > 1e-2)
        .collect();
    lines.extend(parts("token", &rows, stage.tokens.prompt));
    let heads = match &stage.graph.nodes[id].kind {
        Kind::Mix(heads) | Kind::Scores(heads) => heads.heads,
        Kind::SoftMax(attending) => attending.heads.heads,
        Kind::Rope { head_dim, .. } => expected.width / head_dim,
        _ => 1,
    };
    if heads > 1 {
        let dim = expected.width / heads;
        let wrong: Vec<bool> = (0..heads)
            .map(|head| {
                (0..expected.rows).any(|row| {
                    let at = row * expected.width + head * dim;
                    relative(&got[at..at + dim], &expected.data[at..at + dim]) > 1e-2
                })
            })
            .collect();
        lines.extend(parts("head", &wrong, usize::MAX));
    }
    lines
}

fn parts(what: &str, wrong: &[bool], prompt: usize) -> Option<String> {
    let count = wrong.iter().filter(|&&wrong| wrong).count();
    let first = wrong.iter().position(|&wrong| wrong)?;
    Some(match count {
        _ if count == wrong.len() => return None,
        _ if first == prompt && count == wrong.len() - first => {
            "the prompt is right, every decoded token is wrong: look at positions and the cache".to_owned()
        }
        _ if first == 1 && count == wrong.len() - 1 => {
            format!("{what} 0 is right, all after it are wrong: look at what depends on the {what}")
        }
        1 => format!("only {what} {first} is wrong"),
        _ => format!("{count} of {} {what}s are wrong, the first is {first}", wrong.len()),
    })
}

fn relative(got: &[f32], expected: &[f32]) -> f64 {
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        got.iter().zip(expected).map(|(&a, &b)| f(f64::from(a), f64::from(b))).sum()
    };
    (sum(&|a, b| (a - b).powi(2)) / sum(&|_, b| b * b).max(f64::MIN_POSITIVE)).sqrt()
}

fn constant_ratio(got: &[f32], expected: &[f32]) -> Option<f64> {
    let dot = |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum() };
    let factor = dot(got, expected) / dot(expected, expected).max(f64::MIN_POSITIVE);
    let scaled: Vec<f32> = expected.iter().map(|&x| (f64::from(x) * factor) as f32).collect();
    (relative(got, &scaled) < 1e-3 && (factor - 1.0).abs() > 1e-2).then_some(factor)
}
