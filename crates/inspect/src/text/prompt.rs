//! From the prompt, as text or as a conversation, to token ids: the whole way through template, tokenizer, BOS and
//! context with no fault, with each, and with every two of different stages.

use candor::{Message, Show};

use super::{
    difference::Difference,
    rendering,
    report::{Explanation, TextCheck},
    row::{Mutation, Row, Rows, TextFault, Variant},
    scene::Scene,
};

const NAME: &str = "prompt ids";

/// Longer texts are searched for single faults only.
const PAIRS_BYTES: usize = 1 << 15;

/// What would tell twins apart.
const TWINS: &str = "the token ids of a prompt with line ends, double spaces, digits and accented letters";

pub(super) const ROWS: &[Row] = &[
    Row {
        fault: TextFault {
            name: "other-vocabulary",
            entry: "80",
            cause: "The ids are of another vocabulary: {}.",
            remedy: "Load the vocabulary of this very file; a tokenizer.json beside it may be another model's.",
            source: "gibberish.md#80",
        },
        mutation: Mutation::Ids(other_vocabulary),
    },
    Row {
        fault: TextFault {
            name: "ids-shifted",
            entry: "86",
            cause: "Every id is off by {}: tokens were counted from another start.",
            remedy: "Number the tokens as tokenizer.ggml.tokens lists them, from 0, added ones where they stand.",
            source: "gibberish.md#86",
        },
        mutation: Mutation::Ids(shifted),
    },
];

