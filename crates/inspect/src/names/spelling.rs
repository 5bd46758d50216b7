//! A name taken apart: lower-case words, the layer, and whether it is a module's input or output.

/// The words of a name without its layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spelling {
    pub(crate) words: Vec<String>,
    pub(crate) layer: Option<usize>,
    /// Whether it is of a stack of layers that reads for another.
    pub(super) encodes: bool,
}

/// Which end of a module a name speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Output,
    /// The second output: the stream, where a norm adds to it first and a layer leaves its last sum to the next.
    Stream,
    Input,
    Unsaid,
}

/// Words before a layer's number.
const LAYER: [&str; 7] = ["layer", "layers", "blk", "block", "blocks", "l", "h"];
/// Words that open a module path and say nothing.
const WRAPPERS: [&str; 18] = [
    "model",
    "transformer",
    "module",
    "base",
    "orig",
    "mod",
    "language",
    "decoder",
    "gpt",
    "neox",
    "bert",
    "roberta",
    "distilbert",
    "backbone",
    "rwkv",
    "text",
    "fsdp",
    "wrapped",
];

impl Spelling {
    /// Takes a name apart at everything that is neither letter nor digit.
    pub(crate) fn of(name: &str) -> Spelling {
        let mut words = split(name);
        // A path of wrappers alone is the whole model, whose output is not one value.
        while words.len() > 1
            && is_wrapper(&words[0])
            && !words[1..].iter().all(|word| is_side(word) || is_argument(word))
        {
            words.remove(0);
        }
        let encodes = words.len() > 1 && matches!(words[0].as_str(), "encoder" | "enc");
        if encodes {
            words.remove(0);
        }
        let mut layer = None;
        if let Some(at) =
            (1..words.len()).find(|&at| LAYER.contains(&words[at - 1].as_str()) && number(&words[at]).is_some())
        {
            layer = number(&words[at]);
            words.drain(at - 1..=at);
            // A path that ended with the layer is the layer's own output.
            if words.iter().all(|word| is_side(word) || is_argument(word) || word == "1") {
                words.insert(0, "layer".to_owned());
            }
        } else if words.len() > 1
            && !words.iter().any(|word| is_side(word))
            && let Some(index) = words.last().and_then(|word| number(word))
        {
            layer = Some(index);
            words.pop();
        }
        Spelling { words, layer, encodes }
    }

    /// Splits off the words that name an end of a module: `o_proj.input`, `mlp_outputs_0`.
    pub(super) fn side(&self) -> (Side, &[String]) {
        let Some(at) = self.words.iter().rposition(|word| is_side(word)) else { return (Side::Unsaid, &self.words) };
        let after = &self.words[at + 1..];
        let first = after.iter().all(|word| is_argument(word));
        match self.words[at].as_str() {
            "output" | "outputs" if after == ["1"] => (Side::Stream, &self.words[..at]),
            _ if !first => (Side::Unsaid, &self.words),
            "input" | "inputs" | "in" => (Side::Input, &self.words[..at]),
            _ => (Side::Output, &self.words[..at]),
        }
    }
}

fn is_side(word: &str) -> bool {
    matches!(word, "input" | "inputs" | "in" | "output" | "outputs" | "out")
}

/// Words that say which of a module's inputs or outputs it is, as long as it is the first.
fn is_argument(word: &str) -> bool {
    matches!(word, "0" | "args" | "kwargs" | "hidden" | "states")
}

fn is_wrapper(word: &str) -> bool {
    WRAPPERS.contains(&word) || (word.len() > 8 && (word.ends_with("forcausallm") || word.ends_with("model")))
}

fn number(word: &str) -> Option<usize> {
    // Longer numbers are addresses or times, no layers.
    (word.len() <= 4 && word.bytes().all(|byte| byte.is_ascii_digit())).then(|| word.parse().ok()).flatten()
}

fn split(name: &str) -> Vec<String> {
    let lower = name.to_ascii_lowercase();
    let mut words = Vec::new();
    for word in lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        // `layer12` and `l0` are a word and a number; `w1` and `ln2` are names.
        let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
        if letters.len() < word.len() && LAYER.contains(&letters) {
            words.push(letters.to_owned());
            words.push(word[letters.len()..].to_owned());
        } else {
            words.push(word.to_owned());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_found() {
        for (name, words, layer) in [
            ("model.layers.12.mlp.up_proj", "mlp up proj", Some(12)),
            ("Layer 3 attn_norm", "attn norm", Some(3)),
            ("l0_q", "q", Some(0)),
            ("ffn.w1", "ffn w1", None),
            ("Qcur_7", "qcur", Some(7)),
            ("layers.2", "layer", Some(2)),
            ("layer_2_output", "layer output", Some(2)),
            ("x_123456", "x 123456", None),
        ] {
            let found = Spelling::of(name);
            assert_eq!((found.words.join(" ").as_str(), found.layer), (words, layer), "{name}");
        }
    }
}
