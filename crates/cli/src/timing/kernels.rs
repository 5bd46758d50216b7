//! Times of a GPU's kernels: `candor bench --ops`.

use std::{io::Write, time::Duration};

use candor::Timed;

use super::millis;
use crate::{
    errors::Error,
    inspect::table::{Align, Table},
    paint::Paint,
};

/// What a GPU's kernels took.
#[derive(Default)]
pub struct Kernels(Vec<Timed>);

impl Kernels {
    /// Adds what was timed to what is the same kernel with as many workgroups.
    pub fn add(&mut self, timed: Vec<Timed>) {
        for new in timed {
            match self.0.iter_mut().find(|known| known.kernel == new.kernel && known.workgroups == new.workgroups) {
                Some(known) => {
                    known.dispatches += new.dispatches;
                    known.time += new.time;
                }
                None => self.0.push(new),
            }
        }
    }

    /// Whether nothing was timed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Prints a table, what took most of the time first, below a line that says what it is of.
    pub fn print(&self, what: &str, out: &mut impl Write) -> Result<(), Error> {
        let total: Duration = self.0.iter().map(|timed| timed.time).sum();
        let dispatches: u64 = self.0.iter().map(|timed| timed.dispatches).sum();
        if self.is_empty() {
            return Ok(());
        }
        writeln!(out, "{what}: {dispatches} dispatches in {:.3} ms of the GPU", millis(total))?;
        let right = Align::Right;
        let mut table = Table::new(&[
            ("%", right),
            ("ms", right),
            ("dispatches", right),
            ("µs each", right),
            ("workgroups", right),
            ("kernel", Align::Left),
        ]);
        let mut sorted: Vec<&Timed> = self.0.iter().collect();
        sorted.sort_by_key(|timed| std::cmp::Reverse(timed.time));
        for Timed { kernel, workgroups: [x, y, z], dispatches, time } in sorted {
            let each = 1e3 * millis(*time) / *dispatches as f64;
            let cells = [
                format!("{:.1}", 100.0 * time.as_secs_f64() / total.as_secs_f64().max(1e-12)),
                format!("{:.3}", millis(*time)),
                dispatches.to_string(),
                format!("{each:.2}"),
                format!("{x} x {y} x {z}"),
                kernel.clone(),
            ];
            table.row(cells.into(), None);
        }
        table.print(Paint::of_stdout(), out)?;
        Ok(writeln!(out)?)
    }
}
