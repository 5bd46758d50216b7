//! The words around printed numbers: which value they name, of which layer and which token, and what they leave open.

use super::super::printed::Printed;
use crate::{
    Key,
    names::{Meaning, Names, Order, Parts, Spelling},
};

/// Words that may stand around a name and say nothing of which value it is.
const NOISE: [&str; 44] = [
    "debug",
    "info",
    "trace",
    "log",
    "dump",
    "value",
    "values",
    "vals",
    "elements",
    "elems",
    "dims",
    "few",
    "sample",
    "slice",
    "shape",
    "at",
    "for",
    "of",
    "the",
    "in",
    "is",
    "tensor",
    "vector",
    "activation",
    "activations",
    "f32",
    "print",
    "array",
    "first",
    "numbers",
    "floats",
    "data",
    "float32",
    "cpu",
    "check",
    "rust",
    "ours",
    "candle",
    "mlx",
    "torch",
    "pytorch",
    "result",
    "step",
    "got",
];
/// Words before printed numbers; longer labels are prose.
const MAX_WORDS: usize = 14;
/// Words of a label that all say that a layer is over.
const OUTPUTS: [&str; 12] =
    ["after", "hidden", "state", "states", "output", "out", "x", "residual", "stream", "end", "h", "block"];
/// Words that a number follows which says something of the numbers before it, not one of them.
pub(super) const STATISTICS: [&str; 21] = [
    "mean",
    "avg",
    "average",
    "rms",
    "std",
    "stddev",
    "var",
    "variance",
    "min",
    "max",
    "range",
    "sum",
    "norm_l2",
    "l2",
    "absmax",
    "max_value",
    "min_value",
    "median",
    "nonzero",
    "abs_max",
    "stats",
];

/// Marks of an operation in front of a name, and what the name of such a value has in it.
const MARKS: [(&[&str], &[&str]); 5] = [
    (&["rms_norm", "rmsnorm", "layernorm", "layer_norm", "norm"], &["norm"]),
    (&["embed", "embedding", "embeddings"], &["inp_embd"]),
    (&["ffn", "mlp", "feed_forward"], &["ffn"]),
    (&["attn", "attention", "qkv"], &["cur", "kq", "attn"]),
    (&["lm_head", "output", "sampler", "sampling"], &["result"]),
];

/// What a text says about which token a row is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Row {
    /// Nothing.
    #[default]
    Unsaid,
    /// `pos 3`.
    At(usize),
    /// `token 3`: the fourth token, or the one with the id 3.
    Token(usize),
    /// `token id 3`.
    Id(usize),
    /// `last token`.
    Last,
}

/// Words around numbers, taken apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Label {
    /// Those that may be a name.
    pub(super) words: Vec<String>,
    pub(super) row: Row,
    /// Whether the numbers are the end of the row.
    tail: bool,
    /// The column of the first number.
    from: i64,
    /// The layer, where a word like `layer` says it.
    pub(super) layer: Option<usize>,
    /// The head, where the numbers are of one alone.
    pub(super) head: Option<usize>,
    /// Of how many layers it is the one: `layer 3/22`.
    pub(super) of_layers: Option<usize>,
}

impl Label {
    /// Takes a text apart; `None` where it is prose.
    pub(super) fn of(text: &str) -> Option<Label> {
        let mut label = Label::default();
        let text = label.without_ranges(text);
        let marks = |c: char| c.is_whitespace() || "=:,()\"'|*`{}".contains(c);
        let words: Vec<String> = text
            .split(marks)
            .map(|word| word.trim_matches(|c: char| "[].#>-<!;".contains(c)).to_owned())
            .filter(|word| !word.is_empty() && !is_sign(word))
            .collect();
        if words.len() > MAX_WORDS {
            return None;
        }
        label.take(&words);
        Some(label)
    }

