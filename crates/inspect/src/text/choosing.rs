//! Rows on how a token is chosen from logits: each gives the tokens that a faulty engine could have chosen at a step.
//! Which of them fits a run is `super::choice`.

use candor::{
    Encode, Show,
    sampler::{Sampler, Sampling, Vocabulary},
};

use super::{
    Penalised,
    row::{Mutation, Row, TextFault},
    scene::Scene,
    step::Step,
};

const fn choose(fault: TextFault, mutation: fn(&Scene<'_>, &Step<'_>) -> Option<Vec<u32>>) -> Row {
    Row { fault, mutation: Mutation::Choose(mutation) }
}

const fn settings(fault: TextFault, mutation: fn(&Sampling) -> Option<Sampling>) -> Row {
    Row { fault, mutation: Mutation::Settings(mutation) }
}

pub(super) const ROWS: &[Row] = &[
    choose(
        TextFault {
            name: "always-token-0",
            entry: "89",
            cause: "Token 0 is chosen whatever the logits: top_k = 0 was taken for an empty set, or NaN never compares greater.",
            remedy: "Take top_k = 0 for \"all\", and refuse logits that are NaN.",
            source: "ohdearquant/lattice#225",
        },
        |_, _| Some(vec![0]),
    ),
    choose(
        TextFault {
            name: "last-of-vocabulary",
            entry: "89",
            cause: "The last token of the vocabulary is chosen whatever the logits: a cumulative sum never reached its target.",
            remedy: "Normalise probabilities before drawing, and fall back to the best token.",
            source: "gibberish.md#89",
        },
        |_, step| Some(vec![u32::try_from(step.logits.len().checked_sub(1)?).ok()?]),
    ),
    choose(
        TextFault {
            name: "best-token-regardless",
            entry: "88",
            cause: "The best token was taken, without the sampling or the penalties that were asked for.",
            remedy: "Run the sampling chain with the settings of the request.",
            source: "gibberish.md#88",
        },
        |_, step| best(step.logits),
    ),
    choose(
        TextFault {
            name: "sorted-ascending",
            entry: "89",
            cause: "The least likely token was taken: logits were sorted the wrong way round.",
            remedy: "Sort by logit, the greatest first.",
            source: "gibberish.md#89",
        },
        |_, step| best(&step.logits.iter().map(|logit| -logit).collect::<Vec<_>>()),
    ),
    choose(
        TextFault {
            name: "top-p-unsorted",
            entry: "89",
            cause: "top_p summed up probabilities in the order of ids, not of likelihood.",
            remedy: "Sort by probability, the greatest first, before the sum is cut at top_p.",
            source: "gibberish.md#89",
        },
        top_p_unsorted,
    ),
    choose(
        TextFault {
            name: "temperature-0-ignored",
            entry: "88",
            cause: "A token was drawn although temperature 0 asks for the best.",
            remedy: "Take the best token at temperature 0, and do not divide by it.",
            source: "google-deepmind/gemma#562",
        },
        |scene, step| {
            let cold = step.settings.temperature <= 0.0;
            let warm = step.settings.clone().temperature(1.0);
            if cold { allowed(scene, step, step.logits, &warm) } else { None }
        },
    ),
    choose(
        TextFault {
            name: "penalty-divides-negatives",
            entry: "90",
            cause: "The repetition penalty divided negative logits too, which makes repeated tokens likelier.",
            remedy: "Multiply logits below 0 by the penalty, divide the others.",
            source: "huggingface/transformers#2302",
        },
        penalty_divides,
    ),
    choose(
        TextFault {
            name: "penalty-per-occurrence",
            entry: "90",
            cause: "The repetition penalty was applied once for each time that a token was seen.",
            remedy: "Apply it once to each token that was seen at all.",
            source: "ggml-org/llama.cpp#2970",
        },
        penalty_per_occurrence,
    ),
    choose(
        TextFault {
            name: "penalty-over-prompt",
            entry: "91",
            cause: "The penalties looked at the prompt, and not only at the continuation.",
            remedy: "Count the tokens that were generated, or compare with an engine that counts the prompt too.",
            source: "gibberish.md#91",
        },
        |scene, step| other_scope(scene, step, Penalised::Context),
    ),
    choose(
        TextFault {
            name: "penalty-without-prompt",
            entry: "91",
            cause: "The penalties looked at the continuation only, and not at the prompt.",
            remedy: "Count the prompt's tokens too, as llama.cpp and Transformers do.",
            source: "gibberish.md#91",
        },
        |scene, step| other_scope(scene, step, Penalised::Continuation),
    ),
    choose(
        TextFault {
            name: "logits-of-row-before",
            entry: "92",
            cause: "The token was chosen from the logits of the position before.",
            remedy: "Take the logits of the last position: row P - 1 of a prompt of P tokens.",
            source: "utensils/mold#1690",
        },
        |scene, step| other_row(scene, step, step.place.checked_sub(1)?),
    ),
    choose(
        TextFault {
            name: "logits-of-first-row",
            entry: "92",
            cause: "The token was chosen from the logits of the first position.",
            remedy: "Take the logits of the last position: row P - 1 of a prompt of P tokens.",
            source: "utensils/mold#1690",
        },
        |scene, step| other_row(scene, step, 0),
    ),
    choose(
        TextFault {
            name: "best-of-all-rows",
            entry: "92",
            cause: "The greatest logit was looked for in all positions at once.",
            remedy: "Take the logits of the last position: row P - 1 of a prompt of P tokens.",
            source: "utensils/mold#1690",
        },
        best_of_all_rows,
    ),
    choose(
        TextFault {
            name: "prompt-echoed",
            entry: "92",
            cause: "The generated tokens are the prompt's own.",
            remedy: "Give back what comes behind the prompt, and choose from the last position's logits.",
            source: "utensils/mold#1690",
        },
        |_, step| {
            let place = step.before.len().checked_sub(step.prompt)?;
            Some(vec![*step.before.get(..step.prompt)?.get(place)?])
        },
    ),
    settings(
        TextFault {
            name: "greedy-though-sampling",
            entry: "88",
            cause: "The best token was taken at every step although the settings ask for sampling.",
            remedy: "Draw from the distribution at a temperature above 0.",
            source: "gibberish.md#88",
        },
        |asked| Some(asked.clone().temperature(0.0)),
    ),
    settings(
        TextFault {
            name: "temperature-twice",
            entry: "88",
            cause: "The logits were divided by the temperature twice.",
            remedy: "Divide by the temperature in one place.",
            source: "RL-Align/RL-Kernel#81",
        },
        |asked| Some(asked.clone().temperature(asked.temperature * asked.temperature)),
    ),
    settings(
        TextFault {
            name: "temperature-ignored",
            entry: "88",
            cause: "The tokens were drawn at temperature 1.",
            remedy: "Divide the logits by the temperature that was asked for.",
            source: "gibberish.md#88",
        },
        |asked| Some(asked.clone().temperature(1.0)),
    ),
];

