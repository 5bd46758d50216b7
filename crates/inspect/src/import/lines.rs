//! Printed values as people paste them into issues: a name, perhaps a layer and a token, and the first few numbers, with
//! anything else around them.
//!
//! ```text
//! Qcur-0: [0.1234, 0.2345, -0.3456]
//! Layer 21: [0.581, 1.059, -1.031]
//! [DEBUG] Layer 3 attn_norm: first 3 = [0.1, 0.2, 0.3], mean=0.02, rms=0.98
//! #1: token=485 ("av") logit=8.5582
//! ```
//! Nothing is guessed: what a line has been read as, and why others were not, is listed by line. Statistics are left
//! alone, they are no evidence. A line such as `Token ids: [1, 15043]` says what went in.

mod gather;
mod ids;
mod label;
mod pieces;
mod records;

use std::path::Path;

use super::{
    ImportError,
    dump::{Dump, Item},
    eval_callback::read_text,
    options::ReadOptions,
    place,
    printed::{Cell, Printed, RowSaid},
    raw::logits_text,
    reading::{Made, Reading},
};
use crate::{
    Key,
    names::{Names, Order, Parts, Wiring},
};
pub(crate) use gather::Unsaid;
use gather::{Gather, Token};
use ids::ById;
use label::{Label, Row};
use pieces::{Piece, arrays, pieces};
use records::Record;

const FORMAT: &str = "log";
/// Lines of which it is said how they were read.
const MAX_READINGS: usize = 1 << 16;

/// Reads a log.
pub(super) fn read(path: &Path, options: &ReadOptions) -> Result<Dump, ImportError> {
    let text = read_text(path)?;
    let mut dump = Dump::of(FORMAT);
    if let Some(mut printed) = logits_text(&text) {
        printed.row = RowSaid::Last;
        dump.items.push(("logits".to_owned(), Item::Printed(printed)));
        return Ok(dump);
    }
    let mut log = Log::new(options, &text);
    match records::of_file(&text) {
        Some(records) => records.into_iter().for_each(|record| log.record(1, "", record)),
        None => {
            log.layers_count_from = first_layer(&text);
            for piece in pieces(&text) {
                log.piece(&piece);
            }
        }
    }
    log.place(&mut dump);
    if dump.known.is_empty() && dump.unknown.is_empty() && dump.readings.iter().all(|line| !line.is_evidence()) {
        return Err(match dump.readings.iter().any(|line| matches!(line.made, Made::Statistics { .. })) {
            true => ImportError::StatisticsAlone { path: path.to_owned() },
            false => ImportError::Unrecognized { path: path.to_owned() },
        });
    }
    Ok(dump)
}

/// Numbers of a log that have a name.
struct Found {
    line: usize,
    text: String,
    parts: Parts,
    order: Order,
    row: Row,
    printed: Printed,
    note: Option<String>,
}

/// A log while it is read.
struct Log<'a> {
    options: &'a ReadOptions,
    names: Names,
    tokens: Option<Vec<u32>>,
    found: Vec<Found>,
    readings: Vec<Reading>,
    unknown: Vec<String>,
    /// What a heading says of the lines below it, and its line.
    layer: Option<(usize, usize)>,
    row: Option<(usize, usize)>,
    name: Option<(Label, usize)>,
    /// The number of the first layer, where lines say `layer 1/22`; `None` where it can be either.
    layers_count_from: Option<usize>,
}

