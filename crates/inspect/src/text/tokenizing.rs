//! From text to ids: what faulty tokenizers do. Each row gives ids without BOS and EOS; those are `super::framing`.

use std::collections::BTreeSet;

use candor::Encode;
use candor_gguf::{Array, Metadata, Value};

use super::{
    Reading,
    row::{Mutation, Row, TextFault, Variant},
    scene::{Fragment, SPACE_PREFIX, Scene, join},
    segmentation::{self, SPACE},
};

type Ids = Vec<Variant<Vec<u32>>>;

/// A name for each set of rules for splitting that is built in.
const PRE_TOKENIZERS: [&str; 9] =
    ["llama-bpe", "glm4", "smaug-bpe", "qwen2", "qwen35", "gpt-2", "starcoder", "falcon", "deepseek-llm"];

/// Kinds of special tokens in a text that are hidden one at a time.
const HIDDEN: usize = 16;

const fn row(fault: TextFault, mutation: fn(&Scene<'_>, &str) -> Ids) -> Row {
    Row { fault, mutation: Mutation::Tokenize(mutation) }
}

pub(super) const ROWS: &[Row] = &[
    row(
        TextFault {
            name: "no-space-prefix",
            entry: "81",
            cause: "The text was tokenized without the space that SentencePiece puts before it.",
            remedy: "Put U+2581 before the text, unless tokenizer.ggml.add_space_prefix is false.",
            source: "ggml-org/llama.cpp#4081",
        },
        |scene, text| {
            if !scene.space_prefix() {
                return Vec::new();
            }
            prefixed(scene, false).map(|other| Variant::only(other.encode(text, scene.inner()))).unwrap_or_default()
        },
    ),
    row(
        TextFault {
            name: "extra-space-prefix",
            entry: "81",
            cause: "A space was put before the text{}.",
            remedy: "Add a space only where tokenizer.ggml.add_space_prefix says so, and only once.",
            source: "ggml-org/llama.cpp#23840",
        },
        extra_prefix,
    ),
    row(
        TextFault {
            name: "space-prefix-not-after-specials",
            entry: "81",
            cause: "Text after a special token got no space in front{}.",
            remedy: "Put the space before every stretch of text between special tokens, as llama.cpp does for this file.",
            source: "huggingface/transformers#25224",
        },
        prefix_at_start,
    ),
    row(
        TextFault {
            name: "all-white-space-as-space",
            entry: "81",
            cause: "Every white space, line ends too, became a space (U+2581).",
            remedy: "Replace U+0020 alone; line ends and tabs have tokens of their own.",
            source: "gibberish.md#81",
        },
        |scene, text| {
            let flat: String = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
            Variant::only(scene.tokenize(&flat))
        },
    ),
    row(
        TextFault {
            name: "white-space-collapsed",
            entry: "81",
            cause: "White space was taken out{}.",
            remedy: "Keep the text as it is: neither trim it nor join runs of spaces.",
            source: "huggingface/transformers#26273",
        },
        |scene, text| {
            let words: Vec<&str> = text.split_whitespace().collect();
            let ways = [
                (" at both ends", text.trim().to_owned()),
                (" at the end", text.trim_end().to_owned()),
                (" at the beginning", text.trim_start().to_owned()),
                (" where several stand together", words.join(" ")),
            ];
            ways.into_iter().map(|(label, text)| Variant::new(label, scene.tokenize(&text))).collect()
        },
    ),
    row(
        TextFault {
            name: "space-not-replaced",
            entry: "81",
            cause: "Spaces did not become the vocabulary's own letter for them{}.",
            remedy: "Spell a space U+2581 (SPM) or U+0120 (BPE) before tokens are looked for.",
            source: "gibberish.md#81",
        },
        space_not_replaced,
    ),
    row(
        TextFault {
            name: "another-pre-tokenizer",
            entry: "82",
            cause: "The text was split into words by the rules of {}.",
            remedy: "Split it by the rules that tokenizer.ggml.pre names.",
            source: "ggml-org/llama.cpp#6920",
        },
        |scene, text| PRE_TOKENIZERS.iter().filter_map(|name| split_by(scene, name, text)).collect(),
    ),
    row(
        TextFault {
            name: "pre-tokenizer-missing",
            entry: "82",
            cause: "The text was not split by the model's rules before merging, but {}.",
            remedy: "Split it by the rules that tokenizer.ggml.pre names.",
            source: "ggml-org/llama.cpp#7062",
        },
        pre_tokenizer_missing,
    ),
    row(
        TextFault {
            name: "specials-as-text",
            entry: "84",
            cause: "The spelling of {} was tokenized as text.",
            remedy: "Cut special tokens out of a rendered prompt first (llama.cpp: parse_special = true).",
            source: "ggml-org/llama.cpp#11270",
        },
        specials_as_text,
    ),
    row(
        TextFault {
            name: "end-token-as-text",
            entry: "85",
            cause: "The end of a turn, {}, was tokenized as text.",
            remedy: "Read the spelling of EOS and EOT in a rendered prompt as these tokens.",
            source: "gibberish.md#85",
        },
        |scene, text| hidden(scene, text, |id| scene.tokenizer.stop_ids().contains(&id)),
    ),
    row(
        TextFault {
            name: "special-text-parsed",
            entry: "84",
            cause: "The spelling of control tokens in plain text became these tokens.",
            remedy: "Tokenize a user's words without reading control tokens in them (parse_special = false).",
            source: "ggml-org/llama.cpp#11270",
        },
        |scene, text| {
            let plain = scene.said.reading == Reading::Plain;
            let read = Encode { bos: false, specials: true };
            if plain { Variant::only(scene.tokenizer.encode(text, read)) } else { Vec::new() }
        },
    ),
    row(
        TextFault {
            name: "byte-fallback-missing",
            entry: "86",
            cause: "Characters without a token did not become byte tokens, but {}.",
            remedy: "Spell what no token has with the tokens <0x00> to <0xFF>.",
            source: "gibberish.md#86",
        },
        byte_fallback_missing,
    ),
    row(
        TextFault {
            name: "merges-in-wrong-order",
            entry: "86",
            cause: "Pairs were joined in another order than the file's{}.",
            remedy: "Join the pair with the lowest rank in the merge list (SPM: the highest score), the leftmost of equals.",
            source: "ggml-org/llama.cpp#13256",
        },
        merges_in_wrong_order,
    ),
    row(
        TextFault {
            name: "greedy-longest-match",
            entry: "86",
            cause: "The longest token was taken from the left each time.",
            remedy: "Join pairs by rank or score; the longest match is another algorithm.",
            source: "gibberish.md#86",
        },
        |scene, text| each_text(scene, text, |spelled| Some(segmentation::greedy(scene, spelled))),
    ),
    row(
        TextFault {
            name: "unigram",
            entry: "86",
            cause: "The scores were taken for a unigram model's, and their sum made as great as can be.",
            remedy: "In a llama vocabulary scores are an order of merges: join the best pair first.",
            source: "ggml-org/llama.cpp#13256",
        },
        |scene, text| each_text(scene, text, |spelled| segmentation::unigram(scene, spelled)),
    ),
    row(
        TextFault {
            name: "characters-one-by-one",
            entry: "86",
            cause: "No pair was joined: every {} is a token of its own.",
            remedy: "Join pairs until none is left that the vocabulary has.",
            source: "gibberish.md#86",
        },
        |scene, text| {
            let mut variants = each_text(scene, text, |spelled| Some(segmentation::singly(scene, spelled)));
            variants.iter_mut().for_each(|variant| variant.label.insert_str(0, "character"));
            let fragments = scene.fragments(text).filter(|_| scene.is_spm()).unwrap_or_default();
            let bytes = join(&fragments, |text, _| segmentation::bytewise(scene, text));
            variants.extend(bytes.map(|ids| Variant::new("byte", ids)));
            variants
        },
    ),
];

/// The vocabulary with or without a space before text.
fn prefixed(scene: &Scene<'_>, wanted: bool) -> Option<std::rc::Rc<candor::Tokenizer>> {
    scene.changed(&format!("space prefix {wanted}"), |metadata| metadata.insert(SPACE_PREFIX, Value::Bool(wanted)))
}

fn extra_prefix(scene: &Scene<'_>, text: &str) -> Ids {
    let mut variants = vec![Variant::new("", scene.tokenize(&format!(" {text}")))];
    if scene.is_spm() && !scene.space_prefix() {
        let other = prefixed(scene, true).map(|other| other.encode(text, scene.inner()));
        variants.extend(other.map(|ids| Variant::new(", and before each stretch of it", ids)));
    }
    variants
}

fn prefix_at_start(scene: &Scene<'_>, text: &str) -> Ids {
    if !scene.space_prefix() {
        return Vec::new();
    }
    let Some((fragments, bare)) = scene.fragments(text).zip(prefixed(scene, false)) else { return Vec::new() };
    let with_prefix_up_to = |last: usize| {
        join(&fragments, |text, place| {
            let tokenizer = if place <= last { &scene.tokenizer } else { &*bare };
            Some(tokenizer.encode(text, Encode::text()))
        })
    };
    let mut variants: Ids = with_prefix_up_to(0).map(Variant::only).unwrap_or_default();
    if fragments.first().is_some_and(|first| Some(*first) == scene.tokenizer.bos().map(Fragment::Token)) {
        variants.extend(with_prefix_up_to(1).map(|ids| Variant::new(", but for BOS", ids)));
    }
    variants
}

fn space_not_replaced(scene: &Scene<'_>, text: &str) -> Ids {
    let Some(fragments) = scene.fragments(text) else { return Vec::new() };
    let plain = if scene.is_spm() { prefixed(scene, false) } else { scene.changed("as it is", |_| ()) };
    let Some(plain) = plain else { return Vec::new() };
    let between = |space: Option<u32>| {
        join(&fragments, |text, _| {
            let mut ids = Vec::new();
            for (place, word) in text.split(' ').enumerate() {
                ids.extend(space.filter(|_| place > 0));
                ids.extend(plain.encode(word, Encode::text()));
            }
            Some(ids)
        })
    };
    let spaces = [
        (", but vanished", None),
        (", but byte tokens", scene.tokenizer.id("<0x20>")),
        (", but the unknown token", scene.tokenizer.unk()),
        (", but stayed spaces", scene.plain_id(" ")),
    ];
    let known = spaces.into_iter().filter(|(label, id)| id.is_some() || label.ends_with("vanished"));
    known.filter_map(|(label, id)| Some(Variant::new(label, between(id)?))).collect()
}

fn split_by(scene: &Scene<'_>, name: &str, text: &str) -> Option<Variant<Vec<u32>>> {
    if scene.is_spm() || name == scene.tokenizer.pre_name() {
        return None;
    }
    let change = |metadata: &mut Metadata| metadata.insert("tokenizer.ggml.pre", Value::String(name.to_owned()));
    let other = scene.changed(&format!("pre {name}"), change)?;
    Some(Variant::new(name, other.encode(text, scene.inner())))
}

fn pre_tokenizer_missing(scene: &Scene<'_>, text: &str) -> Ids {
    if scene.is_spm() {
        return Vec::new();
    }
    let default = split_by(scene, "default", text);
    let mut variants: Ids =
        default.map(|found| Variant::new("by the default rules", found.value)).into_iter().collect();
    let Some(fragments) = scene.fragments(text) else { return variants };
    let whole = |text: &str| segmentation::merged(scene, &segmentation::spelled(scene, text));
    variants.extend(join(&fragments, |text, _| whole(text)).map(|ids| Variant::new("merged as a whole", ids)));
    let words = join(&fragments, |text, _| {
        let starts = text.match_indices(' ').map(|(at, _)| at).filter(|&at| at > 0);
        let bounds: Vec<usize> = [0].into_iter().chain(starts).chain([text.len()]).collect();
        let words: Option<Vec<Vec<u32>>> = bounds.windows(2).map(|bound| whole(&text[bound[0]..bound[1]])).collect();
        words.map(|words| words.concat())
    });
    variants.extend(words.map(|ids| Variant::new("cut at spaces alone", ids)));
    variants
}

fn specials_as_text(scene: &Scene<'_>, text: &str) -> Ids {
    if scene.said.reading == Reading::Plain {
        return Vec::new();
    }
    let mut variants = vec![Variant::new("control tokens", scene.tokenizer.encode(text, Encode::text()))];
    let all = scene.respelled("no specials", |id, _| scene.is_special(id).then(|| format!("\0{id}")));
    variants.extend(all.map(|other| Variant::new("every special token", other.encode(text, scene.inner()))));
    variants.extend(hidden(scene, text, |id| !scene.tokenizer.stop_ids().contains(&id)));
    variants
}

/// Ids where one kind of special token is not seen in the text.
fn hidden(scene: &Scene<'_>, text: &str, wanted: impl Fn(u32) -> bool) -> Ids {
    if scene.said.reading == Reading::Plain {
        return Vec::new();
    }
    let present: BTreeSet<u32> = scene.tokenize(text).into_iter().filter(|&id| scene.is_special(id)).collect();
    let hide = |hidden: u32| {
        let spelling = scene.tokenizer.token(hidden)?;
        let other = scene.respelled(&format!("without {hidden}"), |id, _| (id == hidden).then(|| format!("\0{id}")))?;
        Some(Variant::new(spelling, other.encode(text, scene.inner())))
    };
    present.into_iter().filter(|&id| wanted(id)).take(HIDDEN).filter_map(hide).collect()
}

fn byte_fallback_missing(scene: &Scene<'_>, text: &str) -> Ids {
    let Some(unk) = scene.tokenizer.unk().filter(|_| scene.is_spm()) else { return Vec::new() };
    let Some(other) = scene.respelled("no bytes", |id, _| scene.is_byte(id).then(|| format!("\0{id}"))) else {
        return Vec::new();
    };
    let ids = other.encode(text, scene.inner());
    let mut fused = ids.clone();
    fused.dedup_by(|a, b| *a == unk && *b == unk);
    let lost = ids.iter().copied().filter(|&id| id != unk).collect();
    let each = scene.tokenize(text).into_iter().map(|id| if scene.is_byte(id) { unk } else { id }).collect();
    vec![
        Variant::new("the unknown token", ids),
        Variant::new("one unknown token for a run of them", fused),
        Variant::new("an unknown token for each byte", each),
        Variant::new("nothing", lost),
    ]
}

fn merges_in_wrong_order(scene: &Scene<'_>, text: &str) -> Ids {
    const SCORES: &str = "tokenizer.ggml.scores";
    const MERGES: &str = "tokenizer.ggml.merges";
    let scores = |change: fn(f32) -> f32| {
        move |metadata: &mut Metadata| {
            let Ok(Some(scores)) = metadata.f32s(SCORES) else { return };
            let scores: Vec<f32> = scores.iter().map(|&score| change(score)).collect();
            metadata.insert(SCORES, Value::Array(Array::F32(scores)));
        }
    };
    let reversed = |metadata: &mut Metadata| {
        let Ok(Some(merges)) = metadata.strings(MERGES) else { return };
        let merges: Vec<String> = merges.iter().rev().cloned().collect();
        metadata.insert(MERGES, Value::Array(Array::String(merges)));
    };
    let others = if scene.is_spm() {
        vec![
            (", the lowest score first", scene.changed("scores reversed", scores(|score| -score))),
            (", from the left whatever the score", scene.changed("no scores", scores(|_| 0.0))),
        ]
    } else {
        vec![(", the last of the list first", scene.changed("merges reversed", reversed))]
    };
    let variant = |(label, other): (&str, Option<std::rc::Rc<candor::Tokenizer>>)| {
        Some(Variant::new(label, other?.encode(text, scene.inner())))
    };
    others.into_iter().filter_map(variant).collect()
}

/// Ids by another algorithm for the text between special tokens, with the space before it and without.
fn each_text(scene: &Scene<'_>, text: &str, algorithm: impl Fn(&str) -> Option<Vec<u32>>) -> Ids {
    let Some(fragments) = scene.fragments(text) else { return Vec::new() };
    let cut = |prefix: &str| {
        join(&fragments, |text, _| algorithm(&format!("{prefix}{}", segmentation::spelled(scene, text))))
    };
    let mut variants: Ids = Vec::new();
    if scene.space_prefix() {
        variants.extend(cut(SPACE.encode_utf8(&mut [0; 4])).map(|ids| Variant::new("", ids)));
        variants.extend(cut("").map(|ids| Variant::new(" (without a space before the text)", ids)));
    } else {
        variants.extend(cut("").map(|ids| Variant::new("", ids)));
    }
    variants
}
