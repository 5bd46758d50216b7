//! BOS and EOS around a prompt, and prompts cut because the context was too small.

use super::{
    report::{Explanation, TextCheck},
    row::{Mutation, Row, Rows, TextFault, Variant},
    scene::Scene,
};

const NAME: &str = "context";

/// Where the size of the context is unknown, a cut is believed from this number of lost tokens on, if as many are left.
const LOST: usize = 16;
const LEFT: usize = 8;

type Ids = Vec<Variant<Vec<u32>>>;

const fn frame(fault: TextFault, mutation: fn(&Scene<'_>, &[u32]) -> Ids) -> Row {
    Row { fault, mutation: Mutation::Frame(mutation) }
}

const fn cut(fault: TextFault, mutation: fn(&Scene<'_>, &[u32], &[u32]) -> Ids) -> Row {
    Row { fault, mutation: Mutation::Cut(mutation) }
}

pub(super) const ROWS: &[Row] = &[
    frame(
        TextFault {
            name: "double-bos",
            entry: "83",
            cause: "BOS stands twice at the beginning: the template spells it, and the tokenizer added another.",
            remedy: "Add BOS only where the text does not begin with it.",
            source: "ggml-org/llama.cpp#7332",
        },
        |scene, ids| {
            let whole = scene.frame(ids);
            let there = scene.tokenizer.bos().filter(|bos| whole.first() == Some(bos));
            there.map(|bos| Variant::only(before(bos, &whole))).unwrap_or_default()
        },
    ),
    frame(
        TextFault {
            name: "no-bos",
            entry: "83",
            cause: "BOS is missing at the beginning.",
            remedy: "Put BOS first: the file's add_bos_token, or its template, asks for it.",
            source: "ggml-org/llama.cpp#7107",
        },
        |scene, ids| {
            let whole = scene.frame(ids);
            let there = whole.first().is_some_and(|&first| Some(first) == scene.tokenizer.bos());
            if there { Variant::only(whole[1..].to_vec()) } else { Vec::new() }
        },
    ),
    frame(
        TextFault {
            name: "bos-added",
            entry: "83",
            cause: "BOS stands at the beginning, and this model has none there.",
            remedy: "Heed tokenizer.ggml.add_bos_token = false.",
            source: "ggml-org/llama.cpp#7898",
        },
        |scene, ids| match scene.tokenizer.bos() {
            Some(bos) if !scene.tokenizer.add_bos() && ids.first() != Some(&bos) => {
                Variant::only(before(bos, &scene.frame(ids)))
            }
            _ => Vec::new(),
        },
    ),
    frame(
        TextFault {
            name: "wrong-bos",
            entry: "83",
            cause: "The prompt begins with {} in place of BOS.",
            remedy: "Take BOS from tokenizer.ggml.bos_token_id.",
            source: "gibberish.md#83",
        },
        wrong_bos,
    ),
    frame(
        TextFault {
            name: "eos-appended",
            entry: "83",
            cause: "EOS stands at the end of the prompt, which tells the model that all is said.",
            remedy: "Append EOS only where tokenizer.ggml.add_eos_token is true.",
            source: "gibberish.md#83",
        },
        |scene, ids| {
            let Some(eos) = scene.tokenizer.eos() else { return Vec::new() };
            let mut whole = scene.frame(ids);
            whole.push(eos);
            Variant::only(whole)
        },
    ),
    frame(
        TextFault {
            name: "eos-missing",
            entry: "83",
            cause: "EOS is missing at the end of the prompt.",
            remedy: "Append EOS: tokenizer.ggml.add_eos_token is true.",
            source: "gibberish.md#83",
        },
        |scene, ids| {
            let mut whole = scene.frame(ids);
            let added = scene.tokenizer.add_eos() && whole.last().copied() == scene.tokenizer.eos();
            whole.truncate(whole.len() - usize::from(added));
            Variant::only(whole)
        },
    ),
    cut(
        TextFault {
            name: "cut-at-front",
            entry: "87",
            cause: "The first {} tokens of the prompt were dropped, the system prompt first of all.",
            remedy: "Give the engine a larger context (num_ctx, n_ctx): it dropped what did not fit.",
            source: "gibberish.md#87",
        },
        |scene, whole, suspect| {
            let lost = lost(scene, whole, suspect);
            lost.map(|lost| vec![Variant::new(lost.to_string(), whole[lost..].to_vec())]).unwrap_or_default()
        },
    ),
    cut(
        TextFault {
            name: "cut-at-end",
            entry: "87",
            cause: "The last {} tokens of the prompt were dropped, the question with them.",
            remedy: "Give the engine a larger context (num_ctx, n_ctx): it dropped what did not fit.",
            source: "gibberish.md#87",
        },
        |scene, whole, suspect| {
            let lost = lost(scene, whole, suspect);
            let kept = lost.map(|lost| (lost, whole[..whole.len() - lost].to_vec()));
            kept.map(|(lost, ids)| vec![Variant::new(lost.to_string(), ids)]).unwrap_or_default()
        },
    ),
    cut(
        TextFault {
            name: "cut-in-the-middle",
            entry: "87",
            cause: "{}, as an engine does that keeps the beginning and slides the rest.",
            remedy: "Give the engine a larger context (num_ctx, n_ctx): it dropped what did not fit.",
            source: "gibberish.md#87",
        },
        |scene, whole, suspect| {
            let Some(lost) = lost(scene, whole, suspect) else { return Vec::new() };
            let kept = whole.iter().zip(suspect).take_while(|(a, b)| a == b).count();
            if kept == 0 || kept == suspect.len() {
                return Vec::new();
            }
            let label = format!("{lost} tokens after the first {kept} of the prompt were dropped");
            vec![Variant::new(label, [&whole[..kept], &whole[kept + lost..]].concat())]
        },
    ),
    Row {
        fault: TextFault {
            name: "context-overflow",
            entry: "87",
            cause: "{}, so the engine had to stop, to cut the prompt or to forget its beginning.",
            remedy: "Give the engine a larger context (num_ctx, n_ctx), or a shorter prompt.",
            source: "gibberish.md#87",
        },
        mutation: Mutation::Overflow(overflow),
    },
];

fn before(first: u32, ids: &[u32]) -> Vec<u32> {
    [&[first], ids].concat()
}

fn wrong_bos(scene: &Scene<'_>, ids: &[u32]) -> Ids {
    let whole = scene.frame(ids);
    let tokenizer = &scene.tokenizer;
    let Some(bos) = tokenizer.bos().filter(|bos| whole.first() == Some(bos)) else { return Vec::new() };
    let named =
        [("EOS", tokenizer.eos()), ("the padding token", tokenizer.pad()), ("the unknown token", tokenizer.unk())];
    let numbered = [("token 0", Some(0)), ("token 1", Some(1)), ("token 2", Some(2))];
    let mut seen = vec![bos];
    let mut variants = Vec::new();
    for (label, id) in named.into_iter().chain(numbered) {
        if let Some(id) = id.filter(|id| !seen.contains(id)) {
            seen.push(id);
            variants.push(Variant::new(label, before(id, &whole[1..])));
        }
    }
    variants
}

/// How many tokens were lost, if a cut can be the reason.
fn lost(scene: &Scene<'_>, whole: &[u32], suspect: &[u32]) -> Option<usize> {
    let lost = whole.len().checked_sub(suspect.len()).filter(|&lost| lost > 0 && !suspect.is_empty())?;
    let forced = match scene.said.context {
        Some(context) => whole.len() > context && suspect.len() <= context,
        None => lost >= LOST && suspect.len() >= LEFT,
    };
    forced.then_some(lost)
}

/// Tokens that the model was trained for.
fn trained(scene: &Scene<'_>) -> Option<usize> {
    let arch = scene.metadata().str("general.architecture").ok()??;
    usize::try_from(scene.metadata().u64(&format!("{arch}.context_length")).ok()??).ok()
}

fn used(scene: &Scene<'_>) -> Option<(usize, usize)> {
    let generated = scene.said.generated_ids.as_ref().map_or(0, Vec::len);
    Some((scene.said.prompt_ids.as_ref()?.len(), generated))
}

fn overflow(scene: &Scene<'_>) -> Option<String> {
    let (prompt, generated) = used(scene)?;
    let limits = [(scene.said.context, "the engine has room for"), (trained(scene), "the model was trained for")];
    limits.into_iter().find_map(|(limit, whose)| {
        let limit = limit.filter(|&limit| prompt + generated > limit)?;
        Some(format!("{} tokens of prompt and answer are more than {whose}, {limit}", prompt + generated))
    })
}

/// Whether prompt and answer fit.
pub(super) fn check_context(scene: &Scene<'_>, rows: Rows<'_>) -> TextCheck {
    let Some((prompt, generated)) = used(scene) else {
        let by = Some("the token ids of the prompt");
        return TextCheck::not_checkable(NAME, "the length of the prompt is unknown", by);
    };
    if scene.said.context.is_none() && trained(scene).is_none() {
        let by = Some("the size of the engine's context");
        return TextCheck::not_checkable(NAME, "neither the engine's context nor the model's is known", by);
    }
    let found: Vec<Explanation> = rows
        .iter()
        .filter_map(|&row| match row.mutation {
            Mutation::Overflow(speaks) => Some(Explanation::new(&[(row, speaks(scene)?)])),
            _ => None,
        })
        .collect();
    match found.first() {
        None => TextCheck::right(NAME, format!("{prompt} tokens of prompt and {generated} of answer fit")),
        Some(first) => TextCheck::wrong(NAME, first.cause.clone()).explained(found),
    }
}
