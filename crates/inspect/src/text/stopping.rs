//! Whether an answer ended where it should: at the first token that the file, or its template, ends a turn with.

use std::collections::BTreeSet;

use candor::Message;

use super::{
    report::{Explanation, TextCheck},
    row::{Mutation, Row, Rows, TextFault},
    scene::Scene,
};

const NAME: &str = "stopping";

const fn stop(fault: TextFault, mutation: fn(&Scene<'_>) -> Option<BTreeSet<u32>>) -> Row {
    Row { fault, mutation: Mutation::Stop(mutation) }
}

const fn leak(fault: TextFault, mutation: fn(&Scene<'_>, &str) -> Option<String>) -> Row {
    Row { fault, mutation: Mutation::Leak(mutation) }
}

pub(super) const ROWS: &[Row] = &[
    stop(
        TextFault {
            name: "eos-not-stopping",
            entry: "93",
            cause: "The engine went on behind EOS.",
            remedy: "Stop at tokenizer.ggml.eos_token_id (unless ignore_eos was asked for).",
            source: "Blaizzy/mlx-vlm#2112",
        },
        |scene| without(scene, &[scene.tokenizer.eos()]),
    ),
    stop(
        TextFault {
            name: "eot-not-stopping",
            entry: "93",
            cause: "The engine went on behind the token that ends a turn: it knows EOS alone.",
            remedy: "Stop at EOT and EOM too (tokenizer.ggml.eot_token_id, <|eot_id|>, <|im_end|>, <end_of_turn>).",
            source: "unslothai/unsloth#468",
        },
        |scene| {
            let eos = scene.tokenizer.eos();
            let others = stop_ids(scene).into_iter().filter(|&id| Some(id) != eos || scene.tokenizer.eot() == eos);
            without(scene, &others.map(Some).collect::<Vec<_>>())
        },
    ),
    stop(
        TextFault {
            name: "stop-id-missing-from-file",
            entry: "93",
            cause: "The engine went on behind a token that ends a turn, whose id no key of the file gives.",
            remedy: "Write the id into the file (tokenizer.ggml.eot_token_id), or find it by its text as llama.cpp does.",
            source: "lmstudio-ai/mlx-engine#142",
        },
        |scene| {
            let keyed = keyed_stop_ids(scene);
            (keyed != stop_ids(scene)).then_some(keyed)
        },
    ),
    stop(
        TextFault {
            name: "no-stop-ids",
            entry: "93",
            cause: "The engine stops at no token: it went on behind several that end an answer.",
            remedy: "Stop at every id that ends an answer (unless ignore_eos was asked for).",
            source: "Blaizzy/mlx-vlm#2112",
        },
        |_| Some(BTreeSet::new()),
    ),
    leak(
        TextFault {
            name: "role-text-leaks",
            entry: "93",
            cause: "The answer goes on with a turn of its own: it has {}, which the template puts before a turn.",
            remedy: "Stop at the token that ends a turn; if the model does not make it, check the template of the prompt.",
            source: "Blaizzy/mlx-vlm#2112",
        },
        role_text,
    ),
    leak(
        TextFault {
            name: "stop-text-shown",
            entry: "93",
            cause: "The printed text has {}, the spelling of a token that ends an answer.",
            remedy: "Stop at the token and do not print it; if it came as several tokens, the prompt spelled it as text.",
            source: "unslothai/unsloth#468",
        },
        |scene, text| {
            let mut spelled = stop_ids(scene).into_iter().filter_map(|id| scene.tokenizer.token(id));
            spelled.find(|spelling| text.contains(spelling)).map(|spelling| format!("{spelling:?}"))
        },
    ),
];

/// Every id that ends an answer: the vocabulary's, and the one that the template puts behind an answer.
pub(super) fn stop_ids(scene: &Scene<'_>) -> BTreeSet<u32> {
    let mut ids: BTreeSet<u32> = scene.tokenizer.stop_ids().iter().copied().collect();
    ids.extend(turn_end(scene));
    ids
}

/// Ids that the file's keys give, whatever tokens are spelled like.
fn keyed_stop_ids(scene: &Scene<'_>) -> BTreeSet<u32> {
    let keys = ["eos", "eot", "eom"].map(|name| format!("tokenizer.ggml.{name}_token_id"));
    keys.iter().filter_map(|key| scene.metadata().u32(key).ok().flatten()).collect()
}

/// Stop ids without some; `None` where none of these is one.
fn without(scene: &Scene<'_>, left_out: &[Option<u32>]) -> Option<BTreeSet<u32>> {
    let all = stop_ids(scene);
    let rest: BTreeSet<u32> = all.iter().copied().filter(|id| !left_out.contains(&Some(*id))).collect();
    (rest.len() < all.len()).then_some(rest)
}

const ANSWER: &str = "candorans";
const QUESTION: &str = "candorque";

/// What the template puts between an answer and the next question.
fn between_turns(scene: &Scene<'_>) -> Option<String> {
    let question = Message::user(QUESTION);
    let text = scene.render(&[Message::user("x"), Message::assistant(ANSWER), question])?;
    let (_, behind) = text.split_once(ANSWER)?;
    behind.split_once(QUESTION).map(|(between, _)| between.to_owned())
}

fn turn_end(scene: &Scene<'_>) -> Option<u32> {
    let between = between_turns(scene)?;
    let first = scene.tokenize(between.trim_start()).into_iter().next()?;
    let begins = scene.tokenizer.token(first).is_some_and(|spelling| between.trim_start().starts_with(spelling));
    // A token that only opens the next question is no end.
    let opening = scene.render(&[Message::user(QUESTION)])?;
    let opens =
        opening.split(QUESTION).next().is_some_and(|before| scene.tokenize(before).into_iter().any(|id| id == first));
    (begins && scene.tokenizer.is_control(first) && !opens).then_some(first)
}

fn role_text(scene: &Scene<'_>, text: &str) -> Option<String> {
    /// Shorter headers may be ordinary words.
    const SHORTEST: usize = 4;
    let between = between_turns(scene)?;
    let mut header = between.trim();
    for spelling in stop_ids(scene).into_iter().filter_map(|id| scene.tokenizer.token(id)) {
        header = header.trim_start_matches(spelling).trim();
    }
    (header.len() >= SHORTEST && text.contains(header)).then(|| format!("{header:?}"))
}

pub(super) fn check(scene: &Scene<'_>, rows: Rows<'_>) -> TextCheck {
    let said = scene.said;
    let leaks = said.generated_text.as_ref().map(|text| leaks(scene, rows, text)).unwrap_or_default();
    let Some(generated) = said.generated_ids.as_ref().filter(|ids| !ids.is_empty()) else {
        return match &said.generated_text {
            Some(_) if !leaks.is_empty() => TextCheck::wrong(NAME, leaks[0].cause.clone()).explained(leaks),
            _ => TextCheck::not_checkable(NAME, "the generated ids are unknown", Some("the generated token ids")),
        };
    };
    let stops = stop_ids(scene);
    let (last, passed) = match generated.split_last() {
        Some((last, before)) => (*last, before),
        None => return TextCheck::not_checkable(NAME, "nothing was generated", None),
    };
    let passed: BTreeSet<u32> = passed.iter().copied().filter(|id| stops.contains(id)).collect();
    let spelled = |ids: &BTreeSet<u32>| {
        let words = ids.iter().map(|&id| format!("{id} {:?}", scene.tokenizer.token(id).unwrap_or_default()));
        words.collect::<Vec<_>>().join(", ")
    };
    if passed.is_empty() && leaks.is_empty() {
        return TextCheck::right(
            NAME,
            match stops.contains(&last) {
                true => "the answer ends with its first stop token".to_owned(),
                false => format!("no stop token ({}) was passed", spelled(&stops)),
            },
        );
    }
    let mut explanations = explained(scene, rows, &passed);
    explanations.extend(leaks);
    let sentence = match passed.is_empty() {
        true => explanations[0].cause.clone(),
        false => format!("the engine went on behind {}", spelled(&passed)),
    };
    TextCheck::wrong(NAME, sentence).explained(explanations)
}

/// The stop sets that let every passed token pass: only the largest, since smaller ones are not needed.
fn explained(scene: &Scene<'_>, rows: Rows<'_>, passed: &BTreeSet<u32>) -> Vec<Explanation> {
    if passed.is_empty() {
        return Vec::new();
    }
    let mut fitting: Vec<(usize, &'static Row)> = Vec::new();
    for &row in rows {
        if let Mutation::Stop(stops) = row.mutation
            && let Some(stops) = stops(scene)
            && stops.is_disjoint(passed)
        {
            fitting.push((stops.len(), row));
        }
    }
    let specific = fitting.iter().any(|(_, row)| row.fault.name != "no-stop-ids");
    fitting.retain(|(_, row)| !specific || row.fault.name != "no-stop-ids");
    fitting.into_iter().map(|(_, row)| Explanation::new(&[(row, String::new())])).collect()
}

fn leaks(scene: &Scene<'_>, rows: Rows<'_>, text: &str) -> Vec<Explanation> {
    let found = rows.iter().filter_map(|&row| match row.mutation {
        Mutation::Leak(speaks) => Some(Explanation::new(&[(row, speaks(scene, text)?)])),
        _ => None,
    });
    found.collect()
}
