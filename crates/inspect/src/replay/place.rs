//! Where an operation stands in its model and its run.

use candor::Gguf;

use super::tokens::Tokens;
use crate::{Graph, Key, Node, NodeId, graph::ENCODER};

/// Where an operation stands: everything a fault may look at.
pub struct Place<'a> {
    /// The model's operations.
    pub graph: &'a Graph,
    /// The model's file.
    pub gguf: &'a Gguf,
    /// The operation.
    pub node: &'a Node,
    /// Its index.
    pub id: NodeId,
    /// The trace's tokens.
    pub tokens: &'a Tokens,
    /// The fault's number: an eps, a base, a shift.
    pub variant: f64,
}

impl Place<'_> {
    /// The name of the weight that the operation reads, without layer, `.weight` and the rows that it has of it: `attn_q`,
    /// `token_embd`, `attn_qkv`.
    pub fn weight(&self) -> &str {
        let name = self.node.kind.weight().map_or("", |weight| weight.name.as_str());
        let name = name.split('[').next().unwrap_or_default();
        let name = name.strip_suffix(".weight").unwrap_or(name);
        let stack = name.strip_prefix("enc.").or_else(|| name.strip_prefix("dec.")).unwrap_or(name);
        match stack.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
            Some((_, rest)) => rest,
            None => name,
        }
    }

    /// The layer of the operation.
    pub fn layer(&self) -> Option<usize> {
        self.node.key.layer
    }

    /// The output's name without a suffix for the operation: `Qcur`. An encoder's values are called as a decoder's.
    pub fn name(&self) -> &str {
        let name = self.node.key.name.split('.').next().unwrap_or_default();
        name.strip_prefix(ENCODER).unwrap_or(name)
    }

    /// The node of another value of the same layer, of the same stack of layers.
    pub fn sibling(&self, name: &str) -> Option<NodeId> {
        let stack = if self.node.key.name.starts_with(ENCODER) { ENCODER } else { "" };
        self.graph.find(&Key::new(format!("{stack}{name}"), self.layer()))
    }

    /// Rows that the node's tokens have: the answer's, or the text's.
    pub fn rows(&self) -> usize {
        self.tokens.rows(self.node.side)
    }

    /// The residual stream that enters the layer.
    pub fn layer_input(&self) -> Option<NodeId> {
        self.graph.nodes[self.sibling("attn_norm")?].inputs.first().copied()
    }

    /// The nodes that read this one's output.
    pub fn readers(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.graph.nodes.iter().enumerate().filter(|(_, node)| node.inputs.contains(&self.id))
    }
}
