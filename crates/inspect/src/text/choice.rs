//! Whether the generated tokens follow from the suspect's own logits and settings; faults are `super::choosing`.

use candor::sampler::Sampling;

use super::{
    choosing::{allowed, best, candidates},
    report::{Explanation, TextCheck},
    row::{Mutation, Row, Rows},
    scene::Scene,
    step::Step,
};

const NAME: &str = "choice of tokens";

/// Without logits, or without settings, this number of steps must speak for a fault.
const STEPS: usize = 3;

/// Other settings are believed where they make the choices this number of times likelier, as a logarithm: 10000. If the
/// settings are the given ones, this happens at most once in that number of runs (Markov's inequality).
const LIKELIER: f64 = 9.21;

pub(super) fn check(scene: &Scene<'_>, rows: Rows<'_>) -> TextCheck {
    let said = scene.said;
    let Some(generated) = said.generated_ids.as_ref().filter(|ids| !ids.is_empty()) else {
        return TextCheck::not_checkable(NAME, "the generated ids are unknown", Some("the generated token ids"));
    };
    let prompt = said.prompt_ids.clone().unwrap_or_default();
    if let Some(Err(error)) = said.sampling.as_ref().map(Sampling::validate) {
        return TextCheck::not_checkable(
            NAME,
            format!("the settings make no sense: {error}"),
            Some("the sampling settings"),
        );
    }
    let whole = [prompt.as_slice(), generated].concat();
    let asked = said.sampling.clone().unwrap_or_else(Sampling::greedy);
    let step = |place: usize, logits| Step {
        place,
        logits,
        before: &whole[..=place],
        prompt: prompt.len(),
        chosen: whole[place + 1],
        settings: &asked,
    };
    let places = prompt.len().saturating_sub(1)..whole.len() - 1;
    let known = said.logits.range(places.clone()).filter(|_| !prompt.is_empty());
    let steps: Vec<Step<'_>> = known.map(|(&place, logits)| step(place, logits.as_slice())).collect();
    if steps.is_empty() {
        let blind: Vec<Step<'_>> = places.filter(|_| !prompt.is_empty()).map(|place| step(place, &[][..])).collect();
        return without_logits(scene, rows, &blind, generated);
    }
    let mut wrong = 0;
    for step in &steps {
        match allowed(scene, step, step.logits, &asked) {
            None if step.logits.iter().all(|logit| logit.is_nan()) => wrong += 1,
            None => return TextCheck::not_checkable(NAME, "the settings leave too much to chance", None),
            Some(ids) => wrong += usize::from(!ids.contains(&step.chosen)),
        }
    }
    if said.sampling.is_none() {
        return without_settings(scene, rows, &steps, wrong);
    }
    if wrong == 0 {
        return likelihood(scene, rows, &steps, &asked);
    }
    let sentence =
        format!("{wrong} of {} tokens cannot be chosen from the suspect's own logits and settings", steps.len());
    finish(sentence, fitting(scene, rows, &steps))
}

