//! What a known fault is: a small change of how operations are computed, with its cause and remedy in words.

use std::rc::Rc;

use candor_ops::{Columns, Unary};
use serde::Serialize;

use crate::{
    NodeId, Value,
    replay::{Choice, Conv, Embed, Matrix, Mix, Norm, Place, Positions, Recur, Scores, SoftMax, Turn},
};

/// A change of one operation; `false` says that there was nothing to change at this place.
#[derive(Clone, Copy)]
pub enum Edit {
    /// Of which values the operation reads.
    Wiring(fn(&mut Vec<NodeId>, &Place<'_>) -> bool),
    /// Of the values that the operation reads, after [`Edit::Wiring`], which says where this acts.
    Inputs(fn(&mut Vec<Rc<Value>>, &Place<'_>) -> bool),
    /// Of the decoded weight.
    Weight(fn(&mut Matrix, &Place<'_>) -> bool),
    /// Of an embedding.
    Embed(fn(&mut Embed, &Place<'_>) -> bool),
    /// Of learned positions.
    Positions(fn(&mut Positions, &Place<'_>) -> bool),
    /// Of a norm.
    Norm(fn(&mut Norm, &Place<'_>) -> bool),
    /// Of a rotation.
    Rope(fn(&mut Turn, &Place<'_>) -> bool),
    /// Of attention's scores.
    Scores(fn(&mut Scores, &Place<'_>) -> bool),
    /// Of attention's softmax.
    SoftMax(fn(&mut SoftMax, &Place<'_>) -> bool),
    /// Of attention's weighted values.
    Mix(fn(&mut Mix, &Place<'_>) -> bool),
    /// Of a function of one number: an activation, a scale, a cap.
    Unary(fn(&mut Unary, &Place<'_>) -> bool),
    /// Of which columns are copied.
    Copy(fn(&mut Columns, &Place<'_>) -> bool),
    /// Of a convolution.
    Conv(fn(&mut Conv, &Place<'_>) -> bool),
    /// Of a recurrence.
    Recur(fn(&mut Recur, &Place<'_>) -> bool),
    /// Of the choice of experts.
    Route(fn(&mut Choice, &Place<'_>) -> bool),
    /// Of what comes out, with what went in.
    Output(fn(&mut Value, &[Rc<Value>], &Place<'_>) -> bool),
}

/// How a fault's number is searched for.
#[derive(Clone, Copy, Debug)]
pub struct Fit {
    /// The least number and the greatest.
    pub range: (f64, f64),
    /// How numbers lie between these.
    pub steps: Steps,
    /// Numbers that this model suggests, tried first: sizes, neighbouring keys of the file.
    pub numbers: fn(&Place<'_>) -> Vec<f64>,
}

/// How numbers are spread over a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// Evenly.
    Even,
    /// By equal factors; the range is above zero.
    Factors,
    /// Whole numbers, one by one.
    Whole,
}

/// Whether a fault can change the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Harm {
    /// It does.
    Harmful,
    /// It cannot: the difference cancels later on.
    Harmless,
}

/// A known fault: a row of the catalogue.
pub struct Fault {
    /// Its name: short, lower-case, with hyphens.
    pub name: &'static str,
    /// Where it is in the catalogue of research: `29`, `28e`.
    pub entry: &'static str,
    /// Numbers to try, where the fault has one; a fault without has a single 0.
    pub variants: &'static [f64],
    /// Where other numbers are possible, too: how the one that explains a suspect's values is searched for.
    pub fit: Option<Fit>,
    /// Whether a weight may be concerned at all, asked before it is copied.
    pub wants: fn(&Place<'_>) -> bool,
    /// The changes; each acts where its operation is.
    pub edits: &'static [Edit],
    /// Whether the text changes.
    pub harm: Harm,
    /// What the engine did: a sentence, `{}` stands for the number.
    pub cause: &'static str,
    /// What to do about it: a sentence.
    pub remedy: &'static str,
    /// Where it was seen: `owner/repository#number` on GitHub, or a file of this project.
    pub source: &'static str,
}

impl std::fmt::Debug for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// A fault with its number.
#[derive(Clone, Copy, Debug)]
pub struct Active {
    /// The fault.
    pub fault: &'static Fault,
    /// Its number.
    pub variant: f64,
    /// The one operation that it concerns, in every layer that has it; `None` for all that the fault can concern.
    pub only: Option<NodeId>,
}

impl Active {
    /// A fault of everything that it can concern.
    pub fn new(fault: &'static Fault, variant: f64) -> Active {
        Active { fault, variant, only: None }
    }

    /// Whether an operation is one that it concerns, if the fault concerns it.
    pub(crate) fn reaches(&self, place: &Place<'_>) -> bool {
        self.only.is_none_or(|id| place.graph.nodes[id].key.name == place.node.key.name)
    }

    /// What the engine did, with the number filled in.
    pub fn cause(&self) -> String {
        self.fault.cause.replace("{}", &format!("{}", self.variant))
    }
}

impl PartialEq for Active {
    fn eq(&self, other: &Active) -> bool {
        self.fault.name == other.fault.name && self.variant == other.variant && self.only == other.only
    }
}
