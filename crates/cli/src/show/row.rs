//! The lines that `candor show` begins with.

use std::io::{self, Write};

/// A line of the head: a name and what there is to say of it.
pub fn row(out: &mut impl Write, name: &str, text: impl std::fmt::Display) -> io::Result<()> {
    writeln!(out, "{name:<14}{text}")
}