impl<'a> Log<'a> {
    fn new(options: &'a ReadOptions, text: &str) -> Log<'a> {
        Log {
            options,
            names: Names::for_dump(options, text.lines().filter_map(|line| line.split_whitespace().next())),
            tokens: None,
            found: Vec::new(),
            readings: Vec::new(),
            unknown: Vec::new(),
            layer: None,
            row: None,
            name: None,
            layers_count_from: None,
        }
    }

    fn wiring(&self) -> Option<&Wiring> {
        self.options.wiring.as_deref()
    }

    fn note(&mut self, line: usize, text: &str, made: Made) {
        if self.readings.len() < MAX_READINGS {
            self.readings.push(Reading::new(line, text, made));
        }
    }

    fn unread(&mut self, line: usize, text: &str, reason: &str) {
        self.note(line, text, Made::Unread { reason: reason.to_owned() });
    }

    fn piece(&mut self, piece: &Piece) {
        let Piece { line, text, shape } = piece;
        if let Some(ids) = ids::prompt(text) {
            self.tokens(*line, text, ids);
            return;
        }
        let records = records::of_line(text);
        if !records.is_empty() {
            records.into_iter().for_each(|record| self.record(*line, text, record));
            return;
        }
        match ids::logits(text) {
            Some((at, ById::Logits(cells))) => return self.logits(*line, text, at, cells),
            Some((_, ById::Probabilities)) => {
                return self.unread(*line, text, "these may be probabilities, logits would tell more");
            }
            None => {}
        }
        let mut arrays = arrays(text);
        if arrays.is_empty() {
            arrays.extend(listed(text));
        }
        let mut any = false;
        let mut before = "";
        for (index, (own, mut printed)) in arrays.into_iter().enumerate() {
            if printed.cells.iter().all(|cell| cell.half_unit >= 0.5 && cell.value.is_finite()) {
                // Integers alone are ids, shapes or times.
                continue;
            }
            any = true;
            if index == 0 {
                before = own;
            }
            let label = if index == 0 { Label::of(own) } else { beside(before, own) };
            let Some(label) = label else {
                self.unread(*line, text, "too many words in front of its numbers");
                continue;
            };
            printed.shape = shape.clone().filter(|shape| fits(shape, &printed));
            self.numbers(*line, text, own, label, printed);
        }
        if !any {
            self.heading(*line, text);
        }
    }

    /// A line without numbers: what stands below it may be of the layer, the token or the value that it names.
    fn heading(&mut self, line: usize, text: &str) {
        if statistics(text).is_some() {
            return self.statistics(line, text);
        }
        let Some(label) = Label::of(text) else { return };
        if label.is_place() {
            if let Some(layer) = self.layer_of(&label) {
                (self.layer, self.name) = (Some((layer, line)), None);
            }
            if let Row::At(row) = label.row {
                self.row = Some((row, line));
            }
        } else if text.trim_end().ends_with([':', '=']) || (label.layer.is_some() && label.row != Row::Unsaid) {
            let named = label.meaning(&self.names, self.layer.map(|(layer, _)| layer)).is_some();
            self.name = named.then_some((label, line));
        }
    }

    fn statistics(&mut self, line: usize, text: &str) {
        let label = Label::of(statistics(text).unwrap_or_default());
        let key = label.and_then(|label| Some(label.meaning(&self.names, None)?.0.keys.remove(0).0));
        self.note(line, text, Made::Statistics { key });
    }

    /// The layer that a label says, counted from 0.
    fn layer_of(&self, label: &Label) -> Option<usize> {
        match label.of_layers {
            Some(_) => label.layer?.checked_sub(self.layers_count_from?),
            None => label.layer,
        }
    }

    fn tokens(&mut self, line: usize, text: &str, ids: Vec<u32>) {
        match self.wiring().map(|wiring| wiring.vocab) {
            Some(vocab) if ids.iter().any(|&id| id as usize >= vocab) => {
                let reason = format!("an id is beyond the vocabulary of {vocab}");
                self.unread(line, text, &reason);
            }
            _ if self.tokens.as_ref().is_some_and(|before| *before != ids) => {
                self.unread(line, text, "other ids than an earlier line has, which stand");
            }
            _ => {
                self.note(line, text, Made::Tokens { numbers: ids.len() });
                self.tokens = Some(ids);
            }
        }
    }

    fn record(&mut self, line: usize, text: &str, record: Record) {
        match record {
            Record::Tokens(ids) => self.tokens(line, text, ids),
            Record::Numbers(name, named) => match named.label(&name) {
                Some(label) => {
                    self.numbers(line, if text.is_empty() { &name } else { text }, &name, label, named.printed)
                }
                None => self.unread(line, &name, "its name is prose"),
            },
        }
    }

    fn logits(&mut self, line: usize, text: &str, at: usize, cells: Vec<Cell>) {
        // What stands in front of the ids may say the token.
        let row = Label::of(text.get(..at).unwrap_or_default()).map_or(Row::Unsaid, |label| label.row);
        let row = if matches!(row, Row::Token(_) | Row::Id(_)) { Row::Unsaid } else { row };
        let parts = Parts { keys: vec![(Key::new("result_output", None), 0)], groups: 1 };
        let printed = Printed::new(cells);
        let text = text.to_owned();
        self.found.push(Found { line, text, parts, order: Order::Tokens, row, printed, note: None });
    }

    /// Numbers with the words before them.
    fn numbers(&mut self, line: usize, text: &str, own: &str, mut label: Label, mut printed: Printed) {
        if label.is_statistic() {
            return self.statistics(line, text);
        }
        let mut notes = Vec::new();
        if label.of_layers.is_some() {
            let Some(layer) = self.layer_of(&label) else {
                return self.unread(line, text, "whether layers are counted from 0 or from 1 is not said");
            };
            label.layer = Some(layer);
        }
        if let Some((heading, from)) =
            self.name.clone().filter(|_| label.words.iter().all(|word| label::is_noise(word)) && label.layer.is_none())
        {
            label = label.named(heading);
            notes.push(format!("its name is from line {from}"));
        } else {
            self.name = None;
        }
        let within = self.layer.filter(|_| label.layer.is_none());
        let meaning = label.meaning(&self.names, within.map(|(layer, _)| layer));
        let Some((parts, order)) = meaning else {
            let name = own.trim().trim_end_matches([':', '=', '>', '-']).trim().to_owned();
            if label.words.iter().all(|word| label::is_noise(word)) {
                return self.unread(line, text, "no name of a value");
            }
            self.unread(line, text, "no known name");
            self.unknown.push(name);
            return;
        };
        let in_layer = parts.keys[0].0.layer;
        if label.layer.is_some() {
            self.layer = None;
        } else if let Some((layer, from)) = within.filter(|(layer, _)| in_layer == Some(*layer)) {
            notes.push(format!("layer {layer} is from line {from}"));
        }
        if let Some((row, from)) = self.row.filter(|_| label.row == Row::Unsaid) {
            label.row = Row::At(row);
            notes.push(format!("token {row} is from line {from}"));
        }
        let layers = self.wiring().and_then(Wiring::layers);
        if let (Some(layer), Some(layers)) = (in_layer, layers)
            && layer >= layers
        {
            let reason = format!("the model has no layer {layer}, its layers are 0 to {}", layers.saturating_sub(1));
            return self.unread(line, text, &reason);
        }
        let head = match label.head {
            None => Some(0),
            Some(head) => self.wiring().and_then(|wiring| wiring.head(&parts.keys[0].0)).map(|width| head * width),
        };
        let Some(head) = head.and_then(|head| i64::try_from(head).ok()) else {
            return self.unread(line, text, "how wide a head of it is, is not known");
        };
        label.shift(&mut printed, head);
        let note = (!notes.is_empty()).then(|| notes.join(", "));
        self.found.push(Found { line, text: text.to_owned(), parts, order, row: label.row, printed, note });
    }

    /// Puts the numbers where they belong, once all tokens are known.
    fn place(mut self, dump: &mut Dump) {
        // The user may know the prompt alone, and the log what was decoded after it.
        let own = self.tokens.clone();
        let longer = own.filter(|own| self.options.tokens.as_ref().is_none_or(|given| own.starts_with(given)));
        let tokens = longer.or_else(|| self.options.tokens.clone());
        let rows = Rows::of(&self.found, tokens.as_deref());
        let mut gather = Gather::default();
        for mut found in std::mem::take(&mut self.found) {
            let Found { line, ref text, .. } = found;
            let text = text.clone();
            let (token, note) = match rows.token(found.row) {
                Ok(token) => token,
                Err(reason) => {
                    self.unread(line, &text, &reason);
                    continue;
                }
            };
            found.printed.row = match found.row {
                Row::Unsaid => RowSaid::Nothing,
                Row::Last => RowSaid::Last,
                _ => RowSaid::Token(0),
            };
            let count = found.printed.cells.len();
            let (key, order) = (found.parts.keys[0].0.clone(), found.order);
            let deep = found.printed.rows() > 1 || found.printed.shape.is_some();
            let laid = found.printed.evidence(&key, order, tokens.as_ref().map(Vec::len));
            let parts = laid.and_then(|evidence| place::apart(evidence, &found.parts));
            let made = parts.map_err(|reason| Made::Unread { reason }).and_then(|parts| {
                for (key, evidence) in &parts {
                    let at = |row: i64| match (&evidence.rows, token) {
                        _ if !deep => token,
                        (Some(list), _) => usize::try_from(row)
                            .ok()
                            .and_then(|row| list.get(row))
                            .map_or(token, |&row| Token::At(row as i64)),
                        (None, _) => Token::At(row),
                    };
                    let added = gather.add(key, evidence, line, at, self.options.wiring.as_deref());
                    added.map_err(|reason| Made::Contradiction { key: key.clone(), reason })?;
                }
                Ok(parts)
            });
            let made = made.map_or_else(
                |made| made,
                |parts| {
                    let notes = [found.note, note].into_iter().flatten().collect::<Vec<_>>().join(", ");
                    let rows = said(&parts[0].1, deep, token, tokens.as_ref().map(Vec::len));
                    let note = (!notes.is_empty()).then_some(notes);
                    Made::Value { key: parts[0].0.clone(), rows, numbers: count, note }
                },
            );
            self.note(line, &text, made);
        }
        self.readings.sort_by_key(|reading| reading.line);
        let (known, unsaid) = gather.finish();
        dump.known.extend(known);
        // With one token alone there is nothing to be said.
        dump.unsaid.extend(unsaid.into_iter().filter(|_| tokens.as_ref().is_none_or(|tokens| tokens.len() > 1)));
        dump.origin.tokens = self.tokens;
        dump.unknown = self.unknown;
        dump.readings = self.readings;
    }
}

/// The rows of numbers in words.
fn said(evidence: &crate::Evidence, deep: bool, token: Token, tokens: Option<usize>) -> String {
    match (deep, token, &evidence.rows) {
        (true, _, Some(rows)) if rows.len() > 1 => format!("rows {} to {}", rows[0], rows[rows.len() - 1]),
        (true, _, Some(rows)) if rows.len() == 1 => format!("row {}", rows[0]),
        (true, ..) => "rows from both ends".to_owned(),
        (_, Token::At(row), _) if row < 0 => "the last row".to_owned(),
        (_, Token::At(row), _) => format!("row {row}"),
        (_, Token::Unsaid, _) if tokens == Some(1) => "row 0".to_owned(),
        (_, Token::Unsaid, _) => "a row that is not said".to_owned(),
    }
}

/// How the tokens that lines name are counted.
struct Rows<'a> {
    tokens: Option<&'a [u32]>,
    /// What `token 3` is; `None` where that cannot be known.
    counted: Option<Counted>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    /// The fourth token.
    Index,
    /// The token with the id 3.
    Id,
}

