//! From a conversation to a prompt's text: the file's template, and what engines do in place of it. Other models'
//! templates are `super::families`.

use candor::{ChatContext, ChatTemplate, Message};

use super::{
    difference::Difference,
    report::{Explanation, TextCheck},
    row::{Mutation, Row, Rows, TextFault, Variant},
    scene::Scene,
};

const NAME: &str = "chat template";

const fn row(fault: TextFault, mutation: fn(&Scene<'_>, &[Message]) -> Vec<Variant<String>>) -> Row {
    Row { fault, mutation: Mutation::Render(mutation) }
}

pub(super) const ROWS: &[Row] = &[
    row(
        TextFault {
            name: "template-missing",
            entry: "85",
            cause: "The model got the bare words of the conversation{}, without the template.",
            remedy: "Render tokenizer.chat_template of the file over the messages.",
            source: "ollama/ollama#2334",
        },
        bare,
    ),
    row(
        TextFault {
            name: "generation-prompt-missing",
            entry: "85",
            cause: "The prompt ends behind the user's turn, without the opening of the answer.",
            remedy: "Render the template with add_generation_prompt = true.",
            source: "ollama/ollama#6821",
        },
        |scene, messages| with_context(scene, messages, |context| context.add_generation_prompt = false),
    ),
    row(
        TextFault {
            name: "template-tokens-undefined",
            entry: "85",
            cause: "The template was rendered without the texts of {}, which came out empty.",
            remedy: "Give the template bos_token and eos_token as the vocabulary spells them.",
            source: "gibberish.md#85",
        },
        without_tokens,
    ),
    row(
        TextFault {
            name: "template-white-space",
            entry: "85",
            cause: "The template's line ends and indents around its blocks came out as text.",
            remedy: "Render with trim_blocks and lstrip_blocks, as Hugging Face's apply_chat_template does.",
            source: "gibberish.md#85",
        },
        untrimmed,
    ),
    row(
        TextFault {
            name: "system-prompt-dropped",
            entry: "87",
            cause: "The system message did not reach the template.",
            remedy: "Hand every message to the template, and keep the system message when old turns have to go.",
            source: "gibberish.md#87",
        },
        |scene, messages| {
            let rest: Vec<Message> = messages.iter().filter(|message| message.role() != "system").cloned().collect();
            fewer(scene, messages, &rest)
        },
    ),
    row(
        TextFault {
            name: "history-dropped",
            entry: "87",
            cause: "Only the last message reached the template.",
            remedy: "Hand the whole conversation to the template at every turn.",
            source: "gibberish.md#87",
        },
        |scene, messages| fewer(scene, messages, &messages[messages.len().saturating_sub(1)..]),
    ),
    row(
        TextFault {
            name: "template-applied",
            entry: "85",
            cause: "The engine wrapped the typed prompt into the chat template.",
            remedy: "Switch the chat mode off (llama-cli: -no-cnv), or compare with the conversation.",
            source: "gibberish.md#85",
        },
        |scene, messages| {
            let typed = scene.said.messages.is_empty();
            scene.render(messages).filter(|_| typed).map(Variant::only).unwrap_or_default()
        },
    ),
];

/// Compares the rendered text with the template's.
pub(super) fn check(scene: &Scene<'_>, rows: Rows<'_>) -> TextCheck {
    let messages = &scene.said.messages;
    if messages.is_empty() {
        return TextCheck::not_checkable(NAME, "no conversation was said", None);
    }
    let expected = match expected(scene) {
        Ok(expected) => expected,
        Err(why) => return TextCheck::not_checkable(NAME, why, None),
    };
    let Some(rendered) = &scene.said.rendered else {
        let decides = scene.said.prompt_ids.is_none().then_some("the token ids of the prompt");
        return TextCheck::not_checkable(NAME, "the text that the engine made of the conversation is unknown", decides);
    };
    if *rendered == expected {
        return TextCheck::right(
            NAME,
            format!("{} characters, as the file's template gives", rendered.chars().count()),
        );
    }
    if let Some(bos) = scene.tokenizer.bos().and_then(|bos| scene.tokenizer.token(bos))
        && scene.tokenizer.add_bos()
        && expected.strip_prefix(bos) == Some(rendered)
    {
        return TextCheck::right(NAME, format!("as the file's template gives; {bos} is left to the tokenizer"));
    }
    let explanations: Vec<Explanation> = mutants(scene, rows, messages)
        .into_iter()
        .filter(|(_, variant)| variant.value == *rendered && variant.value != expected)
        .map(|(row, variant)| Explanation::new(&[(row, variant.label)]))
        .collect();
    let sentence = match explanations.first() {
        Some(explanation) => explanation.cause.clone(),
        None => "the rendered conversation is not what the file's template gives".to_owned(),
    };
    TextCheck::wrong(NAME, sentence).differing(Difference::of_texts(&expected, rendered)).explained(explanations)
}

/// The text that the conversation should have become, or why it is not known.
pub(super) fn expected(scene: &Scene<'_>) -> Result<String, String> {
    let template = match &scene.template {
        None => return Err("the file has no chat template".to_owned()),
        Some(Err(error)) => return Err(error.clone()),
        Some(Ok(template)) => template,
    };
    template.render(&scene.said.messages, &scene.chat_context()).map_err(|error| error.to_string())
}

/// Every text that a faulty engine makes of a conversation.
pub(super) fn mutants(scene: &Scene<'_>, rows: Rows<'_>, messages: &[Message]) -> Vec<(&'static Row, Variant<String>)> {
    let mut mutants = Vec::new();
    for &row in rows {
        if let Mutation::Render(render) = row.mutation {
            mutants.extend(render(scene, messages).into_iter().map(|variant| (row, variant)));
        }
    }
    mutants
}

fn bare(scene: &Scene<'_>, messages: &[Message]) -> Vec<Variant<String>> {
    if scene.said.messages.is_empty() {
        return Vec::new();
    }
    let texts: Vec<&str> = messages.iter().filter_map(Message::text).collect();
    let last = texts.last().copied().unwrap_or_default();
    let mut variants = vec![Variant::new(" (the last message alone)", last.to_owned())];
    if texts.len() > 1 {
        let joints =
            [(" (in lines)", "\n"), (" (with empty lines)", "\n\n"), (" (with spaces)", " "), (" (joined)", "")];
        variants.extend(joints.map(|(label, joint)| Variant::new(label, texts.join(joint))));
    }
    variants
}

fn with_context(scene: &Scene<'_>, messages: &[Message], change: impl Fn(&mut ChatContext)) -> Vec<Variant<String>> {
    let mut context = scene.chat_context();
    change(&mut context);
    let text = scene.template().filter(|_| !scene.said.messages.is_empty());
    text.and_then(|template| template.render(messages, &context).ok()).map(Variant::only).unwrap_or_default()
}

fn without_tokens(scene: &Scene<'_>, messages: &[Message]) -> Vec<Variant<String>> {
    type Change = fn(&mut ChatContext);
    let changes: [(&str, Change); 3] = [
        ("BOS", |context| context.bos_token.clear()),
        ("EOS", |context| context.eos_token.clear()),
        ("BOS and EOS", |context| {
            context.bos_token.clear();
            context.eos_token.clear();
        }),
    ];
    let mut variants = Vec::new();
    for (label, change) in changes {
        let texts = with_context(scene, messages, change).into_iter();
        variants.extend(texts.map(|variant| Variant::new(label, variant.value)));
    }
    variants
}

/// The template over other messages than it should have got.
fn fewer(scene: &Scene<'_>, messages: &[Message], rest: &[Message]) -> Vec<Variant<String>> {
    if rest.len() == messages.len() || rest.is_empty() {
        return Vec::new();
    }
    scene.render(rest).map(Variant::only).unwrap_or_default()
}

/// The template as it renders where blocks keep the white space around them: each line end behind a block, and each
/// indent before one, becomes an expression that prints it.
fn untrimmed(scene: &Scene<'_>, messages: &[Message]) -> Vec<Variant<String>> {
    let Some(template) = scene.template().filter(|_| !scene.said.messages.is_empty()) else { return Vec::new() };
    let mut source = String::new();
    let mut rest = template.source();
    while let Some(end) = rest.find("%}") {
        let (block, after) = rest.split_at(end + 2);
        source.push_str(block);
        rest = after;
        let next = after.trim_start_matches([' ', '\t', '\n', '\r']);
        let stripped = block.ends_with("-%}") || next.starts_with("{%-") || next.starts_with("{{-");
        if let Some(after) = after.strip_prefix('\n').filter(|_| !stripped) {
            source.push_str("{{ '\n' }}");
            rest = after;
            let indent = rest.len() - rest.trim_start_matches([' ', '\t']).len();
            if indent > 0 && rest[indent..].starts_with("{%") {
                source.push_str(&format!("{{{{ '{}' }}}}", &rest[..indent]));
                rest = &rest[indent..];
            }
        }
    }
    source.push_str(rest);
    let text = ChatTemplate::new(&source).and_then(|changed| changed.render(messages, &scene.chat_context()));
    text.map(Variant::only).unwrap_or_default()
}
