//! Which values of a run are recorded: by layer, by name, by token.

use std::ops::RangeInclusive;

use crate::{Graph, Key, Kind, Node, graph::ENCODER};

/// Values that backends make within a fusion alone, and once more where somebody looks: `Tap::wants`.
const BESIDE: [&str; 3] = ["attn_out", "ffn_out", "cross_out"];

/// Which tokens' rows are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rows {
    /// Every token's.
    #[default]
    All,
    /// The prompt's last token's, and every decoded one's.
    Last,
}

/// Which values are recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Layers; empty takes all. Values that belong to no layer are taken in any case.
    pub layers: Vec<RangeInclusive<usize>>,
    /// Patterns of names, with `*` for any letters and `?` for one, on the name alone (`Qcur`) or with its layer
    /// (`Qcur-0`); empty takes all but attention's scores and weights, of which there are as many as tokens squared.
    pub names: Vec<String>,
    /// Tokens.
    pub rows: Rows,
}

/// A selection that a model has nothing for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// A layer that the model has not.
    #[error("layer {got}: expected at most {last}, the model's last")]
    Layer {
        /// The layer asked for.
        got: usize,
        /// The model's last.
        last: usize,
    },
    /// A pattern that no name matches.
    #[error("{pattern}: no value of this model has such a name")]
    Name {
        /// The pattern.
        pattern: String,
        /// Names without layers, in the order of computation.
        known: Vec<String>,
    },
}

impl Selection {
    /// Whether a value is recorded.
    pub fn wants(&self, name: &str, layer: Option<usize>) -> bool {
        let in_layers = |layer| self.layers.is_empty() || self.layers.iter().any(|range| range.contains(&layer));
        layer.is_none_or(in_layers)
            && (self.names.is_empty() || self.names.iter().any(|pattern| names(pattern, name, layer)))
    }

    /// Whether a value that no one has unless it is asked for is recorded: scores and weights of attention.
    pub fn asks(&self, key: &Key) -> bool {
        !self.names.is_empty() && self.wants(&key.name, key.layer)
    }

    /// Whether an engine with these operations would record a node's output: what the model's own run shows, and whatever
    /// else is asked for.
    pub fn takes(&self, node: &Node) -> bool {
        node.tapped || beside(node) || self.asks(&node.key)
    }

    /// The first token whose rows are recorded, with a prompt of `prompt` tokens.
    pub(super) fn first_row(&self, prompt: usize) -> usize {
        match self.rows {
            Rows::All => 0,
            Rows::Last => prompt.saturating_sub(1),
        }
    }

    /// Checks that the model has what is selected.
    ///
    /// # Errors
    /// If a layer is beyond the last, or a pattern matches nothing.
    pub fn check(&self, graph: &Graph) -> Result<(), SelectionError> {
        let layers = graph.config.layers;
        if let Some(range) = self.layers.iter().find(|range| *range.end() >= layers) {
            return Err(SelectionError::Layer { got: *range.end(), last: layers.saturating_sub(1) });
        }
        let shown = |node: &&Node| node.tapped || beside(node) || is_scored(graph, node);
        let shown = || graph.nodes.iter().filter(shown).map(|node| &node.key);
        for pattern in &self.names {
            if !shown().any(|key| names(pattern, &key.name, key.layer)) {
                let mut known: Vec<String> = Vec::new();
                for key in shown() {
                    if !known.contains(&key.name) {
                        known.push(key.name.clone());
                    }
                }
                return Err(SelectionError::Name { pattern: pattern.clone(), known });
            }
        }
        Ok(())
    }
}

/// Whether backends make values of this name once more where somebody looks.
pub(crate) fn is_beside(name: &str) -> bool {
    BESIDE.contains(&name.strip_prefix(ENCODER).unwrap_or(name))
}

/// Whether the node is such a value.
fn beside(node: &Node) -> bool {
    matches!(node.kind, Kind::MatMul(_) | Kind::Bias(_)) && is_beside(&node.key.name)
}

/// Whether the value is attention's scores or weights, and can be made of what the run shows.
pub(super) fn is_scored(graph: &Graph, node: &Node) -> bool {
    match (&node.kind, node.inputs.as_slice()) {
        (Kind::Scores(_), inputs) => inputs.iter().all(|&input| graph.nodes[input].tapped),
        (Kind::SoftMax(_), &[scores]) => is_scored(graph, &graph.nodes[scores]),
        _ => false,
    }
}

fn names(pattern: &str, name: &str, layer: Option<usize>) -> bool {
    matches(pattern, name) || layer.is_some_and(|layer| matches(pattern, &format!("{name}-{layer}")))
}

/// Whether a text matches a pattern in which `*` stands for any letters and `?` for one.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where the last `*` is, and up to where it has eaten: the only place worth going back to.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, eaten)) = star else { return false };
                star = Some((at, eaten + 1));
                (p, t) = (at + 1, eaten + 1);
            }
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("Qcur", "Qcur", true),
            ("Qcur", "Qcur.add", false),
            ("*", "", true),
            ("", "a", false),
            ("?cur*", "Kcur.mul_mat", true),
            ("*_norm", "attn_norm", true),
            ("*_norm", "result_norm_x", false),
            ("a*b*c", "abbxbc", true),
            ("a*b*c", "abbxb", false),
            ("**", "x", true),
            ("???", "ab", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn layers_and_names_restrict_together() {
        let selection = Selection {
            layers: vec![0..=1, 4..=4],
            names: vec!["Qcur".into(), "l_out-4".into(), "result_*".into()],
            rows: Rows::All,
        };
        for (name, layer, expected) in [
            ("Qcur", Some(1), true),
            ("Qcur", Some(2), false),
            ("Qcur", Some(4), true),
            ("l_out", Some(4), true),
            ("l_out", Some(0), false),
            ("result_norm", None, true),
            ("inp_embd", None, false),
        ] {
            assert_eq!(selection.wants(name, layer), expected, "{name} {layer:?}");
        }
        assert!(Selection::default().wants("anything", Some(9)));
    }
}