impl<'a> Rows<'a> {
    /// Decides for all lines in one whether they count tokens or name them.
    fn of(found: &[Found], tokens: Option<&'a [u32]>) -> Rows<'a> {
        let named: std::collections::BTreeSet<usize> = found
            .iter()
            .filter_map(|found| if let Row::Token(token) = found.row { Some(token) } else { None })
            .collect();
        let Some(ids) = tokens else { return Rows { tokens, counted: Some(Counted::Index) } };
        let index = named.iter().all(|&token| token < ids.len());
        let id = named.iter().all(|&token| ids.iter().any(|&id| id as usize == token));
        let same = named.iter().all(|&token| ids.get(token).is_some_and(|&id| id as usize == token));
        // A count from 0 on, of at least two.
        let run = named.len() > 1 && named.iter().enumerate().all(|(index, &token)| index == token);
        let counted = match (index, id) {
            (true, false) => Some(Counted::Index),
            (false, true) => Some(Counted::Id),
            (true, true) if same || run => Some(Counted::Index),
            _ => None,
        };
        Rows { tokens, counted }
    }

    /// The token of a row, and what was concluded.
    fn token(&self, row: Row) -> Result<(Token, Option<String>), String> {
        let place = |id: usize| {
            let ids = self.tokens.ok_or("which tokens went in is not known")?;
            let mut places = ids.iter().enumerate().filter(|(_, token)| **token as usize == id);
            let (place, _) = places.next().ok_or_else(|| format!("no token has the id {id}"))?;
            Ok::<_, String>((Token::At(place as i64), Some(format!("the token with the id {id}"))))
        };
        let known = self.tokens.map(<[u32]>::len);
        let within = |token: usize| match known {
            Some(count) if token >= count => Err(format!("it is of token {token}, there are {count}")),
            _ => Ok(Token::At(token as i64)),
        };
        match (row, self.counted) {
            (Row::Unsaid, _) if known == Some(1) => Ok((Token::At(0), None)),
            (Row::Unsaid, _) => Ok((Token::Unsaid, None)),
            (Row::Last, _) => Ok((Token::At(-1), None)),
            (Row::At(token), _) => Ok((within(token)?, None)),
            (Row::Id(id), _) => place(id),
            (Row::Token(token), Some(Counted::Index)) => {
                let by_count = self.tokens.is_some_and(|ids| ids.get(token).is_none_or(|&id| id as usize != token));
                Ok((within(token)?, by_count.then(|| format!("token {token} is counted, no id"))))
            }
            (Row::Token(id), Some(Counted::Id)) => place(id),
            (Row::Token(token), None) => {
                Err(format!("token {token} can be counted and can be an id: say pos {token} or token id {token}"))
            }
        }
    }
}

/// `label: 0.1 0.2 0.3`: numbers after the first colon, equals sign or arrow that has some.
fn listed(line: &str) -> Option<(&str, Printed)> {
    let marks = line.match_indices([':', '=']).chain(line.match_indices("->"));
    marks.into_iter().find_map(|(at, mark)| {
        let cells: Vec<Cell> = line[at + mark.len()..]
            .trim_start_matches('>')
            .split(|c: char| c.is_whitespace() || c == ',')
            .filter(|word| !word.is_empty())
            .zip(0_i64..)
            .map_while(|(word, index)| Cell::parse(&[index], word))
            .collect();
        (cells.len() > 1).then(|| (&line[..at], Printed::new(cells)))
    })
}

/// The label of a further array on a line: its own words in the place of the last word of the first.
fn beside(first: &str, own: &str) -> Option<Label> {
    let first = first.trim_end().trim_end_matches(['=', ':', ' ']);
    let place = first.rfind(char::is_whitespace).map_or("", |at| &first[..at]);
    Label::of(&format!("{place} {own}"))
}

/// The words before a line's first statistic, if it has some.
fn statistics(text: &str) -> Option<&str> {
    let marks = |c: char| c.is_whitespace() || "=:,()[]|/".contains(c);
    let mut said = None;
    let mut start = 0;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        if !marks(c) {
            continue;
        }
        let word = text[start..at].to_ascii_lowercase();
        if label::STATISTICS.contains(&word.as_str()) {
            said = said.or(Some(start));
        } else if said.is_some() && word.contains('.') && word.parse::<f64>().is_ok() {
            return said.map(|said| &text[..said]);
        }
        start = at + c.len_utf8();
    }
    None
}

