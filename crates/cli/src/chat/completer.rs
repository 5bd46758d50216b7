//! What Tab offers: commands, names of settings, paths.

use std::{fs, path::MAIN_SEPARATOR};

use reedline::{Completer, CompletionResult, Span, Suggestion};

use super::commands;
use crate::args::Tunable;

/// Offers what may follow.
pub struct Offers;

impl Completer for Offers {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let typed = line.get(..position).unwrap_or(line);
        let (from, offers) = offers(typed);
        let suggestion = |offer: Offer| Suggestion {
            span: Span::new(from, position),
            append_whitespace: offer.is_whole,
            value: offer.text,
            ..Suggestion::default()
        };
        match offers.is_empty() {
            // Nothing is drawn for it, where an empty answer would be drawn as one.
            true => CompletionResult::Pending,
            false => CompletionResult::fresh(offers.into_iter().map(suggestion).collect::<Vec<_>>()),
        }
    }
}

/// What the line may go on with.
#[derive(Debug, PartialEq, Eq)]
struct Offer {
    text: String,
    /// Whether something else follows it, after a space.
    is_whole: bool,
}

/// What may stand from a place on, instead of what was typed there.
fn offers(typed: &str) -> (usize, Vec<Offer>) {
    if !typed.starts_with('/') || typed.contains('\n') {
        return (typed.len(), Vec::new());
    }
    let Some((command, argument)) = typed.split_once(' ') else {
        return (0, among(commands::names().map(str::to_owned), typed));
    };
    let argument = argument.trim_start();
    let from = typed.len() - argument.len();
    let options = match command.to_lowercase().as_str() {
        "/load" | "/save" | "/save!" | "/model" => {
            return (from, paths(argument).into_iter().map(|text| Offer { text, is_whole: false }).collect());
        }
        "/set" => {
            let own = Tunable::names().into_iter().map(|(name, _)| name);
            own.chain(commands::SWITCHES.iter().map(|&name| name.to_owned())).collect()
        }
        "/show" => commands::SHOWN.iter().map(|&name| name.to_owned()).collect(),
        _ => Vec::new(),
    };
    (from, among(options.into_iter(), argument))
}

fn among(names: impl Iterator<Item = String>, typed: &str) -> Vec<Offer> {
    let fitting = names.filter(|name| name.starts_with(typed));
    let mut offers: Vec<Offer> = fitting.map(|text| Offer { text, is_whole: true }).collect();
    offers.sort_by(|a, b| a.text.cmp(&b.text));
    offers
}

/// The paths that begin as what was typed, folders with a separator at their end.
fn paths(typed: &str) -> Vec<String> {
    let quote = if typed.starts_with('"') { "\"" } else { "" };
    let typed = &typed[quote.len()..];
    let is_separator = |c: char| c == '/' || c == MAIN_SEPARATOR;
    let (folder, start) = typed.rfind(is_separator).map_or(("", typed), |at| typed.split_at(at + 1));
    let Ok(entries) = fs::read_dir(if folder.is_empty() { "." } else { folder }) else { return Vec::new() };
    let mut paths: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            // What is hidden is only meant where it is asked for.
            let fits = name.starts_with(start) && (start.starts_with('.') || !name.starts_with('.'));
            let end = if entry.path().is_dir() { MAIN_SEPARATOR.to_string() } else { String::new() };
            fits.then(|| format!("{quote}{folder}{name}{end}"))
        })
        .collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(typed: &str) -> (usize, Vec<String>) {
        let (from, offers) = offers(typed);
        (from, offers.into_iter().map(|offer| offer.text).collect())
    }

    #[test]
    fn commands_and_settings_are_offered() {
        assert_eq!(texts("/conf"), (0, vec!["/config".to_owned()]));
        assert_eq!(texts("/set te"), (5, vec!["temp".to_owned()]));
        assert_eq!(texts("/set  dry-b"), (6, vec!["dry-base".to_owned()]));
        assert!(texts("/set ").1.len() > 20);
        assert_eq!(texts("/show lic"), (6, vec!["license".to_owned()]));
        assert!(texts("/exit x").1.is_empty());
        assert!(texts("hello /se").1.is_empty());
        assert!(texts("").1.is_empty());
    }

    #[test]
    fn paths_are_offered() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["model.gguf", "more text.json", "other", ".hidden"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("models")).unwrap();
        let root = format!("{}{MAIN_SEPARATOR}", folder.path().display());
        let (from, found) = texts(&format!("/load {root}mo"));
        assert_eq!(from, 6);
        assert_eq!(found, ["model.gguf", "models/", "more text.json"].map(|name| format!("{root}{name}")));
        assert_eq!(texts(&format!("/save {root}more t")).1, [format!("{root}more text.json")]);
        assert_eq!(texts(&format!("/model \"{root}more")).1, [format!("\"{root}more text.json")]);
        assert_eq!(texts(&format!("/load {root}.h")).1, [format!("{root}.hidden")]);
        assert!(texts("/load no/such/folder").1.is_empty());
    }
}
