//! Every fault in a model of every architecture: docs/faults-by-wiring.md.
//!
//! `CANDOR_WRITE_TABLE=FILE cargo test -p candor-inspect --test planted -- --ignored by_wiring` writes it, with the fixtures
//! at hand; `CANDOR_ONLY=mamba,rwkv7` does it for some architectures.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
};

use candor::Gguf;
use candor_inspect::{catalogue, fault::Active, replay::Rounding, survey::survey};
use candor_models::ARCHITECTURES;
use candor_testing::{architectures, encoder_of};

use crate::bed::{Bed, Verdict, judge};

/// What the command writes.
const PAGE: &str = "# Faults by wiring

Written by `CANDOR_WRITE_TABLE=$PWD/docs/faults-by-wiring.md cargo test -p candor-inspect --test planted -- --ignored by_wiring`,
with the fixtures (`cargo xtask fixtures`), in about ten minutes; not by hand.

Each fault of the [catalogue](catalogue.md) is planted in a tiny model of each architecture, all values given, with the first
of its numbers that shows. The fault is planted and named by the same row: this shows which faults can be told apart in a
wiring, not that the rows are true. For that, [other engines](../tools/instrument/README.md) are there.

## By architecture

WIRINGS
## By fault

| sign | means |
| --- | --- |
| N | named |
| T | named as a twin: the numbers are the same as another fault's |
| M | seen, not named |
| W | a wrong name with high confidence |
| = | applies, and changes nothing by more than rounding |
| 1, 2 ... | does not apply, because of the reason with that number at the end of the line |

```text
FAULTS```
";

