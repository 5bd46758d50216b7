//! From generated ids to printed text: characters spread over tokens, the letters that stand for spaces and bytes.

use candor::{Show, StreamDecoder};

use super::{
    difference::Difference,
    report::{Explanation, TextCheck},
    row::{Mutation, Row, Rows, TextFault, Variant},
    scene::Scene,
    segmentation::SPACE,
    stopping,
};

const NAME: &str = "printed text";

const fn row(fault: TextFault, mutation: fn(&Scene<'_>, &[u32]) -> Vec<Variant<String>>) -> Row {
    Row { fault, mutation: Mutation::Decode(mutation) }
}

pub(super) const ROWS: &[Row] = &[
    row(
        TextFault {
            name: "character-split-by-tokens",
            entry: "94",
            cause: "Each token was decoded by itself, and characters that are spread over several became {}.",
            remedy: "Hold bytes back until they are whole characters.",
            source: "exo-explore/exo#1691",
        },
        split_characters,
    ),
    row(
        TextFault {
            name: "bytes-as-latin1",
            entry: "94",
            cause: "Each byte became a character of its own (Latin-1), and the text was not read as UTF-8.",
            remedy: "Join the bytes of all tokens and decode them as UTF-8.",
            source: "antonellof/ferrox#124",
        },
        |scene, ids| {
            let all = ids.iter().flat_map(|&id| scene.tokenizer.piece(id, Show::Text).into_owned());
            trimmed_and_not(all.map(char::from).collect())
        },
    ),
    row(
        TextFault {
            name: "space-letter-shown",
            entry: "95",
            cause: "The letters that stand for spaces and bytes in the vocabulary (U+2581, U+0120) were printed.",
            remedy: "Replace U+2581 by a space (SPM), or map the letters back to bytes (BPE).",
            source: "karpathy/llama2.c#41",
        },
        space_letter,
    ),
    row(
        TextFault {
            name: "byte-tokens-spelled",
            entry: "95",
            cause: "Byte tokens were printed as they are spelled, <0x0A>.",
            remedy: "Print the byte that a token of kind byte stands for.",
            source: "karpathy/llama2.c#41",
        },
        |scene, ids| {
            let mut text = String::new();
            for &id in ids {
                match scene.tokenizer.token(id) {
                    Some(spelling) if scene.is_byte(id) => text.push_str(spelling),
                    _ => text.push_str(&String::from_utf8_lossy(&scene.tokenizer.piece(id, Show::Text))),
                }
            }
            trimmed_and_not(text)
        },
    ),
    row(
        TextFault {
            name: "leading-space-kept",
            entry: "95",
            cause: "The space that encoding puts before a text was printed.",
            remedy: "Drop the first space of an answer that begins a text of its own.",
            source: "karpathy/llama2.c#41",
        },
        |scene, ids| Variant::only(decoded(StreamDecoder::continuing(&scene.tokenizer), ids)),
    ),
    row(
        TextFault {
            name: "leading-space-lost",
            entry: "95",
            cause: "The space at the beginning, which parts the continuation from its prompt, is missing.",
            remedy: "Keep the first space where the answer continues the prompt's text.",
            source: "karpathy/llama2.c#41",
        },
        |scene, ids| {
            let whole = decoded(StreamDecoder::continuing(&scene.tokenizer), ids);
            whole.strip_prefix(' ').map(|text| Variant::only(text.to_owned())).unwrap_or_default()
        },
    ),
    row(
        TextFault {
            name: "decoded-one-by-one",
            entry: "95",
            cause: "Each token was decoded as a text of its own, which takes the space before it away.",
            remedy: "Decode a stream of tokens, and drop the first space only.",
            source: "karpathy/llama2.c#41",
        },
        |scene, ids| {
            let pieces = ids.iter().map(|&id| decoded(StreamDecoder::continuing(&scene.tokenizer), &[id]));
            Variant::only(pieces.map(|piece| piece.strip_prefix(' ').unwrap_or(&piece).to_owned()).collect())
        },
    ),
    row(
        TextFault {
            name: "tokens-joined-by-spaces",
            entry: "95",
            cause: "A space was printed between tokens.",
            remedy: "Join the tokens' texts with nothing between.",
            source: "karpathy/llama2.c#41",
        },
        |scene, ids| {
            let pieces: Vec<String> =
                ids.iter().map(|&id| decoded(StreamDecoder::continuing(&scene.tokenizer), &[id])).collect();
            let trimmed: Vec<&str> = pieces.iter().map(|piece| piece.trim()).collect();
            vec![Variant::new("", pieces.join(" ")), Variant::new("", trimmed.join(" "))]
        },
    ),
    row(
        TextFault {
            name: "control-tokens-shown",
            entry: "95",
            cause: "Control tokens were printed.",
            remedy: "Leave control tokens out of the text (llama.cpp: special = false).",
            source: "gibberish.md#95",
        },
        |scene, ids| {
            let all = scene.said.generated_ids.as_deref().unwrap_or(ids);
            let ways = [StreamDecoder::new(&scene.tokenizer), StreamDecoder::continuing(&scene.tokenizer)];
            ways.map(|stream| Variant::new("", decoded(stream.show(Show::Specials), all))).into()
        },
    ),
    row(
        TextFault {
            name: "prompt-printed",
            entry: "95",
            cause: "The prompt was printed before the answer.",
            remedy: "Decode the generated tokens alone.",
            source: "gibberish.md#95",
        },
        |scene, ids| {
            let said = scene.said;
            let prompt = said.prompt.as_ref().or(said.rendered.as_ref());
            let answer = expected(scene, ids);
            prompt.map(|prompt| Variant::only(format!("{prompt}{answer}"))).unwrap_or_default()
        },
    ),
];

fn decoded(mut stream: StreamDecoder<&candor::Tokenizer>, ids: &[u32]) -> String {
    let mut text: String = ids.iter().map(|&id| stream.push(id)).collect();
    text.push_str(&stream.finish());
    text
}

/// A text with the first space that it may have, and without.
fn trimmed_and_not(text: String) -> Vec<Variant<String>> {
    let trimmed = text.strip_prefix(' ').map(|rest| Variant::new("", rest.to_owned()));
    trimmed.into_iter().chain([Variant::new("", text.clone())]).collect()
}

fn split_characters(scene: &Scene<'_>, ids: &[u32]) -> Vec<Variant<String>> {
    let shown: String =
        ids.iter().map(|&id| String::from_utf8_lossy(&scene.tokenizer.piece(id, Show::Text)).into_owned()).collect();
    let lost: String = ids
        .iter()
        .filter_map(|&id| String::from_utf8(scene.tokenizer.piece(id, Show::Text).into_owned()).ok())
        .collect();
    let mut variants = Vec::new();
    for (label, text) in [("U+FFFD", shown), ("nothing", lost)] {
        let ways = trimmed_and_not(text).into_iter();
        variants.extend(ways.map(|variant| Variant::new(label, variant.value)));
    }
    variants
}

fn space_letter(scene: &Scene<'_>, ids: &[u32]) -> Vec<Variant<String>> {
    let hidden = |id: u32| scene.is_special(id) && scene.tokenizer.piece(id, Show::Text).is_empty();
    let spelled = |&id: &u32| match scene.tokenizer.token(id) {
        Some(spelling) if !hidden(id) && !scene.is_byte(id) => spelling.to_owned(),
        _ => String::from_utf8_lossy(&scene.tokenizer.piece(id, Show::Text)).into_owned(),
    };
    let raw: String = ids.iter().map(spelled).collect();
    let spaces = raw.replace('\u{120}', " ");
    let line_ends = spaces.replace('\u{10a}', "\n");
    let without_first = raw.strip_prefix([SPACE, '\u{120}']).map(str::to_owned);
    let ways = [Some(raw.clone()), without_first, Some(spaces), Some(line_ends)];
    ways.into_iter().flatten().map(|text| Variant::new("", text)).collect()
}

/// Generated ids without the one that ended the answer.
fn answered<'s>(scene: &Scene<'_>, ids: &'s [u32]) -> &'s [u32] {
    match ids.split_last() {
        Some((last, rest)) if stopping::stop_ids(scene).contains(last) => rest,
        _ => ids,
    }
}

/// The text that ids should become: of its own behind a control token, else the continuation of the prompt's.
fn expected(scene: &Scene<'_>, ids: &[u32]) -> String {
    let last = scene.said.prompt_ids.as_ref().and_then(|prompt| prompt.last());
    let own = last.is_some_and(|&last| scene.tokenizer.is_control(last));
    let stream = if own { StreamDecoder::new(&scene.tokenizer) } else { StreamDecoder::continuing(&scene.tokenizer) };
    decoded(stream, ids)
}

pub(super) fn check(scene: &Scene<'_>, rows: Rows<'_>) -> TextCheck {
    let said = scene.said;
    let (ids, text) = match (&said.generated_ids, &said.generated_text) {
        (Some(ids), Some(text)) => (answered(scene, ids), text),
        (None, Some(text)) if text.contains(char::REPLACEMENT_CHARACTER) => {
            let sentence = "the text has U+FFFD: characters were split, or the model made broken ones";
            return TextCheck::not_checkable(NAME, sentence, Some("the generated token ids"));
        }
        (None, _) => {
            return TextCheck::not_checkable(NAME, "the generated ids are unknown", Some("the generated token ids"));
        }
        (Some(_), None) => {
            return TextCheck::not_checkable(NAME, "the printed text is unknown", Some("the printed text"));
        }
    };
    let right = expected(scene, ids);
    // Without the prompt it is not known which of the two begins.
    let own = said.prompt_ids.is_none().then(|| decoded(StreamDecoder::new(&scene.tokenizer), ids));
    if *text == right || own.as_ref() == Some(text) {
        return TextCheck::right(NAME, format!("{} ids give {} characters", ids.len(), text.chars().count()));
    }
    if text.trim_end() == right.trim_end() {
        return TextCheck::right(NAME, "as the ids give, but for white space at the end");
    }
    let mut explanations: Vec<Explanation> = Vec::new();
    for &row in rows {
        let Mutation::Decode(decode) = row.mutation else { continue };
        let same = |variant: &Variant<String>| variant.value == *text && variant.value != right;
        if let Some(variant) = decode(scene, ids).into_iter().find(same) {
            explanations.push(Explanation::new(&[(row, variant.label)]));
        }
    }
    let sentence = match explanations.as_slice() {
        [only] => only.cause.clone(),
        [] => "the printed text is not what the ids spell, and no known fault prints it".to_owned(),
        twins => format!("{} faults print exactly this", twins.len()),
    };
    let decided_by = (explanations.len() > 1)
        .then(|| "a longer answer with its ids, with accented letters and line ends".to_owned());
    let wrong = TextCheck::wrong(NAME, sentence).differing(Difference::of_texts(&right, text));
    TextCheck { decided_by, ..wrong.explained(explanations) }
}
