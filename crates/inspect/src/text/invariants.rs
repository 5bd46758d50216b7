//! What holds of logits whatever the model is: used where only the foreign engine's values are known.

use candor::Gguf;

use super::{
    report::{Explanation, TextCheck},
    row::{Mutation, Row, Rows, TextFault},
    scene::Scene,
};

const NAME: &str = "logits";

/// Equal logits of this number of neighbouring ids are no coincidence.
const RUN: usize = 32;

/// This number of positions must agree on their best token, after as many different tokens, before it is odd.
const POSITIONS: usize = 8;
const DIFFERENT: usize = 4;

const fn row(fault: TextFault, mutation: fn(&Scene<'_>) -> Option<String>) -> Row {
    Row { fault, mutation: Mutation::Logits(mutation) }
}

pub(super) const ROWS: &[Row] = &[
    row(
        TextFault {
            name: "logits-not-finite",
            entry: "88",
            cause: "Logits are not numbers: {}.",
            remedy: "Find the first operation with NaN or infinity in a trace; at temperature 0 take the best, do not divide.",
            source: "google-deepmind/gemma#562",
        },
        not_finite,
    ),
    row(
        TextFault {
            name: "head-cut-short",
            entry: "70",
            cause: "A range of ids has equal logits, and its weights are not equal: {}.",
            remedy: "Compute every row of the output matrix: check the tensor's size, and the tail of the last tile.",
            source: "gibberish.md#A9",
        },
        equal_range,
    ),
    row(
        TextFault {
            name: "context-not-reaching-head",
            entry: "59",
            cause: "The context does not reach the head: {}.",
            remedy: "Check that the residual stream, and not the embedding or a stale buffer, goes into the output norm.",
            source: "gibberish.md#A9",
        },
        same_everywhere,
    ),
    row(
        TextFault {
            name: "probabilities-for-logits",
            entry: "92",
            cause: "The values are probabilities, not logits: {}.",
            remedy: "Sample from logits: a softmax over probabilities makes every token about equally likely.",
            source: "utensils/mold#1690",
        },
        probabilities,
    ),
    row(
        TextFault {
            name: "wrong-width",
            entry: "80",
            cause: "The rows have another width than the vocabulary: {}.",
            remedy: "Take the number of rows of the output matrix for the number of logits.",
            source: "gibberish.md#A9",
        },
        wrong_width,
    ),
];

fn not_finite(scene: &Scene<'_>) -> Option<String> {
    // Engines write minus infinity where they forbid a token.
    let broken = |logit: &&f32| logit.is_nan() || **logit == f32::INFINITY;
    scene.said.logits.iter().find_map(|(place, row)| {
        let count = row.iter().filter(broken).count();
        (count > 0).then(|| format!("{count} of {} behind token {place}", row.len()))
    })
}

fn equal_range(scene: &Scene<'_>) -> Option<String> {
    let rows = &scene.said.logits;
    let first = rows.values().next()?;
    for (start, end) in runs(first) {
        let everywhere =
            rows.values().all(|row| row.get(start..end).is_some_and(|run| run.iter().all(|&x| x == run[0])));
        if everywhere && equal_weights(scene.gguf, start, end) == Some(false) {
            return Some(format!("ids {start} to {} have {} each", end - 1, first[start]));
        }
    }
    None
}

/// Ranges of at least [`RUN`] equal numbers.
fn runs(row: &[f32]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut start = 0;
    for at in 1..=row.len() {
        if at == row.len() || row[at] != row[start] {
            if at - start >= RUN && row[start].is_finite() {
                found.push((start, at));
            }
            start = at;
        }
    }
    found
}

/// Whether rows of the head have equal weights, as the unused ones of some vocabularies do; `None` without a head.
fn equal_weights(gguf: &Gguf, start: usize, end: usize) -> Option<bool> {
    let tensor = gguf.tensor("output.weight").or_else(|| gguf.tensor("token_embd.weight"))?;
    let rows = usize::try_from(*tensor.shape.get(1)?).ok()?;
    let bytes = gguf.data(tensor);
    let width = bytes.len().checked_div(rows)?;
    let row = |place: usize| bytes.get(place * width..(place + 1) * width);
    let first = row(start)?;
    Some((start..end.min(rows)).all(|place| row(place) == Some(first)))
}

fn same_everywhere(scene: &Scene<'_>) -> Option<String> {
    let said = scene.said;
    let whole = [said.prompt_ids.as_deref()?, said.generated_ids.as_deref().unwrap_or_default()].concat();
    let rows: Vec<(u32, &Vec<f32>)> =
        said.logits.iter().filter_map(|(&place, row)| Some((*whole.get(place)?, row))).collect();
    for pair in rows.windows(2) {
        if pair[0].0 != pair[1].0 && pair[0].1 == pair[1].1 {
            return Some("two neighbouring positions with different tokens have the very same logits".to_owned());
        }
    }
    let mut tokens: Vec<u32> = rows.iter().map(|(token, _)| *token).collect();
    tokens.sort_unstable();
    tokens.dedup();
    let best = |row: &Vec<f32>| super::choosing::best(row).and_then(|ids| ids.first().copied());
    let first = best(rows.first()?.1)?;
    let same = rows.iter().all(|(_, row)| best(row) == Some(first));
    (same && rows.len() >= POSITIONS && tokens.len() >= DIFFERENT)
        .then(|| format!("token {first} is the best at all {} positions", rows.len()))
}

fn probabilities(scene: &Scene<'_>) -> Option<String> {
    const OFF: f64 = 1e-3;
    let rows = &scene.said.logits;
    let is_one = |row: &Vec<f32>| {
        let sum: f64 = row.iter().map(|&p| f64::from(p)).sum();
        row.len() > 1 && row.iter().all(|&p| (0.0..=1.0).contains(&p)) && (sum - 1.0).abs() < OFF
    };
    (!rows.is_empty() && rows.values().all(is_one)).then(|| "they are between 0 and 1, and their sum is 1".to_owned())
}

fn wrong_width(scene: &Scene<'_>) -> Option<String> {
    let tensor = scene.gguf.tensor("output.weight").or_else(|| scene.gguf.tensor("token_embd.weight"));
    let expected = tensor.and_then(|tensor| usize::try_from(*tensor.shape.get(1)?).ok())?;
    let wrong = scene.said.logits.values().find(|row| row.len() != expected)?;
    Some(format!("{} logits, {expected} tokens", wrong.len()))
}

pub(super) fn check(scene: &Scene<'_>, rows: Rows<'_>) -> TextCheck {
    if scene.said.logits.is_empty() {
        let by = Some("the logits of every prompt position");
        return TextCheck::not_checkable(NAME, "the logits are unknown", by);
    }
    let found: Vec<Explanation> = rows
        .iter()
        .filter_map(|&row| match row.mutation {
            Mutation::Logits(speaks) => Some(Explanation::new(&[(row, speaks(scene)?)])),
            _ => None,
        })
        .collect();
    match found.first() {
        None => TextCheck::right(NAME, format!("{} rows of finite, differing numbers", scene.said.logits.len())),
        Some(first) => TextCheck::wrong(NAME, first.cause.clone()).explained(found),
    }
}
