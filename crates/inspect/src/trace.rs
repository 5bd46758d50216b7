//! Traces in memory: which values of a pass are known, and how exactly. Files are `crate::file`, other engines' dumps
//! `crate::import`.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The name of a value: llama.cpp's, with the layer where it has one. Reads and prints as `Qcur-0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `Qcur`; a dot sets off the operation where one name has several, `Qcur.mul_mat`.
    pub name: String,
    /// The layer, counted from 0.
    pub layer: Option<usize>,
}

impl Key {
    /// A value of a layer, or of none.
    pub fn new(name: impl Into<String>, layer: Option<usize>) -> Key {
        Key { name: name.into(), layer }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.layer {
            Some(layer) => write!(f, "{}-{layer}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl FromStr for Key {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Key, Self::Err> {
        Ok(match text.rsplit_once('-').map(|(name, layer)| (name, layer.parse())) {
            Some((name, Ok(layer))) => Key::new(name, Some(layer)),
            _ => Key::new(text, None),
        })
    }
}

impl Serialize for Key {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        String::deserialize(deserializer).map(|text| text.parse().unwrap_or_else(|never| match never {}))
    }
}

/// Where a trace comes from. All of it is optional: other engines' dumps say little.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The program, with its version: `candor 0.1.0`.
    pub engine: Option<String>,
    /// Where it ran: `cpu, avx2 kernels, 2 threads`.
    pub backend: Option<String>,
    /// The model's name.
    pub model: Option<String>,
    /// SHA-256 of the model file, in hexadecimal.
    pub model_sha256: Option<String>,
    /// The prompt as text.
    pub prompt: Option<String>,
    /// Token ids, prompt and then what was decoded, `[T]`.
    pub tokens: Option<Vec<u32>>,
    /// Tokens that were evaluated together as the prompt; the rest came one by one.
    pub prompt_tokens: Option<usize>,
    /// Position of each token, `[T]`, where they are not 0, 1, 2...
    pub positions: Option<Vec<u32>>,
    /// Token ids of the text that an encoder read, which the tokens answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Vec<u32>>,
    /// The formats that keys and values were kept in: `["f16", "q4_0"]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<[String; 2]>,
}

/// What is known of one value.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Elements per row; 0 where the dump does not say.
    pub width: usize,
    /// Index into the tokens that each row stands for; `None` where the dump does not say which rows it holds.
    pub rows: Option<Vec<usize>>,
    /// The elements.
    pub known: Known,
    /// Sum over all elements, where the dump has one (llama.cpp's text does).
    pub sum: Option<f64>,
    /// Half a unit of the last printed place; 0 where values are exact floats.
    pub precision: f64,
}

/// Elements of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// All, `[rows, width]`. Attention scores are `[rows, heads * positions]`: per token, head after head.
    All(Vec<f32>),
    /// Some: row (an index into `rows`), column, value. Negative rows and columns count from the end, as truncated
    /// dumps of unknown width do.
    Some(Vec<(i64, i64, f32)>),
}

impl Evidence {
    /// A complete value whose rows are the tokens from the first on.
    pub fn all(width: usize, values: Vec<f32>) -> Evidence {
        let rows = values.len().checked_div(width).unwrap_or(0);
        Evidence { width, rows: Some((0..rows).collect()), known: Known::All(values), sum: None, precision: 0.0 }
    }

    /// The values if every element of exactly the tokens `0..tokens` is known.
    pub fn dense(&self, tokens: usize, width: usize) -> Option<&[f32]> {
        let Known::All(values) = &self.known else { return None };
        let rows = self.rows.as_ref()?;
        let in_order = rows.len() == tokens && rows.iter().enumerate().all(|(index, &row)| index == row);
        (in_order && self.width == width && self.precision == 0.0 && values.len() == tokens * width)
            .then_some(values.as_slice())
    }
}

/// Named values of a pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Where it comes from.
    pub origin: Origin,
    /// What is known.
    pub values: BTreeMap<Key, Evidence>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_as_they_print() {
        for (text, name, layer) in [
            ("Qcur-0", "Qcur", Some(0)),
            ("Qcur.mul_mat-12", "Qcur.mul_mat", Some(12)),
            ("result_norm", "result_norm", None),
            ("a-b", "a-b", None),
        ] {
            let key: Key = text.parse().unwrap();
            assert_eq!((key.name.as_str(), key.layer), (name, layer));
            assert_eq!(key.to_string(), text);
        }
    }

    #[test]
    fn only_complete_exact_values_are_dense() {
        let all = Evidence::all(2, vec![1.0; 6]);
        assert!(all.dense(3, 2).is_some());
        assert!(all.dense(2, 3).is_none());
        assert!(Evidence { rows: Some(vec![2, 1, 0]), ..all.clone() }.dense(3, 2).is_none());
        assert!(Evidence { precision: 5e-5, ..all.clone() }.dense(3, 2).is_none());
        assert!(Evidence { rows: None, ..all }.dense(3, 2).is_none());
    }
}
