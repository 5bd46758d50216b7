//! Which format each tensor gets, and files made of files.

mod files;
mod importance;
mod mixtures;
