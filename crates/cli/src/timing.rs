//! Times by operation and by layer, with the share of what the machine can do: `candor trace --time`, `candor bench --ops`.

#[cfg(feature = "gpu")]
pub mod kernels;

use std::{collections::BTreeMap, io::Write, time::Duration};

use candor::{Ceilings, KvFormat, Logits, Model, Role, Session};
use candor_inspect::{
    Graph,
    cost::{Clock, Cost, Part, Rows, parts},
};

use crate::{
    errors::Error,
    inspect::{
        error,
        table::{Align, Table},
    },
    paint::Paint,
};

/// Where times of single operations can be had: on a processor, one operation ends before the next begins.
///
/// # Errors
/// If something else computes.
pub fn check(model: &Model) -> Result<(), Error> {
    let label = model.device_label();
    match label.contains("gpu, ") || label.contains("; ") {
        true => Err(untimed(model)),
        false => Ok(()),
    }
}

/// That what computes has no clock for single operations.
pub fn untimed(model: &Model) -> Error {
    error::Error::Untimed { device: model.device_label().to_owned() }.into()
}

/// Passes of one kind, and what they took.
pub struct Timing<'a> {
    graph: &'a Graph,
    cache: [KvFormat; 2],
    /// Rows that a pass has at most.
    most: usize,
    clock: Clock,
    passes: Vec<Rows>,
    total: Duration,
}

impl<'a> Timing<'a> {
    /// Of passes in a session that was made to take `most` rows at once.
    pub fn new(graph: &'a Graph, session: &Session, most: usize) -> Timing<'a> {
        let (cache, clock) = (session.cache_formats(), Clock::default());
        Timing { graph, cache, most, clock, passes: Vec::new(), total: Duration::ZERO }
    }

    /// Reads tokens, of which the last one's logits are computed.
    pub fn read(&mut self, session: &mut Session, tokens: &[u32]) -> Result<(), Error> {
        let first = session.tokens().len();
        for (i, pass) in tokens.chunks(self.most.max(1)).enumerate() {
            let at = first + i * self.most;
            let outputs = usize::from(at + pass.len() == first + tokens.len());
            self.passes.push(Rows { first: at, count: pass.len(), outputs });
        }
        self.run(session, tokens, Role::Prefill)
    }

    /// Adds a token.
    pub fn decode(&mut self, session: &mut Session, token: u32) -> Result<(), Error> {
        self.passes.push(Rows { first: session.tokens().len(), count: 1, outputs: 1 });
        self.run(session, &[token], Role::Decode)
    }

    fn run(&mut self, session: &mut Session, tokens: &[u32], role: Role) -> Result<(), Error> {
        let started = std::time::Instant::now();
        self.clock.start();
        session.observe(tokens, role, Logits::Last, &mut self.clock)?;
        self.total += started.elapsed();
        Ok(())
    }

    /// Prints a table of operations, all layers together, and one of layers, below a line that says what it is of.
    pub fn print(&self, what: &str, limits: &Ceilings, out: &mut impl Write) -> Result<(), Error> {
        if self.passes.is_empty() {
            return Ok(());
        }
        let parts = parts(self.graph, &self.clock, &self.passes, self.cache);
        let rows: usize = self.passes.iter().map(|pass| pass.count).sum();
        writeln!(out, "{what}: {rows} tokens in {:.3} ms", millis(self.total))?;
        let shown = Shown { total: self.total, limits };
        let right = Align::Right;
        let figures = ["ms", "%", "GB/s", "% read", "TOPS", "% peak"].map(|name| (name, right));
        let mut table =
            Table::new(&[&[("value", Align::Left), ("operations", Align::Left)], figures.as_slice()].concat());
        let (operations, rest) =
            (by_name(&parts), self.total.saturating_sub(parts.iter().map(|part| part.cost.time).sum()));
        for (name, words, cost) in operations {
            table.row([vec![name, words], shown.cells(&cost)].concat(), None);
        }
        let rest = Cost { time: rest, ..Cost::default() };
        table.row([vec!["-".to_owned(), "handing over".to_owned()], shown.cells(&rest)].concat(), None);
        table.print(Paint::of_stdout(), out)?;
        let mut layers: BTreeMap<usize, Cost> = BTreeMap::new();
        for part in &parts {
            if let Some(layer) = part.key.layer {
                *layers.entry(layer).or_default() += part.cost.clone();
            }
        }
        let mut table = Table::new(&[&[("layer", right)], figures.as_slice()].concat());
        for (layer, cost) in layers {
            table.row([vec![layer.to_string()], shown.cells(&cost)].concat(), None);
        }
        writeln!(out)?;
        table.print(Paint::of_stdout(), out)?;
        Ok(writeln!(out)?)
    }
}

/// The parts of all layers together, in the order of the first layer that has them.
fn by_name(parts: &[Part]) -> Vec<(String, String, Cost)> {
    let mut all: Vec<(String, String, Cost)> = Vec::new();
    for part in parts {
        match all.iter_mut().find(|(name, words, _)| *name == part.key.name && *words == part.operations) {
            Some((.., cost)) => *cost += part.cost.clone(),
            None => all.push((part.key.name.clone(), part.operations.clone(), part.cost.clone())),
        }
    }
    all
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// What figures are shares of.
struct Shown<'a> {
    total: Duration,
    limits: &'a Ceilings,
}

impl Shown<'_> {
    /// Time and rates with their shares; of what is no work nothing.
    fn cells(&self, cost: &Cost) -> Vec<String> {
        let seconds = cost.time.as_secs_f64().max(1e-9);
        let rate = |amount: f64, unit: f64, limit: f64, digits: usize| match amount > 0.0 {
            true => {
                [format!("{:.digits$}", amount / seconds / unit), format!("{:.1}", 100.0 * amount / seconds / limit)]
            }
            false => [String::new(), String::new()],
        };
        let share = 100.0 * cost.time.as_secs_f64() / self.total.as_secs_f64().max(1e-9);
        let mut cells = vec![format!("{:.3}", millis(cost.time)), format!("{share:.1}")];
        cells.extend(rate(cost.bytes, 1e9, self.limits.read, 2));
        cells.extend(rate(cost.operations, 1e12, self.limits.multiply, 3));
        cells
    }
}

/// The limits in words.
pub fn limits(limits: &Ceilings) -> String {
    let Ceilings { isa, threads, read, multiply, numbers, .. } = limits;
    let plural = if *threads == 1 { "" } else { "s" };
    format!(
        "{isa} kernels, {threads} thread{plural}: reads {:.1} GB/s, peak {:.3} TOPS of {numbers}",
        read / 1e9,
        multiply / 1e12
    )
}
