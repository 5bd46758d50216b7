//! The operations of a model as a list, made by running its wiring on a backend that only writes down what it is
//! asked for. So every wiring that runs can be replayed, and knows nothing of it.

mod node;
mod notes;

use std::collections::HashMap;

use candor::Gguf;
use candor_models::{Config, Decoder, Pass};
use candor_ops::{KvFormat, Prims, Step};

use crate::{
    Key,
    replay::{Side, Tokens},
};
pub(crate) use node::ENCODER;
pub use node::{Chosen, Kind, Node, NodeId, Weighted};
use notes::{Names, Notes};

/// The operations of a model, each after its inputs.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The operations.
    pub nodes: Vec<Node>,
    /// The model's dimensions.
    pub config: Config,
    /// `general.architecture`.
    pub arch: String,
    /// What the file says about rotation, for faults that misread it.
    pub rotary: Rotary,
    /// Values in the order in which a pass shows them, and how many operations come before each.
    pub(crate) shown: Vec<(Key, usize)>,
    by_key: HashMap<Key, NodeId>,
}

/// The rotary numbers of a file's metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// `rope.freq_base`.
    pub base: f64,
    /// Elements of a head that turn.
    pub dims: usize,
    /// `rope.scaling.type`, where it scales.
    pub scaling: Option<String>,
    /// `rope.scaling.factor`.
    pub factor: f64,
    /// The context that the model will run with.
    pub context: f64,
    /// The context that it was trained on before it was scaled.
    pub original_context: f64,
    /// Turns within that context at which YaRN's ramp begins and ends.
    pub betas: (f64, f64),
}

impl Graph {
    /// Writes down the operations of the file's model.
    ///
    /// # Errors
    /// If the file is not a model that runs.
    pub fn new(gguf: &Gguf) -> Result<Graph, candor_models::Error> {
        let mut notes = Notes::default();
        let model = Decoder::load(gguf, &mut notes)?;
        let mut scratch = model.scratch(&mut notes, 1, 1);
        let config = model.config().clone();
        let mut kv = notes.kv(&config.kv_plan(1, 1, KvFormat::F32, KvFormat::F32));
        let step = Step { tokens: &[0], positions: &[0], sequences: &[0], outputs: &[0], decoding: 0 };
        notes.side = Side::Text;
        model.encode(&mut Pass { ops: &mut notes, s: &mut scratch, kv: &mut kv, step, tap: &mut Names });
        notes.side = Side::Tokens;
        model.forward(&mut Pass { ops: &mut notes, s: &mut scratch, kv: &mut kv, step, tap: &mut Names });
        notes.name_the_rest();
        let by_key = notes.nodes.iter().enumerate().map(|(id, node)| (node.key.clone(), id)).collect();
        let metadata = gguf.metadata();
        let arch = metadata.str("general.architecture")?.unwrap_or_default().to_owned();
        let number = |key: &str| metadata.f32(&format!("{arch}.{key}"));
        let rotary = Rotary {
            base: number("rope.freq_base")?.map_or(10_000.0, f64::from),
            dims: metadata
                .u32(&format!("{arch}.rope.dimension_count"))?
                .map_or(config.heads.key_dim, |dims| dims as usize),
            scaling: metadata.str(&format!("{arch}.rope.scaling.type"))?.map(str::to_owned),
            factor: number("rope.scaling.factor")?.map_or(1.0, f64::from),
            context: config.context as f64,
            original_context: metadata
                .u32(&format!("{arch}.rope.scaling.original_context_length"))?
                .map_or(config.context as f64, f64::from),
            betas: (
                number("rope.scaling.yarn_beta_fast")?.map_or(32.0, f64::from),
                number("rope.scaling.yarn_beta_slow")?.map_or(1.0, f64::from),
            ),
        };
        Ok(Graph { nodes: notes.nodes, config, arch, rotary, shown: notes.shown, by_key })
    }

    /// The node whose output has this name.
    pub fn find(&self, key: &Key) -> Option<NodeId> {
        self.by_key.get(key).copied()
    }

