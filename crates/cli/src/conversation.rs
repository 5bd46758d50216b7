//! What the model reads before a conversation.

use crate::{
    args::{Line, TemplateArgs},
    errors::Error,
    text,
};

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
