//! The named values of a forward pass, in short.

use candor::{Observed, Observer};
use serde::Deserialize;
use serde_json::{Value, json};

/// What is to be seen.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Trace {
    /// Names, with a layer or without: `Qcur`, `Qcur-3`. All where there are no names.
    names: Option<Vec<String>>,
    /// How many of a value's first numbers are given.
    limit: usize,
    #[serde(skip)]
    pub(crate) seen: Vec<Value>,
}

impl Default for Trace {
    fn default() -> Self {
        Trace { names: None, limit: 8, seen: Vec::new() }
    }
}

impl Observer for Trace {
    fn wants(&mut self, name: &'static str, layer: Option<usize>) -> bool {
        let of_layer = |wanted: &str| match wanted.rsplit_once('-') {
            Some((wanted, number)) => wanted == name && number.parse().ok() == layer,
            None => false,
        };
        self.names.as_ref().is_none_or(|names| names.iter().any(|wanted| wanted == name || of_layer(wanted)))
    }

    fn value(&mut self, observed: &Observed<'_>) {
        let Observed { name, layer, rows, values, .. } = *observed;
        let finite = || values.iter().filter(|value| value.is_finite()).map(|&value| f64::from(value));
        let count = finite().count();
        let over = |sum: f64| sum / count.max(1) as f64;
        // What is not finite is null in JSON.
        self.seen.push(json!({
            "name": name,
            "layer": layer,
            "shape": [rows, values.len() / rows.max(1)],
            "values": &values[..values.len().min(self.limit)],
            "min": finite().fold(f64::INFINITY, f64::min),
            "max": finite().fold(f64::NEG_INFINITY, f64::max),
            "mean": over(finite().sum()),
            "rms": over(finite().map(|value| value * value).sum()).sqrt(),
            "notFinite": values.len() - count,
        }));
    }
}