    /// The same model with other operations, as another wiring would have them.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Vec<Node>)) -> Graph {
        change(&mut self.nodes);
        self.by_key = self.nodes.iter().enumerate().map(|(id, node)| (node.key.clone(), id)).collect();
        self
    }

    /// Whether an element of a node's output can matter: scores of positions that nobody sees are masked.
    pub fn counts(&self, id: NodeId, tokens: &Tokens) -> impl Fn(usize, usize) -> bool + use<> {
        let mask = |node: &Node| match &node.kind {
            Kind::SoftMax(attending) if node.inputs.contains(&id) => Some(attending.mask),
            _ => None,
        };
        let scores = matches!(self.nodes[id].kind, Kind::Scores(_));
        let mask = if scores { self.nodes[id + 1..].iter().find_map(mask) } else { None };
        let keys = tokens.rows(self.keys(id));
        move |row, col| mask.is_none_or(|mask| mask.seen(row, keys).contains(&(col % keys)))
    }

    /// Elements of a token's row of a node's output over those tokens; what its experts have lies side by side.
    pub fn width(&self, id: NodeId, tokens: &Tokens) -> usize {
        match &self.nodes[id].kind {
            Kind::Scores(heads) => heads.heads * tokens.rows(self.keys(id)),
            Kind::SoftMax(attending) => attending.heads.heads * tokens.rows(self.keys(id)),
            _ => self.nodes[id].width * self.nodes[id].per_token,
        }
    }

    /// Whose keys a node's scores or weights are of, or whose values it mixes: a decoder looks at the text, too.
    pub fn keys(&self, id: NodeId) -> Side {
        let node = &self.nodes[id];
        match (&node.kind, node.inputs.as_slice()) {
            (Kind::Scores(_) | Kind::Mix(_), &[_, keys]) => self.nodes[keys].side,
            (Kind::SoftMax(_), &[scores]) => self.keys(scores),
            _ => node.side,
        }
    }
}

#[cfg(test)]
mod tests {
    use candor::Gguf;
    use candor_testing::Tiny;

    use super::*;

    #[test]
    fn every_value_has_a_name_of_its_own() {
        let graph = Graph::new(&Gguf::from_bytes(Tiny::default().bytes().into()).unwrap()).unwrap();
        let layer = |layer: usize| {
            "attn_norm Qcur.mul_mat Kcur.mul_mat Vcur Qcur Kcur kq kq_soft_max kqv_out attn_out ffn_inp ffn_norm ffn_gate \
             ffn_up ffn_silu ffn_swiglu ffn_out l_out"
                .split_whitespace()
                .map(move |name| format!("{name}-{layer}"))
        };
        let mut expected = vec!["inp_embd".to_owned()];
        expected.extend(layer(0).chain(layer(1)));
        expected.extend(["result_norm".to_owned(), "result_output".to_owned()]);
        assert_eq!(graph.nodes.iter().map(|node| node.key.to_string()).collect::<Vec<_>>(), expected);
        assert_eq!(graph.by_key.len(), graph.nodes.len());
    }

    #[test]
    fn a_bias_of_what_was_added_is_part_of_it() {
        let tiny = Tiny { layers: 1, ..Tiny::default() };
        let mut writer = tiny.writer();
        let (len, bytes) = (tiny.dim as u64, vec![0; tiny.dim * 4]);
        writer.tensor("blk.0.attn_output.bias", candor::Format::F32, &[len], bytes).unwrap();
        let graph = Graph::new(&Gguf::from_bytes(writer.to_bytes().unwrap()).unwrap()).unwrap();
        let node = |name: &str| &graph.nodes[graph.find(&Key::new(name, Some(0))).unwrap()];
        let input = |name: &str, at: usize| graph.nodes[node(name).inputs[at]].key.name.as_str();
        assert!(matches!(node("attn_out").kind, Kind::Bias(_)));
        assert_eq!(input("attn_out", 0), "attn_out.mul_mat");
        assert!(matches!(node("ffn_inp").kind, Kind::Add) && node("ffn_inp").tapped);
        assert_eq!((input("ffn_inp", 0), input("ffn_inp", 1)), ("inp_embd", "attn_out"));
    }
}