    /// Reads `[0..5]`, `[:8]` and `[0, -1, :5]`, and cuts them out.
    fn without_ranges(&mut self, text: &str) -> String {
        let mut rest = text;
        let mut kept = String::new();
        while let Some(start) = rest.find('[') {
            let Some(end) = rest[start..].find(']').map(|end| start + end) else { break };
            let inside = &rest[start + 1..end];
            let indices: Vec<&str> = inside.split(',').map(str::trim).collect();
            let range = indices.last().and_then(|last| range(last));
            kept.push_str(&rest[..start]);
            match range {
                Some(from) => {
                    self.from = from.max(0);
                    self.tail = from < 0;
                    // The index before the range is the row, all others are batches.
                    match indices.len().checked_sub(2).map(|at| indices[at].parse::<i64>()) {
                        Some(Ok(-1)) => self.row = Row::Last,
                        Some(Ok(row)) => self.row = usize::try_from(row).map_or(Row::Unsaid, Row::At),
                        _ => {}
                    }
                    kept.push(' ');
                }
                None => kept.push_str(&rest[start..=end]),
            }
            rest = &rest[end + 1..];
        }
        kept + rest
    }

    /// Takes out of the words what is not the name.
    fn take(&mut self, words: &[String]) {
        let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
        let number = |at: usize| lower.get(at).and_then(|word| word.parse::<usize>().ok());
        let is = |at: usize, all: &[&str]| lower.get(at).is_some_and(|word| all.contains(&word.as_str()));
        let mut at = 0;
        while let Some(word) = lower.get(at) {
            let (own, digits) = word.split_at(word.find(|c: char| c.is_ascii_digit()).unwrap_or(word.len()));
            let attached = digits.parse::<usize>().ok();
            let start = at;
            at += 1;
            match word.as_str() {
                "first" | "top" => at += usize::from(number(at).is_some()),
                "last" if number(at).is_some() => (self.tail, at) = (true, at + 1),
                "last" if is(at, &["token", "tok", "pos", "position", "row"]) => (self.row, at) = (Row::Last, at + 1),
                "last" if !is(at, &["layer", "values", "hidden"]) => self.row = Row::Last,
                "pos" | "position" | "row" | "t" | "seq_pos" | "idx" if number(at).is_some() => {
                    (self.row, at) = (number(at).map_or(self.row, Row::At), at + 1);
                }
                "token" | "tok" if is(at, &["id"]) && number(at + 1).is_some() => {
                    (self.row, at) = (number(at + 1).map_or(self.row, Row::Id), at + 2);
                }
                "token_id" | "id" if number(at).is_some() => {
                    (self.row, at) = (number(at).map_or(self.row, Row::Id), at + 1);
                }
                "token" | "tok" if is(at, &["pos", "position", "index", "at"]) => {}
                "token" | "tok" if number(at).is_some() => {
                    // `pos 3 token 15043` says both; the position is the row.
                    if !matches!(self.row, Row::At(_)) {
                        self.row = number(at).map_or(self.row, Row::Token);
                    }
                    at += 1;
                }
                "head" | "q_head" | "k_head" | "v_head" if number(at).is_some() => {
                    // Heads of keys are shown as they are in the cache.
                    let name = ["q_head", "k_head", "v_head"].into_iter().zip(["q_rope", "k_cache", "v_cache"]);
                    self.words.extend(name.filter(|(head, _)| head == word).map(|(_, name)| name.to_owned()));
                    (self.head, at) = (number(at), at + 1);
                }
                "layer" | "blk" | "block" | "layer_idx" | "il" if number(at).is_some() => {
                    (self.layer, at) = (number(at), at + 1);
                }
                "layer" if lower.get(at).is_some_and(|next| next.contains('/')) => {
                    let (layer, of) = lower[at].split_once('/').unwrap_or_default();
                    match (layer.parse(), of.parse()) {
                        (Ok(layer), Ok(of)) => {
                            (self.layer, self.of_layers, at) = (Some(layer), Some(of), at + 1);
                        }
                        _ => self.words.push(words[start].clone()),
                    }
                }
                _ if matches!(own, "pos" | "row") && attached.is_some() => {
                    self.row = attached.map_or(self.row, Row::At);
                }
                _ if matches!(own, "token" | "tok") && attached.is_some() => {
                    self.row = attached.map_or(self.row, Row::Token);
                }
                _ if own == "layer" && attached.is_some() => self.layer = attached,
                _ => self.words.push(words[start].clone()),
            }
        }
    }

