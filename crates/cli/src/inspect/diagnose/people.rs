//! A diagnosis for people: the headline, each fault with cause and remedy, what is right before it, what is left.

use std::io::{self, Write};

use candor_inspect::{
    Check, Confidence, Diagnosis, Finding, Graph, Key, Outcome, Status, Storage, fault::Harm, replay::Rounding,
};

use super::beside::Residuals;
use crate::{
    errors::Error,
    inspect::{
        places::grouped,
        table::{Align, Table, error},
    },
    paint::{Paint, Style},
};

/// What is shown.
pub struct View<'a> {
    pub diagnosis: &'a Diagnosis,
    pub graph: &'a Graph,
    /// Distances from a reference.
    pub beside: Option<&'a Residuals>,
    /// Whether faults were looked for.
    pub faults: bool,
}

impl View<'_> {
    /// Prints it, `all` with the table of every check.
    pub fn print(&self, all: bool) -> Result<(), Error> {
        let paint = Paint::of_stdout();
        let mut out = io::BufWriter::new(io::stdout().lock());
        self.headline(paint, &mut out)?;
        let (harmless, harmful): (Vec<_>, Vec<_>) =
            self.diagnosis.findings.iter().partition(|finding| finding.harm == Harm::Harmless);
        for finding in harmful {
            self.finding(finding, paint, &mut out)?;
        }
        self.before(paint, &mut out)?;
        for finding in harmless {
            self.finding(finding, paint, &mut out)?;
        }
        self.rest(paint, &mut out)?;
        if all {
            writeln!(out)?;
            self.table().print(paint, &mut out)?;
        }
        Ok(out.flush()?)
    }

    fn headline(&self, paint: Paint, out: &mut impl Write) -> Result<(), Error> {
        let Diagnosis { outcome, first_wrong, engine, tokens, rounding, storage, oracle, checks, .. } = self.diagnosis;
        let line = match (outcome, first_wrong) {
            (Outcome::Healthy, _) => paint.paint(Style::Green, "healthy: every value follows from its inputs"),
            (Outcome::Harmless, _) => {
                paint.paint(Style::Green, "harmless: there are differences, none of which can change the text")
            }
            (Outcome::Undecided, _) => {
                paint.paint(Style::Yellow, "this cannot be decided from what there is: nothing is known to be wrong")
            }
            (_, Some(key)) => paint.paint(Style::Red, format!("first wrong operation: {}", self.named(key))),
            (_, None) => paint.paint(Style::Red, "something is wrong"),
        };
        writeln!(out, "{line}")?;
        let engine = engine.as_deref().unwrap_or("an engine without a name");
        writeln!(out, "trace of {engine}, {} tokens ({} in the prompt)", tokens.0, tokens.1)?;
        let floats = stored(*storage).map(|floats| format!("; kept in {floats}")).unwrap_or_default();
        writeln!(out, "compared with {oracle}; activations rounded {}{floats}", rounded(*rounding))?;
        let count = |status| checks.iter().filter(|check| check.status == status).count();
        let mut counts = vec![format!("{} right", count(Status::Right))];
        for (status, word) in [
            (Status::Wrong, "wrong"),
            (Status::Suspicious, "suspicious"),
            (Status::Unreadable, "too coarse to tell"),
            (Status::Undecided, "undecided"),
        ] {
            counts.extend(Some(count(status)).filter(|&count| count > 0).map(|count| format!("{count} {word}")));
        }
        writeln!(out, "{} values: {}", checks.len(), counts.join(", "))?;
        for meaning in &self.diagnosis.meanings {
            writeln!(out, "note: {meaning}")?;
        }
        Ok(())
    }

    /// A value with its operation.
    fn named(&self, key: &Key) -> String {
        match self.graph.find(key) {
            Some(id) => format!("{key} ({})", self.graph.nodes[id].kind.name()),
            None => key.to_string(),
        }
    }

    fn finding(&self, finding: &Finding, paint: Paint, out: &mut impl Write) -> Result<(), Error> {
        let harmless = finding.harm == Harm::Harmless;
        let name = paint.paint(if harmless { Style::Yellow } else { Style::Bold }, &finding.fault);
        let note = if harmless { ", harmless" } else { "" };
        writeln!(out, "\n{name} ({}{note})", confidence(finding.confidence))?;
        let mut field = |label: &str, text: &str| writeln!(out, "  {label:<9} {text}");
        field("cause", &finding.cause)?;
        field("remedy", &finding.remedy)?;
        field("where", &grouped(&finding.places))?;
        let rival = finding.rival.as_ref();
        let rival = rival.map(|rival| format!("; next best: {} with {}", rival.name, error(rival.residual)));
        let (with, without) = (error(finding.residual), error(finding.healthy));
        field("residual", &format!("{with} with the fault, {without} without{}", rival.unwrap_or_default()))?;
        if !finding.twins.is_empty() {
            field("or", &format!("{} (the same in numbers)", finding.twins.join(", ")))?;
        }
        field("seen in", &finding.source)?;
        Ok(())
    }

    /// What is right before the first wrong value.
    fn before(&self, paint: Paint, out: &mut impl Write) -> Result<(), Error> {
        let Some(first) = &self.diagnosis.first_wrong else { return Ok(()) };
        let before = self.diagnosis.checks.iter().take_while(|check| check.key != *first);
        let right: Vec<&Key> = before.filter(|check| check.status == Status::Right).map(|check| &check.key).collect();
        let label = paint.paint(Style::Bold, "right before it:");
        match right.is_empty() {
            true => writeln!(out, "\n{label} nothing in this trace")?,
            false => writeln!(out, "\n{label} {}", grouped(right))?,
        }
        Ok(())
    }

    /// What no fault explains, what could not be placed, and advice.
    fn rest(&self, paint: Paint, out: &mut impl Write) -> Result<(), Error> {
        let Diagnosis { unexplained, unplaced, advice, .. } = self.diagnosis;
        if !unexplained.is_empty() {
            let title = if self.faults { "wrong, and no known fault reproduces it:" } else { "wrong:" };
            let title = paint.paint(Style::Bold, title);
            let keys = self.diagnosis.checks.iter().map(|check| &check.key);
            writeln!(out, "\n{title} {}", grouped(keys.filter(|key| unexplained.contains_key(key))))?;
            for (line, keys) in self.lines() {
                writeln!(out, "  {}: {line}", grouped(keys))?;
            }
        }
        if !unplaced.is_empty() {
            writeln!(out, "\nnot placed in this model: {}", grouped(unplaced))?;
        }
        if !advice.is_empty() {
            writeln!(out)?;
        }
        for line in advice {
            writeln!(out, "{} {line}", paint.paint(Style::Bold, "advice:"))?;
        }
        Ok(())
    }

    /// What can be said of values that no fault explains: each sentence once, with the values that it is about.
    fn lines(&self) -> Vec<(&str, Vec<&Key>)> {
        let mut lines: Vec<(&str, Vec<&Key>)> = Vec::new();
        for check in &self.diagnosis.checks {
            for line in self.diagnosis.unexplained.get(&check.key).into_iter().flatten() {
                match lines.iter_mut().find(|(other, _)| other == line) {
                    Some((_, keys)) => keys.push(&check.key),
                    None => lines.push((line, vec![&check.key])),
                }
            }
        }
        lines
    }

    /// Every check.
    fn table(&self) -> Table {
        use Align::{Left, Right};
        let mut table = Table::new(&[
            ("value", Left),
            ("operation", Left),
            ("status", Left),
            ("residual", Right),
            ("passes to", Right),
            ("ratio", Right),
            ("cosine", Right),
        ]);
        if self.beside.is_some() {
            table.column("reference", Right);
        }
        for check in &self.diagnosis.checks {
            let operation = self.graph.find(&check.key).map_or("", |id| self.graph.nodes[id].kind.name());
            let (status, style) = status(check);
            let residual = &check.residual;
            let mut cells = vec![
                check.key.to_string(),
                operation.to_owned(),
                status.to_owned(),
                error(residual.relative),
                error(check.gate.pass),
                format!("{:.4}", residual.ratio),
                format!("{:.6}", residual.cosine),
            ];
            if let Some(beside) = self.beside {
                cells.push(beside.get(&check.key).map_or("-".to_owned(), |&residual| error(residual)));
            }
            table.row(cells, style);
        }
        table
    }
}