/// What became of a fault in a wiring.
enum Cell {
    Planted(Verdict),
    /// It does not apply, because of this.
    Beside(&'static str),
}

/// A wiring's faults.
type Column = BTreeMap<&'static str, Cell>;

/// A model of each architecture: of several the one with the shortest name.
fn models() -> BTreeMap<String, PathBuf> {
    let mut models: BTreeMap<String, PathBuf> = BTreeMap::new();
    for folder in architectures() {
        let arch = open(&folder).metadata().str("general.architecture").unwrap().unwrap().to_owned();
        let len = |folder: &PathBuf| (folder.as_os_str().len(), folder.clone());
        let shorter = models.get(&arch).is_none_or(|other| len(&folder) < len(other));
        if shorter {
            models.insert(arch, folder);
        }
    }
    if let Some(whole) = models.get("t5").cloned() {
        models.insert(HALF.to_owned(), whole);
    }
    if let Ok(only) = std::env::var("CANDOR_ONLY") {
        models.retain(|arch, _| only.split(',').any(|one| one == arch));
    }
    models
}

/// An architecture of the encoders of another's files.
const HALF: &str = "t5encoder";

fn open(folder: &Path) -> Gguf {
    Gguf::from_bytes(std::fs::read(folder.join("model.gguf")).unwrap().into()).unwrap()
}

/// The model of an architecture, of the folder that `models` gives.
fn model_of(arch: &str, folder: &Path) -> Gguf {
    let whole = open(folder);
    if arch == HALF { encoder_of(&whole) } else { whole }
}

/// Plants every fault that applies, with the first of its numbers that shows.
fn column(gguf: Gguf) -> Column {
    let bed = Bed::of("", gguf);
    let mut column = Column::new();
    for (fault, row) in catalogue().zip(survey(&bed.gguf).unwrap()) {
        let mut cell = Cell::Beside(row.because.unwrap_or("the numbers are the same"));
        for &variant in fault.variants {
            let active = Active::new(fault, variant);
            let Some(trace) = bed.plant(Rounding::Exact, &[active]) else { continue };
            let verdict = judge(&bed.diagnose(&trace), &active);
            cell = Cell::Planted(verdict);
            if verdict != Verdict::Invisible {
                break;
            }
        }
        column.insert(fault.name, cell);
    }
    column
}

/// How many of each verdict.
fn count(cells: &[&Cell], verdict: Verdict) -> usize {
    cells.iter().filter(|cell| matches!(cell, Cell::Planted(found) if *found == verdict)).count()
}

/// Spaces before the columns of `faults`.
const MARGIN: usize = 40;

/// A line for each fault, a letter for each architecture; digits for the reasons why it does not apply.
fn faults(columns: &BTreeMap<String, Column>) -> String {
    let mut text = String::new();
    let longest = columns.keys().map(String::len).max().unwrap_or(0);
    for line in 0..longest {
        let letter = |arch: &String| arch.chars().nth((line + arch.len()).wrapping_sub(longest)).unwrap_or(' ');
        let letters: String = columns.keys().map(letter).collect();
        writeln!(text, "{}", format!("{:MARGIN$}{letters}", "").trim_end()).unwrap();
    }
    for fault in catalogue() {
        let mut reasons: Vec<&str> = Vec::new();
        let cells: String = columns
            .values()
            .map(|column| match column[fault.name] {
                Cell::Planted(Verdict::Named) => 'N',
                Cell::Planted(Verdict::Twin) => 'T',
                Cell::Planted(Verdict::Missed) => 'M',
                Cell::Planted(Verdict::WrongName) => 'W',
                Cell::Planted(Verdict::Invisible) => '=',
                Cell::Beside(because) => {
                    let at = reasons.iter().position(|&reason| reason == because).unwrap_or_else(|| {
                        reasons.push(because);
                        reasons.len() - 1
                    });
                    char::from_digit(at as u32 + 1, 36).unwrap()
                }
            })
            .collect();
        let reasons: Vec<String> = reasons.iter().zip(1..).map(|(reason, at)| format!("{at} {reason}")).collect();
        writeln!(text, "{}", format!("{:MARGIN$}{cells} {}", fault.name, reasons.join("; ")).trim_end()).unwrap();
    }
    text
}

fn wirings(columns: &BTreeMap<String, Column>, models: &BTreeMap<String, PathBuf>) -> String {
    let mut text =
        "| architecture | model | faults that apply | named | as a twin | missed | wrong name | invisible |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    let known: BTreeSet<&str> = ARCHITECTURES.iter().map(|arch| arch.name).collect();
    for arch in known {
        let Some(column) = columns.get(arch) else {
            writeln!(text, "| {arch} | none is at hand | - | - | - | - | - | - |").unwrap();
            continue;
        };
        let cells: Vec<&Cell> = column.values().collect();
        let named = |verdict: Verdict| {
            let those = column.iter().filter(|(_, cell)| matches!(cell, Cell::Planted(found) if *found == verdict));
            let names: Vec<&str> = those.map(|(name, _)| *name).collect();
            if names.is_empty() { "0".to_owned() } else { names.join(", ") }
        };
        let model = models[arch].file_name().unwrap().to_string_lossy();
        writeln!(
            text,
            "| {arch} | {model} | {} | {} | {} | {} | {} | {} |",
            cells.iter().filter(|cell| matches!(cell, Cell::Planted(_))).count(),
            count(&cells, Verdict::Named),
            count(&cells, Verdict::Twin),
            named(Verdict::Missed),
            named(Verdict::WrongName),
            count(&cells, Verdict::Invisible)
        )
        .unwrap();
    }
    text
}

/// Does something with a model of each architecture, on all cores.
fn of_each<T: Send>(models: &BTreeMap<String, PathBuf>, run: impl Fn(&str, Gguf) -> T + Sync) -> BTreeMap<String, T> {
    let open = Mutex::new(models.iter().collect::<Vec<_>>());
    let results = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, Into::into) {
            scope.spawn(|| {
                while let Some((arch, folder)) = { open.lock().unwrap().pop() } {
                    let result = run(arch, model_of(arch, folder));
                    results.lock().unwrap().insert(arch.clone(), result);
                }
            });
        }
    });
    results.into_inner().unwrap()
}

#[test]
fn every_architecture_can_be_listed() {
    let applies = |_: &str, gguf| survey(&gguf).unwrap().iter().filter(|row| !row.values.is_empty()).count();
    for (arch, applies) in of_each(&models(), applies) {
        assert!(applies > 20, "{arch}: only {applies} faults apply");
    }
}

#[test]
#[ignore = "every fault in every architecture takes minutes"]
fn by_wiring() {
    let models = models();
    let columns = of_each(&models, |arch, gguf| {
        let column = column(gguf);
        eprintln!("{arch}: {} faults", column.len());
        column
    });
    let text = PAGE.replace("WIRINGS", &wirings(&columns, &models)).replace("FAULTS", &faults(&columns));
    match std::env::var_os("CANDOR_WRITE_TABLE") {
        Some(path) => std::fs::write(path, text).unwrap(),
        None => println!("{text}"),
    }
    let wrong =
        columns.values().flat_map(BTreeMap::values).filter(|cell| matches!(cell, Cell::Planted(Verdict::WrongName)));
    assert_eq!(wrong.count(), 0, "a wrong name with high confidence");
}
