//! Masks held against texts: those of public suites, those of grammars, and those that models write under them.

mod answers;
mod before;
mod calls;
mod gbnf;
mod json;
mod reader;
mod refused;
mod schemas;