/// The tokens with the greatest logit; none where no logit is a number.
pub(super) fn best(logits: &[f32]) -> Option<Vec<u32>> {
    let greatest = logits.iter().copied().filter(|logit| !logit.is_nan()).max_by(f32::total_cmp)?;
    let ids = (0u32..).zip(logits).filter(|(_, logit)| **logit == greatest);
    Some(ids.map(|(id, _)| id).collect())
}

/// What the chain leaves of some logits, with probabilities; `None` where it is left to chance what it leaves.
pub(super) fn candidates(
    scene: &Scene<'_>,
    logits: &[f32],
    seen: &[u32],
    settings: &Sampling,
) -> Option<Vec<candor::sampler::Candidate>> {
    if settings.mirostat != 0 || settings.xtc_probability > 0.0 {
        return None;
    }
    let vocabulary = Vocabulary {
        tokens: scene.tokenizer.vocab_size(),
        piece: &|id| scene.tokenizer.piece(id, Show::Specials).into_owned(),
        encode: &|text| scene.tokenizer.encode(text, Encode::text()),
    };
    let context = scene.said.context.unwrap_or(seen.len());
    let mut sampler = Sampler::new(settings, context, Some(&vocabulary)).ok()?;
    seen.iter().for_each(|&id| sampler.accept(id));
    Some(sampler.candidates(logits).ok()?.to_vec())
}

/// The tokens that the settings allow; at temperature 0 the best, with those that equal it.
pub(super) fn allowed(scene: &Scene<'_>, step: &Step<'_>, logits: &[f32], settings: &Sampling) -> Option<Vec<u32>> {
    allowed_after(scene, step.seen(scene.said.penalised), logits, settings)
}