    /// Whether a word of it says that the numbers are no elements.
    pub(super) fn is_statistic(&self) -> bool {
        self.words.last().is_some_and(|word| STATISTICS.contains(&word.to_ascii_lowercase().as_str()))
    }

    /// Whether it names nothing but a layer or a token.
    pub(super) fn is_place(&self) -> bool {
        self.words.iter().all(|word| is_noise(word)) && (self.layer.is_some() || self.row != Row::Unsaid)
    }

    /// The same place with the name of a heading.
    pub(super) fn named(self, heading: Label) -> Label {
        let row = if self.row == Row::Unsaid { heading.row } else { self.row };
        Label { words: heading.words, layer: heading.layer, head: self.head.or(heading.head), row, ..self }
    }

    /// Moves numbers to the columns that the label says.
    pub(super) fn shift(&self, printed: &mut Printed, head: i64) {
        let count = printed.cells.len() as i64;
        let by = if self.tail { -count } else { self.from.saturating_add(head) };
        for cell in &mut printed.cells {
            if let Some(column) = cell.at.last_mut().filter(|column| **column >= 0) {
                *column = column.saturating_add(by);
            }
        }
    }

    /// The value that it names: the longest run of words that is a known name, where all that stands around it is noise. A
    /// line about the gate of an expert is not one about the gate. `within` is the layer of a heading above.
    pub(super) fn meaning(&self, names: &Names, within: Option<usize>) -> Option<(Parts, Order)> {
        self.named_value(names, within).or_else(|| {
            // `[RMS_NORM] attn_norm`: a mark of the operation in front of a name that is of its kind.
            let (mark, words) = self.words.split_first().filter(|(_, words)| !words.is_empty())?;
            let (_, kinds) = MARKS.iter().find(|(marks, _)| marks.contains(&mark.to_ascii_lowercase().as_str()))?;
            let unmarked = Label { words: words.to_vec(), ..self.clone() };
            let found = unmarked.named_value(names, within)?;
            kinds.iter().any(|kind| found.0.keys[0].0.name.contains(kind)).then_some(found)
        })
    }

    fn named_value(&self, names: &Names, within: Option<usize>) -> Option<(Parts, Order)> {
        // The layer as its own word is the name's, unless the name has another.
        let text = self.words.join(" ");
        let own = self.layer.or(Spelling::of(&text).layer);
        let layer = own.or(within);
        let lower: Vec<String> = self.words.iter().map(|word| word.to_ascii_lowercase()).collect();
        if self.layer.is_some() && lower.iter().all(|word| OUTPUTS.contains(&word.as_str()) || is_noise(word)) {
            return Some((one(Key::new("l_out", self.layer)), Order::Tokens));
        }
        let count = self.words.len();
        let mut runs =
            (1..=count).rev().flat_map(|length| (0..=count - length).map(move |start| start..start + length));
        runs.find_map(|run| {
            let around = [&self.words[..run.start], &self.words[run.end..]].concat().join(" ");
            let quiet = Spelling::of(&around).words.iter().all(|word| word == "layer" || is_noise(word));
            let text = self.words[run].join(" ");
            let mut spelling = Spelling::of(&text);
            // A layer alone is the rest of a name; as a module's path it is the layer's output.
            if !quiet || (spelling.words == ["layer"] && !text.contains("layers.")) {
                return None;
            }
            let whole = value(names.meaning(&text));
            let whole =
                whole.filter(|(parts, _)| layer.is_none() || parts.keys.iter().all(|(key, _)| key.layer.is_some()));
            spelling.layer = spelling.layer.or(layer);
            let found = whole.or_else(|| value(names.spelled(&spelling)));
            // Under the heading of a layer stands what no layer has only where its name leaves no doubt.
            let plain = || value(names.meaning(&text)).filter(|_| own.is_none() && is_of_no_layer(&text));
            found.or_else(plain)
        })
    }
}

