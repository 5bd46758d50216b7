//! A conversation's prompt: which template and which system prompt apply, and what the model sees of them.

use candor::{ChatTemplate, Message, Model};

use crate::{
    args::{Line, TemplateArgs},
    errors::Error,
    text,
};

/// The template of a file, if one is named.
pub fn template_of_file(args: &TemplateArgs) -> Result<Option<ChatTemplate>, Error> {
    let Some(path) = &args.chat_template_file else { return Ok(None) };
    Ok(Some(ChatTemplate::new(&text::of_file(path)?)?))
}

/// The system prompt, if one is given.
pub fn system_prompt(line: &Line, args: &TemplateArgs) -> Result<Option<String>, Error> {
    match line.exclusive(&["system_prompt", "system_prompt_file"])? {
        Some("system_prompt_file") => {
            let path = args.system_prompt_file.as_deref();
            path.map(|path| Ok(text::without_last_break(text::of_file(path)?))).transpose()
        }
        _ => args.system_prompt.as_deref().map(|prompt| text::escaped(prompt, args.escape)).transpose(),
    }
}

/// The text that the model sees of a conversation.
pub fn render(
    model: &Model,
    template: Option<&ChatTemplate>,
    args: &TemplateArgs,
    system: Option<&str>,
    messages: &[Message],
) -> Result<String, Error> {
    let template = match template {
        Some(template) => template,
        None => model.chat_template()?.ok_or(candor::Error::NoChatTemplate)?,
    };
    let mut context = model.chat_context();
    context.extra = args.chat_template_kwargs.clone().unwrap_or_default().0;
    let system = system.map(Message::system);
    let all: Vec<Message> = system.into_iter().chain(messages.iter().cloned()).collect();
    Ok(template.render(&all, &context)?)
}