fn allowed_after(scene: &Scene<'_>, seen: &[u32], logits: &[f32], settings: &Sampling) -> Option<Vec<u32>> {
    if settings.temperature > 0.0 {
        let left = candidates(scene, logits, seen, settings)?;
        return Some(left.iter().map(|candidate| candidate.id).collect());
    }
    let left = candidates(scene, logits, seen, &settings.clone().temperature(1.0).top_k(0))?;
    let greatest = left.iter().map(|candidate| candidate.logit).max_by(f32::total_cmp)?;
    Some(left.iter().filter(|candidate| candidate.logit == greatest).map(|candidate| candidate.id).collect())
}

fn top_p_unsorted(_: &Scene<'_>, step: &Step<'_>) -> Option<Vec<u32>> {
    let Sampling { temperature, top_p, .. } = *step.settings;
    if top_p >= 1.0 || temperature <= 0.0 {
        return None;
    }
    let greatest = step.logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> = step.logits.iter().map(|logit| f64::from((logit - greatest) / temperature).exp()).collect();
    let sum: f64 = powers.iter().sum();
    let mut reached = 0.0;
    let kept = powers.iter().take_while(|power| {
        let open = reached < f64::from(top_p) * sum;
        reached += **power;
        open
    });
    let count = u32::try_from(kept.count()).ok()?;
    // A set that holds every token says nothing.
    ((count as usize) < step.logits.len()).then(|| (0..count).collect())
}

/// The last tokens that the repetition penalty looks at.
fn window<'s>(scene: &Scene<'_>, step: &Step<'s>) -> &'s [u32] {
    let seen = step.seen(scene.said.penalised);
    let last = usize::try_from(step.settings.repeat_last_n).unwrap_or(seen.len()).min(seen.len());
    &seen[seen.len() - last..]
}

/// The choice where `penalise(logit, times, penalty)` takes the place of the repetition penalty.
fn penalised_by(scene: &Scene<'_>, step: &Step<'_>, penalise: impl Fn(f32, i32, f32) -> f32) -> Option<Vec<u32>> {
    let penalty = step.settings.repeat_penalty;
    if penalty == 1.0 {
        return None;
    }
    let seen = window(scene, step);
    let mut logits = step.logits.to_vec();
    for (id, logit) in (0u32..).zip(&mut logits) {
        let times = seen.iter().filter(|&&before| before == id).count();
        if times > 0 {
            *logit = penalise(*logit, times as i32, penalty);
        }
    }
    allowed(scene, step, &logits, &step.settings.clone().repeat_penalty(1.0))
}

fn penalty_divides(scene: &Scene<'_>, step: &Step<'_>) -> Option<Vec<u32>> {
    penalised_by(scene, step, |logit, _, penalty| logit / penalty)
}

fn penalty_per_occurrence(scene: &Scene<'_>, step: &Step<'_>) -> Option<Vec<u32>> {
    penalised_by(
        scene,
        step,
        |logit, times, penalty| {
            if logit <= 0.0 { logit * penalty.powi(times) } else { logit / penalty.powi(times) }
        },
    )
}

fn other_scope(scene: &Scene<'_>, step: &Step<'_>, scope: Penalised) -> Option<Vec<u32>> {
    let Sampling { repeat_penalty, presence_penalty, frequency_penalty, .. } = *step.settings;
    let on = repeat_penalty != 1.0 || presence_penalty != 0.0 || frequency_penalty != 0.0;
    let other = on && scene.said.penalised != scope;
    if other { allowed_after(scene, step.seen(scope), step.logits, step.settings) } else { None }
}

fn other_row(scene: &Scene<'_>, step: &Step<'_>, place: usize) -> Option<Vec<u32>> {
    let logits = scene.said.logits.get(&place).filter(|_| place != step.place)?;
    allowed(scene, step, logits, step.settings)
}

fn best_of_all_rows(scene: &Scene<'_>, step: &Step<'_>) -> Option<Vec<u32>> {
    let rows = scene.said.logits.range(..=step.place);
    let greatest = rows.flat_map(|(_, row)| row).copied().filter(|logit| !logit.is_nan()).max_by(f32::total_cmp)?;
    let rows = scene.said.logits.range(..=step.place);
    let ids = rows.flat_map(|(_, row)| (0u32..).zip(row)).filter(|(_, logit)| **logit == greatest);
    Some(ids.map(|(id, _)| id).collect())
}
