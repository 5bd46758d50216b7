//! Which format each tensor gets, and files made of files.

mod choose;
mod files;
mod importance;
mod mixtures;
