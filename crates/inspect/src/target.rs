//! Chooses the format of each tensor for a limit of bytes, by the divergence on a text that it costs.

mod error;
mod limit;
mod offers;
mod trials;

use std::collections::BTreeSet;

use candor::{Format, Gguf, LoadOptions, Model, SessionOptions, Windows};
use candor_convert::{FileType, Importance, Mix, Options, Plan};

use crate::{
    divergence::{Base, Estimate},
    imatrix,
};
pub use error::Error;
pub use limit::Limit;
use offers::Offers;
use trials::Trials;

/// A file that others know by name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standard {
    /// llama-quantize's name.
    pub kind: FileType,
    /// Bytes of the file.
    pub bytes: u64,
    /// Its mean divergence, in nats.
    pub divergence: f64,
}

/// What a tensor becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its format.
    pub format: Format,
    /// Its bytes.
    pub bytes: u64,
    /// What it costs alone, in nats; `None` where there was nothing to choose.
    pub cost: Option<f64>,
}

impl Row {
    /// The regular expression that is found in this name alone, as `--tensor-type` takes it.
    pub fn pattern(&self) -> String {
        format!("^{}$", self.name.replace('.', "\\."))
    }
}

/// What was chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The mixture whose size is nearest: the kind of file that it passes for.
    pub kind: FileType,
    /// All tensors that a mixture or a name gives a format.
    pub rows: Vec<Row>,
    /// Mean divergence, in nats.
    pub measured: Estimate,
    /// The sum of what tensors cost alone.
    pub predicted: f64,
    /// The best of the mixtures that fit, of those nearest in size.
    pub standard: Option<Standard>,
    /// Tokens that were scored.
    pub tokens: usize,
    /// How often a model was run over the text.
    pub runs: usize,
}

/// What is done at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Tensors are encoded in each format, to see their errors.
    Encoding,
    /// Models run over the text.
    Measuring,
}

/// How to look for a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How large the file may be.
    pub limit: Limit,
    /// Models that are run at most; `None` for [`RUNS`] for each tensor.
    pub runs: Option<usize>,
    /// Threads that encode.
    pub threads: usize,
}

/// Runs for each tensor: one alone, and what exchanges take.
pub const RUNS: usize = 4;

/// Mixtures nearest in size that are measured, too.
const STANDARDS: usize = 3;