/// Whether a shape can be that of printed numbers.
fn fits(shape: &[usize], printed: &Printed) -> bool {
    printed.cells.iter().all(|cell| super::printed::position(&cell.at, shape).is_some())
}

/// The number of the first layer, where lines say `layer 1/22`.
fn first_layer(text: &str) -> Option<usize> {
    let lower = text.to_ascii_lowercase();
    let mut places = lower.match_indices("layer ").filter_map(|(at, word)| {
        let said = lower[at + word.len()..].split(|c: char| !c.is_ascii_digit() && c != '/').next()?;
        let (layer, of) = said.split_once('/')?;
        Some((layer.parse::<usize>().ok()?, of.parse::<usize>().ok()?))
    });
    places.find_map(|(layer, of)| match layer {
        0 => Some(0),
        _ if layer == of => Some(1),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, tokens: Option<&[u32]>) -> (Vec<String>, Dump) {
        let options = ReadOptions { tokens: tokens.map(<[u32]>::to_vec), ..ReadOptions::default() };
        let mut log = Log::new(&options, text);
        log.layers_count_from = first_layer(text);
        pieces(text).iter().for_each(|piece| log.piece(piece));
        let mut dump = Dump::of(FORMAT);
        log.place(&mut dump);
        (dump.readings.iter().map(ToString::to_string).collect(), dump)
    }

    #[test]
    fn every_line_says_how_it_was_read() {
        let ids = &[1_u32, 15043, 3186][..];
        for (text, expected) in [
            ("Layer 21: [0.581, 1.059, -1.031]", "line 1: l_out-21, a row that is not said (3 numbers)"),
            ("Layer 3/4: [0.5, 0.25]", "not read, whether layers are counted from 0 or from 1 is not said"),
            ("layer 2 attn_norm pos 2: 0.5 0.25", "line 1: attn_norm-2, row 2 (2 numbers)"),
            ("Token 15043 embedding: [0.5, 0.25]", "inp_embd, row 1 (2 numbers): the token with the id 15043"),
            ("Token 2 embedding: [0.5, 0.25]", "inp_embd, row 2 (2 numbers): token 2 is counted, no id"),
            ("Token 1 embedding: [0.5, 0.25]", "token 1 can be counted and can be an id"),
            ("Token 9 embedding: [0.5, 0.25]", "not read, token 9 can be counted"),
            ("layer 0 q pos 7: [0.5, 0.25]", "not read, it is of token 7, there are 3"),
            ("#1: token=485 (\"av\") logit=8.5582", "result_output, a row that is not said (1 numbers)"),
            ("Layer 3: mean=0.02, rms=0.98, range=[-1.5, 2.5]", "line 1: statistics of l_out-3"),
            ("Layer 3: mean=0.02, rms=0.98", "line 1: statistics of l_out-3"),
            ("mystery: [0.5, 0.25]", "line 1: not read, no known name: mystery: [0.5, 0.25]"),
            ("logits (last token) = [1.5, 2.5]", "line 1: result_output, the last row (2 numbers)"),
            ("layer 0 q=[0.5, 0.25] k=[1.5, 2.5]", "line 1: Kcur.mul_mat-0"),
        ] {
            let (readings, _) = read(text, Some(ids));
            assert!(readings.iter().any(|reading| reading.contains(expected)), "{text}: {readings:?}");
        }
    }

    #[test]
    fn headings_say_layer_token_and_name() {
        let text =
            "=== Layer 1 ===\npos 2:\n  q: [0.5, 0.25]\nEmbeddings:\n token 0 -> [1.5, 2.5]\n token 1 -> [3.5, 4.5]";
        let (readings, dump) = read(text, None);
        assert!(readings[0].contains("Qcur.mul_mat-1, row 2 (2 numbers): layer 1 is from line 1"), "{readings:?}");
        let embedding = &dump.known.iter().find(|(key, _)| key.name == "inp_embd").unwrap().1;
        assert_eq!(embedding.rows, Some(vec![0, 1]), "{readings:?}");
    }

    #[test]
    fn contradictions_name_both_lines() {
        let (readings, dump) = read("layer 0 q pos 1: 0.5 0.25\nprose\nlayer 0 q pos 1: 0.5 0.75", None);
        assert!(
            readings[1].starts_with("line 3: Qcur.mul_mat-0 left out, line 1 has 0.25 where this has 0.75"),
            "{readings:?}"
        );
        assert_eq!(dump.known.len(), 1);
    }

    #[test]
    fn prose_and_other_lines_say_nothing() {
        for text in [
            "shape: [4, 64]",
            "llama_perf_context_print: load time = 12.34 ms",
            "0.5 0.25",
            "The model has [0.5 B] parameters",
            "Progress: [=====>   ] 50%",
            "[12:30:01] loaded",
        ] {
            let (readings, dump) = read(text, None);
            assert!(dump.known.is_empty() && readings.is_empty(), "{text}: {readings:?}");
        }
    }
}
