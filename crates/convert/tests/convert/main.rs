//! Which format each tensor gets, and files made of files.

mod mixtures;
