//! The commands that show, check and explain what a model computes: `trace`, `logits`, `diagnose`, `verify`, `doctor`.

pub mod compare;
pub mod diagnose;
pub mod doctor;
mod dump;
pub mod error;
pub mod json;
pub mod logits;
mod places;
pub mod table;
mod tokens;
pub mod trace;
pub mod verify;