fn status(check: &Check) -> (&'static str, Option<Style>) {
    match check.status {
        Status::Right => ("right", None),
        Status::Suspicious => ("suspicious", Some(Style::Yellow)),
        Status::Wrong => ("wrong", Some(Style::Red)),
        Status::Unreadable => ("too coarse", Some(Style::Dim)),
        Status::Undecided => ("undecided", Some(Style::Dim)),
    }
}

fn confidence(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Low => "low confidence",
        Confidence::Medium => "medium confidence",
        Confidence::High => "high confidence",
    }
}

fn stored(storage: Storage) -> Option<&'static str> {
    Some(match storage {
        Storage::F32 => return None,
        Storage::Tf32 => "TF32",
        Storage::F16 => "F16",
        Storage::Bf16 => "BF16",
        Storage::Fp8E4m3 => "FP8 (E4M3)",
        Storage::Fp8E5m2 => "FP8 (E5M2)",
    })
}

fn rounded(rounding: Rounding) -> String {
    match rounding {
        Rounding::Exact => "not at all".to_owned(),
        Rounding::Ggml => "as llama.cpp does".to_owned(),
        Rounding::Searched => "as Candor's CPU code does".to_owned(),
        Rounding::Superblocks => "as Candor's CPU code does with prompts".to_owned(),
        Rounding::Tiles => "as Candor's CPU code does with AMX".to_owned(),
        Rounding::Unknown => "in a way that is not known".to_owned(),
        Rounding::Blocks(size) => format!("to 8 bits in blocks of {size}"),
        Rounding::AnyBlocks(size) => format!("to 8 bits in blocks of {size}, whatever the weights"),
        Rounding::AnyQ8 => "to Q8_0, whatever the weights".to_owned(),
        Rounding::Rows => "to 8 bits row by row".to_owned(),
        Rounding::Tf32 => "to TF32, weights too".to_owned(),
        Rounding::Half => "to F16, weights too".to_owned(),
        Rounding::Bfloat => "to BF16, weights too".to_owned(),
    }
}