/// Chooses formats for the tensors of a model that the mix of `options` decides of. Others like it are run as `load` and `session` say, over
/// `windows` of a text. `progress` hears how many steps of a stage are done, and of how many.
///
/// # Errors
/// A limit below the smallest file, or fewer runs than tensors; what planning, encoding and running say.
pub fn choose(
    model: Model,
    options: &Options,
    settings: Settings,
    (load, session): (&LoadOptions, SessionOptions),
    windows: &Windows<'_>,
    mut progress: impl FnMut(Stage, usize, usize),
) -> Result<Choice, Error> {
    let mix = options.mix.as_ref().ok_or(Error::Nothing)?;
    let file = &model.gguf().clone();
    let (base, text) = {
        let mut session = model.session(&session)?;
        let found = imatrix::collect::<imatrix::Error>(
            &mut session,
            windows,
            0,
            imatrix::Options { process_output: true },
            |_, _| Ok(()),
        )?;
        (Base::new(&mut session, windows.clone())?, Importance::from(found))
    };
    drop(model);
    let offers = Offers::new(file, options, (settings.limit, settings.threads), &text, |done, all| {
        progress(Stage::Encoding, done, all)
    })?;
    let least = offers.choosable() + 1;
    let runs = settings.runs.unwrap_or(RUNS * offers.choosable());
    if offers.choosable() == 0 {
        return Err(Error::Nothing);
    }
    if runs < least {
        return Err(Error::Runs { runs, least });
    }
    let standards = nearest(file, options, mix, &offers)?;
    let starts: Vec<Vec<usize>> = standards.iter().map(|(.., places)| places.clone()).collect();
    let mut trials = Trials::new(file, options.importance.as_ref(), &offers, settings.threads, (load, session), &base)?;
    let mut done = 0;
    let found = candor_convert::search(&offers.offers, offers.budget, &starts, runs, |places| {
        let found = trials.measure(places)?;
        done += 1;
        progress(Stage::Measuring, done, runs);
        Ok::<_, Error>(found.value)
    })?;
    let Some(found) = found else { return Err(Error::TooSmall { least: offers.least() }) };
    let places: Vec<Option<usize>> = found.places.iter().copied().map(Some).collect();
    let measured = trials.measure(&places)?;
    let rows = offers.sources.iter().zip(&offers.offers).zip(found.places.iter().zip(&found.alone));
    let rows: Vec<Row> = rows
        .map(|((source, offers), (&place, &cost))| Row {
            name: source.name.clone(),
            format: offers[place].format,
            bytes: offers[place].format.row_bytes(source.shape[0] as usize).unwrap_or(0) as u64
                * (source.elements() / source.shape[0].max(1)),
            cost: (offers.len() > 1).then_some(cost),
        })
        .collect();
    let standard = standards.iter().zip(&found.starts).filter_map(|((kind, bytes, _), divergence)| {
        Some(Standard { kind: *kind, bytes: *bytes, divergence: (*divergence)? })
    });
    let standard = standard.min_by(|a, b| a.divergence.total_cmp(&b.divergence));
    let predicted = rows.iter().filter_map(|row| row.cost).sum();
    let bytes = offers.overhead + offers.bytes(&found.places);
    let kind =
        kinds(options).min_by_key(|kind| size(file, options, mix, *kind).map_or(u64::MAX, |size| size.abs_diff(bytes)));
    let kind = kind.unwrap_or(mix.kind);
    Ok(Choice { kind, rows, measured, predicted, standard, tokens: base.tokens(), runs: found.runs })
}

/// The kinds of files that a choice can be compared with: mixtures of formats that are offered.
fn kinds(options: &Options) -> impl Iterator<Item = FileType> {
    let importance = options.importance.is_some();
    let usual =
        move |kind: &FileType| offers::FORMATS.contains(&kind.main()) && (importance || *kind != FileType::Q2KS);
    FileType::ALL.iter().copied().filter(usual).filter(|kind| kind.main().block_len() > 1)
}

/// A mixture with the names and flags of another.
fn of_kind(mix: &Mix, kind: FileType) -> Mix {
    let mut mix = mix.clone();
    (mix.kind, mix.main) = (kind, kind.main());
    mix
}

fn size(file: &Gguf, options: &Options, mix: &Mix, kind: FileType) -> Result<u64, Error> {
    Ok(Plan::new(file, Options { mix: Some(of_kind(mix, kind)), ..options.clone() })?.file_bytes()?)
}

/// The largest mixtures that fit: their kinds, the bytes of their files, and the places of their formats.
#[allow(clippy::type_complexity, reason = "a row of a table")]
fn nearest(
    file: &Gguf,
    options: &Options,
    mix: &Mix,
    offers: &Offers,
) -> Result<Vec<(FileType, u64, Vec<usize>)>, Error> {
    let mut found = Vec::new();
    for kind in kinds(options) {
        let plan = Plan::new(file, Options { mix: Some(of_kind(mix, kind)), ..options.clone() })?;
        let Some(places) = offers.places(&plan) else { continue };
        if offers.bytes(&places) <= offers.budget {
            found.push((kind, plan.file_bytes()?, places));
        }
    }
    found.sort_by_key(|(_, bytes, _)| std::cmp::Reverse(*bytes));
    let mut seen = BTreeSet::new();
    found.retain(|(.., places)| seen.insert(places.clone()));
    found.truncate(STANDARDS);
    Ok(found)
}
