//! What isn't arithmetic: text to ids and back, the chat template, and how many BOS tokens a conversation begins with.

use candor::{Encode, Message, Model};

use super::report::{Check, Outcome, Subject};

/// Texts that must survive the way to ids and back.
const SAMPLES: &[&str] = &[
    "Hello, world!",
    "The quick brown fox jumps over the lazy dog.",
    "3.14159 + 2,718 = 1234567890",
    "two  spaces,   three, and a\ttab",
    "first line\nsecond line\n\nafter an empty one",
    "fn main() { println!(\"{}\", 1 << 3); }",
    "na\u{ef}ve caf\u{e9}, stra\u{df}e, \u{153}uvre",
    "\u{65e5}\u{672c}\u{8a9e}\u{3068}\u{4e2d}\u{6587}",
    "\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442}, \u{43c}\u{438}\u{440}",
    "\u{1f600} \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
];

/// `decode(encode(text)) == text` for every sample. A text that the vocabulary cannot spell (its ids have the unknown
/// token, or bytes are missing, which the tokenizer warns of) is left out.
pub(super) fn round_trip(model: &Model) -> Check {
    let tokenizer = model.tokenizer();
    let lossy = tokenizer.warnings().iter().any(|warning| warning.contains("lost"));
    let (mut kept, mut left_out) = (0, 0);
    let mut outcome = Outcome::Passed;
    for &sample in SAMPLES {
        let ids = tokenizer.encode(sample, Encode::text());
        let back = tokenizer.decode(&ids);
        if back == sample {
            kept += 1;
        } else if lossy || tokenizer.unk().is_some_and(|unk| ids.contains(&unk)) {
            left_out += 1;
        } else {
            outcome = Outcome::Failed(format!("{sample:?} came back as {back:?}"));
            break;
        }
    }
    let detail = match left_out {
        0 => format!("{kept} texts"),
        _ => format!("{kept} texts, {left_out} that the vocabulary cannot spell"),
    };
    if kept == 0 && outcome == Outcome::Passed {
        outcome = Outcome::Skipped("the vocabulary can spell none of the samples".to_owned());
    }
    check("tokenizer round trip", detail, outcome)
}

/// The template renders a conversation, and its ids begin with one BOS where the file asks for one, with at most one
/// where it does not (a template may spell it).
pub(super) fn template(model: &Model) -> Check {
    const NAME: &str = "chat template and BOS";
    let conversation = [Message::user("Hello!"), Message::assistant("Hi."), Message::user("How are you?")];
    let rendered = match model.render(&conversation) {
        Ok(rendered) => rendered,
        Err(candor::Error::NoChatTemplate) => {
            return check(NAME, String::new(), Outcome::Skipped("the file has no chat template".to_owned()));
        }
        Err(error) => return check(NAME, String::new(), Outcome::Failed(error.to_string())),
    };
    let ids = model.encode_prompt(&rendered);
    let bos = model.tokenizer().bos();
    let count = ids.iter().take_while(|&&id| Some(id) == bos).count();
    let detail = format!("{} characters, {} tokens, {count} BOS", rendered.chars().count(), ids.len());
    let outcome = match (model.tokenizer().add_bos(), count) {
        (true, 1) | (false, 0 | 1) => Outcome::Passed,
        (true, 0) => Outcome::Failed("no BOS, though the file asks for one".to_owned()),
        (_, more) => Outcome::Failed(format!("{more} BOS tokens at the beginning")),
    };
    let missing = conversation.iter().filter_map(Message::text).find(|text| !rendered.contains(text));
    let outcome = match missing {
        Some(text) => Outcome::Failed(format!("the rendered conversation lacks {text:?}")),
        None => outcome,
    };
    check(NAME, detail, outcome)
}

fn check(name: &str, detail: String, outcome: Outcome) -> Check {
    Check { subject: Subject::Text, name: name.to_owned(), detail, outcome }
}
