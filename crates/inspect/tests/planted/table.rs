//! Every fault in a model of every architecture: the table of faults by wiring in docs/catalogue.md.
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

use candor::{gguf::Gguf, models::ARCHITECTURES};
use candor_inspect::{catalogue, fault::Active, replay::Rounding, survey::survey};
use candor_testing::architectures;

use crate::bed::{Bed, Verdict, judge};

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
    let only = std::env::var("CANDOR_ONLY").ok();
    let mut models: BTreeMap<String, PathBuf> = BTreeMap::new();
    for folder in architectures() {
        let gguf = Gguf::from_bytes(std::fs::read(folder.join("model.gguf")).unwrap().into()).unwrap();
        let arch = gguf.metadata().str("general.architecture").unwrap().unwrap().to_owned();
        if only.as_ref().is_some_and(|only| !only.split(',').any(|one| one == arch)) {
            continue;
        }
        let len = |folder: &PathBuf| (folder.as_os_str().len(), folder.clone());
        let shorter = models.get(&arch).is_none_or(|other| len(&folder) < len(other));
        if shorter {
            models.insert(arch, folder);
        }
    }
    models
}

/// Plants every fault that applies, with the first of its numbers that shows.
fn column(folder: &Path) -> Column {
    let bed = Bed::open(&folder.join("model.gguf"));
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

fn faults(columns: &BTreeMap<String, Column>) -> String {
    let mut text = "| fault | architectures | named | as a twin | missed | wrong name | invisible | does not apply to the others: |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n".to_owned();
    for fault in catalogue() {
        let cells: Vec<&Cell> = columns.values().map(|column| &column[fault.name]).collect();
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for cell in &cells {
            if let Cell::Beside(because) = cell {
                *reasons.entry(because).or_default() += 1;
            }
        }
        let planted = cells.iter().filter(|cell| matches!(cell, Cell::Planted(_))).count();
        let mut reasons: Vec<(&str, usize)> = reasons.into_iter().collect();
        reasons.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        let reasons: Vec<String> = reasons.iter().map(|(because, count)| format!("{because} ({count})")).collect();
        let reasons = if reasons.is_empty() { "applies to all".to_owned() } else { reasons.join(", ") };
        let of = |verdict| count(&cells, verdict);
        writeln!(
            text,
            "| {} | {planted} | {} | {} | {} | {} | {} | {reasons} |",
            fault.name,
            of(Verdict::Named),
            of(Verdict::Twin),
            of(Verdict::Missed),
            of(Verdict::WrongName),
            of(Verdict::Invisible)
        )
        .unwrap();
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
fn of_each<T: Send>(models: &BTreeMap<String, PathBuf>, run: impl Fn(&str, &Path) -> T + Sync) -> BTreeMap<String, T> {
    let open = Mutex::new(models.iter().collect::<Vec<_>>());
    let results = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, Into::into) {
            scope.spawn(|| {
                while let Some((arch, folder)) = { open.lock().unwrap().pop() } {
                    let result = run(arch, folder);
                    results.lock().unwrap().insert(arch.clone(), result);
                }
            });
        }
    });
    results.into_inner().unwrap()
}

#[test]
fn every_architecture_can_be_listed() {
    for (arch, applies) in of_each(&models(), |_, folder| {
        let gguf = Gguf::from_bytes(std::fs::read(folder.join("model.gguf")).unwrap().into()).unwrap();
        survey(&gguf).unwrap().iter().filter(|row| !row.values.is_empty()).count()
    }) {
        assert!(applies > 20, "{arch}: only {applies} faults apply");
    }
}

#[test]
#[ignore = "every fault in every architecture takes minutes"]
fn by_wiring() {
    let models = models();
    let columns = of_each(&models, |arch, folder| {
        let column = column(folder);
        eprintln!("{arch}: {} faults", column.len());
        column
    });
    let text = format!("{}\n{}", wirings(&columns, &models), faults(&columns));
    match std::env::var_os("CANDOR_WRITE_TABLE") {
        Some(path) => std::fs::write(path, text).unwrap(),
        None => println!("{text}"),
    }
    let wrong =
        columns.values().flat_map(BTreeMap::values).filter(|cell| matches!(cell, Cell::Planted(Verdict::WrongName)));
    assert_eq!(wrong.count(), 0, "a wrong name with high confidence");
}
