//! What a reader found, before names are understood, and the step from there to a trace: names become keys, shapes
//! become rows.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    path::Path,
};

use super::{
    ImportError, Reading, Tensor, imported::Imported, lines::Unsaid, options::ReadOptions, place, printed::Printed,
    tensor::Content,
};
use crate::{
    Evidence, Key, Origin, Trace,
    names::{Meaning, Names, Order, Parts},
};

/// Everything a reader found.
#[derive(Debug, Default)]
pub(super) struct Dump {
    pub(super) format: &'static str,
    pub(super) origin: Origin,
    /// Named values in the order of the dump.
    pub(super) items: Vec<(String, Item)>,
    /// Values that the reader itself knows the meaning of.
    pub(super) known: Vec<(Key, Evidence)>,
    /// Names the reader itself knows that no map knows.
    pub(super) unknown: Vec<String>,
    /// How the lines of a log were read.
    pub(super) readings: Vec<Reading>,
    /// Rows that a log does not say the token of.
    pub(super) unsaid: Vec<Unsaid>,
}

/// One named value.
#[derive(Debug)]
pub(super) enum Item {
    Tensor(Tensor),
    Printed(Printed),
    Ids(Vec<u32>),
}

impl From<Content> for Item {
    fn from(content: Content) -> Item {
        match content {
            Content::Values(tensor) => Item::Tensor(tensor),
            Content::Ids(ids) => Item::Ids(ids),
        }
    }
}

/// Names shown when none is known.
const SAMPLE: usize = 5;

impl Dump {
    pub(super) fn of(format: &'static str) -> Dump {
        Dump { format, ..Dump::default() }
    }

    /// Adds another file's finds.
    pub(super) fn append(&mut self, other: Dump) {
        self.items.extend(other.items);
        self.known.extend(other.known);
        self.unknown.extend(other.unknown);
        self.readings.extend(other.readings);
        self.unsaid.extend(other.unsaid);
        let (mine, theirs) = (&mut self.origin, other.origin);
        mine.engine = mine.engine.take().or(theirs.engine);
        mine.model = mine.model.take().or(theirs.model);
        mine.prompt = mine.prompt.take().or(theirs.prompt);
        mine.tokens = mine.tokens.take().or(theirs.tokens);
        mine.prompt_tokens = mine.prompt_tokens.or(theirs.prompt_tokens);
        mine.cache = mine.cache.take().or(theirs.cache);
    }

    /// Understands the names and lays out the values.
    pub(super) fn finish(mut self, path: &Path, options: &ReadOptions) -> Result<Imported, ImportError> {
        let names = self.items.iter().map(|(name, _)| name.as_str());
        let names = Names::for_dump(options, names);
        let found = self.items.len() + self.known.len() + self.unknown.len();
        let mut unknown = std::mem::take(&mut self.unknown);
        let mut placed = Vec::new();
        let mut states = Vec::new();
        for (name, item) in self.items {
            match (names.meaning(&name), item) {
                (Meaning::Tokens, Item::Ids(ids)) => {
                    self.origin.tokens.get_or_insert(ids);
                }
                (Meaning::Value(key, order), item) => placed.push((name, one(key), order, item)),
                (Meaning::Parts(parts), item) => placed.push((name, parts, Order::Tokens, item)),
                (Meaning::HiddenState(index), item) => states.push((index, name, item)),
                (Meaning::Internal, _) => {}
                (Meaning::Unknown | Meaning::Tokens, _) => unknown.push(name),
            }
        }
        // All states from the embedding on: only then is the last of them the one after the final norm.
        let indices: BTreeSet<usize> = states.iter().map(|(index, ..)| *index).collect();
        let last = indices.last().copied().filter(|&last| last > 0 && indices.len() == last + 1);
        for (index, name, item) in states {
            let key = match index {
                0 => Key::new("inp_embd", None),
                _ if Some(index) == last => Key::new("result_norm", None),
                _ => Key::new("l_out", Some(index - 1)),
            };
            placed.push((name, one(key), Order::Tokens, item));
        }
        // What an encoder hands out stands before what the norm says for itself.
        placed.sort_by_key(|(name, ..)| name != "result_embd");
        let given = || options.tokens.as_ref().map(Vec::len);
        let tokens = self.origin.tokens.as_ref().map(Vec::len).or_else(|| vote(&placed)).or_else(given);
        let mut values: BTreeMap<Key, Evidence> = BTreeMap::new();
        let mut skipped = Vec::new();
        for (key, evidence) in self.known {
            match values.entry(key) {
                Entry::Vacant(place) => {
                    place.insert(evidence);
                }
                Entry::Occupied(place) => skipped.push(format!("{0}: {0} is already there", place.key())),
            }
        }
        for (name, parts, order, item) in placed {
            let key = &parts.keys[0].0;
            let laid = match item {
                Item::Tensor(tensor) => place::lay(tensor, key, order, tokens),
                Item::Printed(printed) => printed.evidence(key, order, tokens),
                Item::Ids(_) => Err("integers, expected floats".to_owned()),
            };
            match laid.and_then(|evidence| place::apart(evidence, &parts)) {
                Ok(parts) => {
                    for (key, evidence) in parts {
                        match values.get(&key) {
                            // One module's output is the next one's input, and a dump may hold both.
                            Some(before) if *before == evidence => {}
                            Some(_) => skipped.push(format!("{name}: {key} is already there")),
                            None => {
                                values.insert(key, evidence);
                            }
                        }
                    }
                }
                Err(reason) => skipped.push(format!("{name}: {reason}")),
            }
        }
        let mut seen = BTreeSet::new();
        unknown.retain(|name| seen.insert(name.clone()));
        if values.is_empty() && !unknown.is_empty() && skipped.is_empty() {
            let sample = unknown.iter().take(SAMPLE).cloned().collect::<Vec<_>>().join(", ");
            return Err(ImportError::UnknownNames { path: path.to_owned(), count: unknown.len(), sample });
        }
        if values.is_empty() {
            let reason = match skipped.first() {
                Some(first) => format!("no value can be used; {first}"),
                None => format!("no values among {found} entries"),
            };
            return Err(ImportError::malformed(path, self.format, reason));
        }
        let (trace, read) = (Trace { origin: self.origin, values }, self.readings);
        Ok(Imported { trace, format: self.format, unknown, skipped, read, unsaid: self.unsaid })
    }
}

fn one(key: Key) -> Parts {
    Parts { keys: vec![(key, 0)], groups: 1 }
}

/// The number of tokens most values agree on.
fn vote(placed: &[(String, Parts, Order, Item)]) -> Option<usize> {
    let mut votes: BTreeMap<usize, usize> = BTreeMap::new();
    for (_, parts, order, item) in placed {
        let (Item::Tensor(Tensor { shape, .. }), Order::Tokens) = (item, order) else { continue };
        if let [tokens, _] = place::squeezed(shape)[..]
            && parts.keys[0].0.name != "result_output"
            && (tokens > 1 || parts.keys[0].0.name != "result_norm")
        {
            *votes.entry(tokens).or_default() += 1;
        }
    }
    votes.into_iter().max_by_key(|&(tokens, count)| (count, tokens)).map(|(tokens, _)| tokens)
}
