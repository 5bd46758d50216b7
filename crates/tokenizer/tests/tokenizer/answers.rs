//! Answers taken apart. Every text is parsed at once, split in two at every character, and character by character.

mod parts;
mod scene;
mod templates;
mod texts;