/// Whether a name is that of a value without a layer, whatever stands above it.
fn is_of_no_layer(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["logit", "final", "embed", "lm_head", "result_", "embd", "ln_f", "output_norm"]
        .iter()
        .any(|word| text.contains(word))
}

/// The first index of `0..5`, `:8`, `..=3` or `-5:`.
fn range(text: &str) -> Option<i64> {
    let (from, to) = text.split_once("..").or_else(|| text.split_once(':'))?;
    let to = to.trim_start_matches('=').trim();
    if !to.is_empty() && to.parse::<i64>().is_err() {
        return None;
    }
    if from.trim().is_empty() { Some(0) } else { from.trim().parse().ok() }
}

fn is_sign(word: &str) -> bool {
    word.chars().all(|c| !c.is_alphanumeric())
}

pub(super) fn is_noise(word: &str) -> bool {
    NOISE.contains(&word.to_ascii_lowercase().as_str()) || !word.chars().any(char::is_alphabetic)
}

fn one(key: Key) -> Parts {
    Parts { keys: vec![(key, 0)], groups: 1 }
}

fn value(meaning: Meaning) -> Option<(Parts, Order)> {
    match meaning {
        Meaning::Value(key, order) => Some((one(key), order)),
        Meaning::Parts(parts) => Some((parts, Order::Tokens)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> (Option<String>, Row) {
        let label = Label::of(text).unwrap();
        (label.meaning(&Names::default(), None).map(|(parts, _)| parts.keys[0].0.to_string()), label.row)
    }

    #[test]
    fn labels_read() {
        for (text, name, row) in [
            ("Layer 21:", Some("l_out-21"), Row::Unsaid),
            ("Hidden state after layer 5 (first 8):", Some("l_out-5"), Row::Unsaid),
            ("[DEBUG] Layer 3 attn_norm: first 2 =", Some("attn_norm-3"), Row::Unsaid),
            ("L2 K after RoPE pos 3:", Some("Kcur-2"), Row::At(3)),
            ("Token 1 embedding[0..5]:", Some("inp_embd"), Row::Token(1)),
            ("Embedding (token id 15043):", Some("inp_embd"), Row::Id(15043)),
            ("logits (last token) =", Some("result_output"), Row::Last),
            ("logits[0, -1, :5] =", Some("result_output"), Row::Last),
            ("hidden_states[0, 3, :5]", None, Row::At(3)),
            ("model.layers.0.self_attn.q_proj:", Some("Qcur.mul_mat-0"), Row::Unsaid),
            ("blk.0 attn_norm token 2 =>", Some("attn_norm-0"), Row::Token(2)),
            ("[RMS_NORM] pos=0", None, Row::At(0)),
            ("[RMS_NORM] pos=0 layer=1 attn_norm=", Some("attn_norm-1"), Row::At(0)),
            ("[RMS_NORM] pos=0 layer=1 ffn_up=", None, Row::At(0)),
            ("layer 0 expert gate:", None, Row::Unsaid),
            ("blk.1 mystery:", None, Row::Unsaid),
            ("Layer 3 range=", None, Row::Unsaid),
        ] {
            assert_eq!(named(text), (name.map(str::to_owned), row), "{text}");
        }
    }

    #[test]
    fn headings_lend_their_layer() {
        for (text, expected) in [
            ("q:", Some("Qcur.mul_mat-4")),
            ("Final norm:", Some("result_norm")),
            ("logits:", Some("result_output")),
            ("layer 2 q:", Some("Qcur.mul_mat-2")),
        ] {
            let found = Label::of(text).unwrap().meaning(&Names::default(), Some(4));
            assert_eq!(found.map(|(parts, _)| parts.keys[0].0.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn ranges_move_the_columns() {
        for (text, expected) in [("x[2..4]", vec![2, 3]), ("x[:2]", vec![0, 1]), ("x last 2", vec![-2, -1])] {
            let mut printed = Printed::parse("[0.5, 0.25]").unwrap();
            Label::of(text).unwrap().shift(&mut printed, 0);
            assert_eq!(printed.cells.iter().map(|cell| cell.at[0]).collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
