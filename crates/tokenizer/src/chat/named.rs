//! Chat templates by name, for files that bring none: the names and the prompts are llama.cpp's, the templates are written
//! here. Which of them a vocabulary was made for is in `fit`.

mod fit;
mod instruct;
mod roles;
mod words;

pub use fit::TemplateFit;

use super::template::ChatTemplate;

/// A name and the text of its template.
type Named = (&'static str, &'static str);

/// All of them.
fn table() -> impl Iterator<Item = Named> {
    [roles::TEMPLATES, instruct::TEMPLATES, words::TEMPLATES].into_iter().flatten().copied()
}

impl ChatTemplate {
    /// The template that llama.cpp knows by this name; `None` where it knows none. Such a template writes no tool calls.
    ///
    /// ```
    /// use candor_tokenizer::{ChatContext, ChatTemplate, Message};
    ///
    /// let template = ChatTemplate::named("chatml").unwrap();
    /// let prompt = template.render(&[Message::user("Hi")], &ChatContext::default())?;
    /// assert_eq!(prompt, "<|im_start|>user\nHi<|im_end|>\n");
    /// # Ok::<(), candor_tokenizer::Error>(())
    /// ```
    pub fn named(name: &str) -> Option<ChatTemplate> {
        let (_, source) = table().find(|(known, _)| *known == name)?;
        ChatTemplate::new(source).ok()
    }

    /// All names that [`ChatTemplate::named`] knows, in their order.
    pub fn names() -> Vec<&'static str> {
        let mut names: Vec<&str> = table().map(|(name, _)| name).collect();
        names.sort_unstable();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_can_be_parsed_and_has_a_name_of_its_own() {
        let names = ChatTemplate::names();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
        for (name, source) in table() {
            assert!(ChatTemplate::new(source).is_ok(), "{name}");
        }
        assert!(ChatTemplate::named("chatml ").is_none());
    }
}
