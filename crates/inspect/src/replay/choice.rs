//! A choice of experts in the order in which a trace has it: engines sort a row's experts as they please.

use candor_ops::CHOSEN;

use super::plan::Choice;
use crate::{Key, Node, Trace, Value, graph::Chosen};

/// What a trace says of the choice.
pub(super) struct Told<'a> {
    /// Experts of each row.
    experts: Option<&'a [f32]>,
    /// Their weights.
    weights: Option<&'a [f32]>,
    /// What logits may be off by, relative to a usual one of the row.
    off: f32,
}

impl Told<'_> {
    pub(super) fn of<'a>(trace: &'a Trace, node: &Node, off: f32) -> Told<'a> {
        let all = |name: &str| {
            let evidence = trace.values.get(&Key::new(name, node.key.layer))?;
            evidence.dense(evidence.rows.as_ref()?.len(), node.width)
        };
        Told { experts: all(CHOSEN[0]), weights: all(CHOSEN[1]), off }
    }
}

/// A part of the choice by these logits. Experts and weights are in the trace's order, where it has one.
pub(super) fn part(part: Chosen, plan: &Choice, logits: &Value, told: Option<&Told<'_>>) -> Value {
    let both = plan.run(logits);
    let (item, used) = match part {
        Chosen::Both => return both,
        Chosen::Experts => (0, both.width / 2),
        Chosen::Weights => (1, both.width / 2),
    };
    let mut out = Value::zeros(both.rows, used);
    for t in 0..both.rows {
        let row = |all: &'_ [f32]| all.chunks_exact(used).nth(t).map(<[f32]>::to_vec);
        let mut pairs = split(both.row(t));
        let experts = told.and_then(|told| row(told.experts?));
        let weights = told.and_then(|told| row(told.weights?));
        if let (Some(told), Some(experts)) = (told, &experts) {
            if let Some(others) = nearly(plan, logits.row(t), experts, told.off) {
                pairs = others;
            }
            pairs = matched(pairs, experts);
        } else if let Some(weights) = weights {
            pairs = ranked(pairs, &weights);
        }
        out.row_mut(t).iter_mut().zip(&pairs).for_each(|(out, pair)| *out = pair[item]);
    }
    out
}

fn split(row: &[f32]) -> Vec<[f32; 2]> {
    row.as_chunks::<2>().0.to_vec()
}

/// The choice of just these experts, if logits that are off by so little lead to it.
fn nearly(plan: &Choice, logits: &[f32], experts: &[f32], off: f32) -> Option<Vec<[f32; 2]>> {
    let has = |pairs: &[[f32; 2]]| pairs.iter().all(|pair| experts.contains(&pair[0]));
    let run = |logits: Vec<f32>| split(&plan.run(&Value { rows: 1, width: logits.len(), data: logits }).data);
    // A faulty operation may give a few giant ones, beside which all others are as good as equal: that excuses nothing.
    let mut sizes: Vec<f32> = logits.iter().map(|x| x.abs()).collect();
    sizes.sort_by(f32::total_cmp);
    let off = off * sizes.get(sizes.len() / 2).copied().filter(|size| size.is_finite()).unwrap_or(0.0);
    let towards = |(i, x): (usize, &f32)| if experts.contains(&(i as f32)) { x + off } else { x - off };
    let exact = run(logits.to_vec());
    if has(&exact) {
        return None;
    }
    Some(run(logits.iter().enumerate().map(towards).collect())).filter(|pairs| has(pairs))
}

/// Pairs in the order of these experts; what is of none of them fills the other places.
fn matched(mut pairs: Vec<[f32; 2]>, experts: &[f32]) -> Vec<[f32; 2]> {
    let found: Vec<Option<[f32; 2]>> = experts
        .iter()
        .map(|expert| Some(pairs.swap_remove(pairs.iter().position(|pair| pair[0] == *expert)?)))
        .collect();
    let mut rest = pairs.into_iter();
    found.into_iter().filter_map(|pair| pair.or_else(|| rest.next())).collect()
}

/// Pairs such that the largest weight is where the largest of these is, and so on.
fn ranked(mut pairs: Vec<[f32; 2]>, weights: &[f32]) -> Vec<[f32; 2]> {
    let mut places: Vec<usize> = (0..weights.len()).collect();
    places.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    pairs.sort_by(|a, b| b[1].total_cmp(&a[1]));
    let mut out = vec![[0.0; 2]; pairs.len()];
    places.into_iter().zip(pairs).for_each(|(place, pair)| out[place] = pair);
    out
}

#[cfg(test)]
mod tests {
    use candor_ops::{Gate, Router};

    use super::*;

    fn told(logits: &[f32], experts: &[f32], off: f32) -> Vec<f32> {
        let router = Router { experts: 4, used: 2, gate: Gate::Softmax, groups: (1, 1), normalized: true, scale: 1.0 };
        let logits = Value { rows: 1, width: 4, data: logits.to_vec() };
        let told = Told { experts: Some(experts), weights: None, off };
        part(Chosen::Experts, &Choice::new(router, None), &logits, Some(&told)).data
    }

    #[test]
    fn experts_are_in_the_order_that_is_told() {
        assert_eq!(told(&[0.0, 3.0, 1.0, 2.0], &[3.0, 1.0], 1e-6), [3.0, 1.0]);
        assert_eq!(told(&[0.0, 3.0, 1.0, 2.0], &[2.0, 1.0], 1e-6), [3.0, 1.0], "the third is none");
        assert_eq!(told(&[0.0, 3.0, 1.0, 2.0], &[9.0, 9.0], 1e-6), [1.0, 3.0]);
    }

    #[test]
    fn of_two_that_rounding_cannot_tell_apart_either_is_right() {
        assert_eq!(told(&[0.0, 3.0, 2.0, 2.000_001], &[1.0, 2.0], 1e-6), [1.0, 2.0]);
        assert_eq!(told(&[0.0, 3.0, 2.0, 2.000_1], &[1.0, 2.0], 1e-6), [1.0, 3.0]);
        assert_eq!(told(&[1e7, 3.0, 1.0, 2.0], &[0.0, 2.0], 1e-6), [0.0, 1.0], "a giant excuses nothing");
    }
}