/// The rows that allow what was chosen at every step: where there are such, only those that leave no other choice.
fn fitting(scene: &Scene<'_>, rows: Rows<'_>, steps: &[Step<'_>]) -> Vec<Explanation> {
    let mut exact = Vec::new();
    let mut loose = Vec::new();
    for &row in rows {
        let Mutation::Choose(choose) = row.mutation else { continue };
        let sets: Option<Vec<Vec<u32>>> = steps.iter().map(|step| choose(scene, step)).collect();
        let Some(sets) = sets else { continue };
        if steps.iter().zip(&sets).all(|(step, set)| set.contains(&step.chosen)) {
            let list = if sets.iter().all(|set| set.len() == 1) { &mut exact } else { &mut loose };
            list.push(Explanation::new(&[(row, String::new())]));
        }
    }
    if exact.is_empty() { loose } else { exact }
}

fn finish(sentence: String, explanations: Vec<Explanation>) -> TextCheck {
    let sentence = match explanations.as_slice() {
        [only] => format!("{sentence}. {}", only.cause),
        _ => sentence,
    };
    let decided_by =
        (explanations.len() > 1).then(|| "the logits of more steps, and of every prompt position".to_owned());
    TextCheck { decided_by, ..TextCheck::wrong(NAME, sentence).explained(explanations) }
}

/// What the ids alone show: only what needs no logits.
fn without_logits(scene: &Scene<'_>, rows: Rows<'_>, steps: &[Step<'_>], generated: &[u32]) -> TextCheck {
    if generated.len() >= STEPS {
        let needs_none = |row: &&Row| ["always-token-0", "prompt-echoed"].contains(&row.fault.name);
        let fits = |row: &&'static Row| match row.mutation {
            Mutation::Choose(_) if steps.is_empty() => {
                row.fault.name == "always-token-0" && generated.iter().all(|&id| id == 0)
            }
            Mutation::Choose(choose) => {
                steps.iter().all(|step| choose(scene, step).is_some_and(|ids| ids == [step.chosen]))
            }
            _ => false,
        };
        let found: Vec<Explanation> = rows
            .iter()
            .copied()
            .filter(needs_none)
            .filter(fits)
            .map(|row| Explanation::new(&[(row, String::new())]))
            .collect();
        if !found.is_empty() {
            return finish(format!("{} generated tokens follow a pattern that no model makes", generated.len()), found);
        }
    }
    TextCheck::not_checkable(NAME, "the logits are unknown", Some("the logits of the last prompt position"))
}

/// Without settings the best token is right, and others may be.
fn without_settings(scene: &Scene<'_>, rows: Rows<'_>, steps: &[Step<'_>], wrong: usize) -> TextCheck {
    if wrong == 0 {
        return TextCheck::right(NAME, format!("the best token at each of {} steps", steps.len()));
    }
    let never = steps.iter().all(|step| best(step.logits).is_none_or(|ids| !ids.contains(&step.chosen)));
    let found = if never && steps.len() >= STEPS { fitting(scene, rows, steps) } else { Vec::new() };
    let sentence = format!("{wrong} of {} tokens are not the best ones, and the settings are unknown", steps.len());
    if found.is_empty() {
        return TextCheck::not_checkable(NAME, sentence, Some("the sampling settings"));
    }
    finish(sentence, found)
}

/// Tokens that may all be chosen: are they as likely as they should be?
fn likelihood(scene: &Scene<'_>, rows: Rows<'_>, steps: &[Step<'_>], asked: &Sampling) -> TextCheck {
    let right = format!("{} tokens are among those that the settings allow", steps.len());
    if asked.temperature <= 0.0 {
        return TextCheck::right(NAME, right);
    }
    let Some(given) = log_likelihood(scene, steps, asked) else { return TextCheck::right(NAME, right) };
    let mut found: Vec<(f64, &'static Row)> = Vec::new();
    for &row in rows {
        let Mutation::Settings(change) = row.mutation else { continue };
        let gain = change(asked).and_then(|other| log_likelihood(scene, steps, &other)).map(|other| other - given);
        found.extend(gain.filter(|&gain| gain > LIKELIER).map(|gain| (gain, row)));
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some(&(gain, _)) = found.first() else { return TextCheck::right(NAME, right) };
    // What is nearly as likely as the likeliest is a twin.
    found.retain(|(other, _)| gain - other < LIKELIER);
    let explanations = found.iter().map(|(_, row)| Explanation::new(&[(*row, String::new())])).collect();
    let sentence =
        format!("the {} choices are e^{gain:.0} times likelier with other settings than the given ones", steps.len());
    finish(sentence, explanations)
}

/// Logarithm of the probability of all choices; minus infinity where one cannot be.
fn log_likelihood(scene: &Scene<'_>, steps: &[Step<'_>], settings: &Sampling) -> Option<f64> {
    let mut sum = 0.0;
    for step in steps {
        let left = candidates(scene, step.logits, step.seen(scene.said.penalised), settings)?;
        let chosen = left.iter().find(|candidate| candidate.id == step.chosen);
        sum += chosen.map_or(f64::NEG_INFINITY, |candidate| f64::from(candidate.p).ln());
    }
    Some(sum)
}
