//! What files become models, and what their passes show.

mod answering;
mod notes;
mod parts;
mod refusals;
mod sharing;
mod taps;
