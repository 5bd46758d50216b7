//! Text to ids and back, chat templates, and what models answer.

mod answers;
mod chat;
mod encoding;
mod errors;
mod expressions;
mod fixture_ids;
mod fixture_templates;
mod hugging_face;
mod kinds;
mod named;
mod odd_conversations;
mod random;
mod round_trip;
mod small;
mod vocabularies;