/// Where the ids begin.
enum Start<'a> {
    Conversation(&'a [Message], String),
    /// The prompt as typed; an engine may have taken it for a message.
    Typed(Vec<Message>, &'a str),
    Text(&'a str),
    /// What the ids spell, for want of the text.
    Decoded(String),
}

impl Start<'_> {
    fn text(&self) -> &str {
        match self {
            Start::Conversation(_, text) | Start::Decoded(text) => text,
            Start::Typed(_, text) | Start::Text(text) => text,
        }
    }

    fn messages(&self) -> &[Message] {
        match self {
            Start::Conversation(messages, _) => messages,
            Start::Typed(messages, _) => messages,
            Start::Text(_) | Start::Decoded(_) => &[],
        }
    }
}

/// Compares the ids of the prompt with those of the text that the suspect had.
pub(super) fn check(scene: &Scene<'_>, rows: Rows<'_>) -> TextCheck {
    let said = scene.said;
    let Some(suspect) = &said.prompt_ids else {
        return TextCheck::not_checkable(
            NAME,
            "the ids of the prompt are unknown",
            Some("the token ids of the prompt"),
        );
    };
    let start = match (&said.rendered, said.messages.as_slice(), &said.prompt) {
        (Some(rendered), ..) => Start::Text(rendered),
        (None, [], Some(prompt)) => Start::Typed(vec![Message::user(prompt.as_str())], prompt),
        (None, [], None) => Start::Decoded(spelled_out(scene, suspect)),
        (None, messages, _) => match rendering::expected(scene) {
            Ok(text) => Start::Conversation(messages, text),
            Err(why) => {
                return TextCheck::not_checkable(NAME, why, Some("the text that the engine made of the conversation"));
            }
        },
    };
    let from = match start {
        Start::Conversation(..) => "the conversation in the file's template",
        Start::Typed(..) => "the prompt as typed",
        Start::Text(_) => "the engine's own rendered text",
        Start::Decoded(_) => "what the ids spell",
    };
    let expected = scene.encode(start.text());
    if *suspect == expected {
        return TextCheck::right(NAME, format!("{} ids, as the file's vocabulary gives for {from}", suspect.len()));
    }
    let mut explanations = explain(scene, rows, &start, suspect);
    if explanations.is_empty() {
        explanations = from_ids(scene, rows, start.text(), suspect);
    }
    let difference = Difference::of_ids(&scene.tokenizer, &expected, suspect);
    if explanations.is_empty() && matches!(start, Start::Decoded(_)) {
        let sentence = "the ids are not those that their own text has, and no known fault gives them";
        return TextCheck::not_checkable(NAME, sentence, Some("the text of the prompt")).differing(difference);
    }
    let sentence = match explanations.as_slice() {
        [] => format!("the ids are not those of {from}, and no known fault gives them"),
        [only] => only.cause.clone(),
        twins => {
            let names: Vec<String> = twins.iter().map(Explanation::name).collect();
            format!("{} faults give exactly these ids: {}", twins.len(), names.join(", "))
        }
    };
    let decided_by = (explanations.len() > 1).then(|| TWINS.to_owned());
    TextCheck { decided_by, ..TextCheck::wrong(NAME, sentence).differing(difference).explained(explanations) }
}

/// The text of ids with control tokens spelled, except BOS at the beginning.
fn spelled_out(scene: &Scene<'_>, ids: &[u32]) -> String {
    let bos = ids.iter().take_while(|&&id| Some(id) == scene.tokenizer.bos()).count();
    let mut stream = scene.tokenizer.stream().show(Show::Specials);
    let mut text: String = ids[bos..].iter().map(|&id| stream.push(id)).collect();
    text.push_str(&stream.finish());
    text
}

/// The rows that acted, with the words for their variants.
type Chain = Vec<(&'static Row, String)>;

/// Every fault that gives the suspect's ids; where none does, every two of different stages.
fn explain(scene: &Scene<'_>, rows: Rows<'_>, start: &Start<'_>, suspect: &[u32]) -> Vec<Explanation> {
    let most = if start.text().len() > PAIRS_BYTES { 1 } else { 2 };
    for faults in 1..=most {
        let mut found: Vec<Chain> = Vec::new();
        for (chain, text) in texts(scene, rows, start) {
            for (chain, ids) in tokenized(scene, rows, chain, &text, faults) {
                for (chain, whole) in framed(scene, rows, chain, &ids, faults) {
                    found
                        .extend(cut(scene, rows, chain, &whole, suspect, faults).filter(|chain| chain.len() == faults));
                }
            }
        }
        if !found.is_empty() {
            return grouped(found);
        }
    }
    Vec::new()
}

fn texts(scene: &Scene<'_>, rows: Rows<'_>, start: &Start<'_>) -> Vec<(Chain, String)> {
    let right = start.text();
    let mut all = vec![(Chain::new(), right.to_owned())];
    if start.messages().is_empty() {
        return all;
    }
    let mutants =
        rendering::mutants(scene, rows, start.messages()).into_iter().filter(|(_, variant)| variant.value != right);
    all.extend(mutants.map(|(row, variant)| (vec![(row, variant.label)], variant.value)));
    all
}

/// What is right, and where another fault may be had, what each row of `rows` makes of it.
fn stage<T: PartialEq>(
    rows: Rows<'_>,
    chain: &Chain,
    right: T,
    faults: usize,
    mutate: impl Fn(&Mutation) -> Vec<Variant<T>>,
) -> Vec<(Chain, T)> {
    let mut all = Vec::new();
    if chain.len() < faults {
        for &row in rows {
            for variant in mutate(&row.mutation).into_iter().filter(|variant| variant.value != right) {
                let mut longer = chain.clone();
                longer.push((row, variant.label));
                all.push((longer, variant.value));
            }
        }
    }
    all.push((chain.clone(), right));
    all
}

fn tokenized(scene: &Scene<'_>, rows: Rows<'_>, chain: Chain, text: &str, faults: usize) -> Vec<(Chain, Vec<u32>)> {
    stage(rows, &chain, scene.tokenize(text), faults, |mutation| match mutation {
        Mutation::Tokenize(mutate) => mutate(scene, text),
        _ => Vec::new(),
    })
}

fn framed(scene: &Scene<'_>, rows: Rows<'_>, chain: Chain, ids: &[u32], faults: usize) -> Vec<(Chain, Vec<u32>)> {
    stage(rows, &chain, scene.frame(ids), faults, |mutation| match mutation {
        Mutation::Frame(mutate) => mutate(scene, ids),
        _ => Vec::new(),
    })
}

/// The chains that end in the suspect's ids, with or without a cut.
fn cut(
    scene: &Scene<'_>,
    rows: Rows<'_>,
    chain: Chain,
    whole: &[u32],
    suspect: &[u32],
    faults: usize,
) -> impl Iterator<Item = Chain> {
    let all = if whole == suspect {
        vec![chain]
    } else {
        let ends = stage(rows, &chain, whole.to_vec(), faults, |mutation| match mutation {
            Mutation::Cut(mutate) => mutate(scene, whole, suspect),
            _ => Vec::new(),
        });
        ends.into_iter().filter(|(_, ids)| ids == suspect).map(|(chain, _)| chain).collect()
    };
    all.into_iter()
}

/// One explanation for each set of rows; variants that give the same are joined by "or".
fn grouped(found: Vec<Chain>) -> Vec<Explanation> {
    let mut groups: Vec<Chain> = Vec::new();
    let same = |a: &Chain, b: &Chain| a.iter().map(|link| link.0.fault).eq(b.iter().map(|link| link.0.fault));
    for chain in found {
        let Some(group) = groups.iter_mut().find(|group| same(group, &chain)) else {
            groups.push(chain);
            continue;
        };
        for (known, (_, label)) in group.iter_mut().zip(chain) {
            if !known.1.split(" or ").any(|word| word == label) {
                known.1 = format!("{} or {label}", known.1);
            }
        }
    }
    groups.iter().map(|chain| Explanation::new(chain)).collect()
}

fn from_ids(scene: &Scene<'_>, rows: Rows<'_>, text: &str, suspect: &[u32]) -> Vec<Explanation> {
    let found = rows.iter().filter_map(|&row| match row.mutation {
        Mutation::Ids(speaks) => Some(Explanation::new(&[(row, speaks(scene, text, suspect)?)])),
        _ => None,
    });
    found.collect()
}

fn other_vocabulary(scene: &Scene<'_>, text: &str, suspect: &[u32]) -> Option<String> {
    /// Texts that share fewer of their pairs of letters are different texts.
    const ALIKE: f64 = 0.5;
    let vocabulary = scene.tokenizer.vocab_size();
    if let Some(id) = suspect.iter().find(|&&id| id as usize >= vocabulary) {
        return Some(format!("{id} is outside of this file's {vocabulary} tokens"));
    }
    let spelled = spelled_out(scene, suspect);
    (alike(text, &spelled) < ALIKE && shifted(scene, text, suspect).is_none()).then(|| {
        let beginning: String = spelled.chars().take(60).collect();
        format!("here they spell {beginning:?}")
    })
}

/// Share of the pairs of neighbouring letters that two texts have in common (Dice 1945), white space left aside.
fn alike(a: &str, b: &str) -> f64 {
    let pairs = |text: &str| {
        let letters: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
        let mut pairs: Vec<(char, char)> = letters.windows(2).map(|pair| (pair[0], pair[1])).collect();
        pairs.sort_unstable();
        pairs
    };
    let (a, b) = (pairs(a), pairs(b));
    let (mut common, mut i, mut j) = (0usize, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => (common, i, j) = (common + 1, i + 1, j + 1),
        }
    }
    if a.len() + b.len() == 0 { 1.0 } else { 2.0 * common as f64 / (a.len() + b.len()) as f64 }
}

fn shifted(scene: &Scene<'_>, text: &str, suspect: &[u32]) -> Option<String> {
    let off = |expected: &[u32]| {
        let by = |(a, b): (&u32, &u32)| i64::from(*b) - i64::from(*a);
        let mut all = expected.iter().zip(suspect).map(by);
        let first = all.next()?;
        (expected.len() == suspect.len() && first != 0 && all.all(|next| next == first)).then_some(first)
    };
    let whole = scene.encode(text);
    // BOS may have been taken from its key, and so be right.
    let behind_bos = || match (&whole[..], suspect) {
        ([bos, rest @ ..], [first, others @ ..]) if bos == first && rest.len() > 1 => {
            let mut differences = rest.iter().zip(others).map(|(a, b)| i64::from(*b) - i64::from(*a));
            let first = differences.next()?;
            (rest.len() == others.len() && first != 0 && differences.all(|next| next == first)).then_some(first)
        }
        _ => None,
    };
    off(&whole).or_else(behind_bos).map(|by| format!("{by:+}"))
}
