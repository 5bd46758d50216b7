//! What the next step computes: pushes of tokens, laid out so that prompts come first and rows that decode behind them.

use std::ops::Range;

use candor_ops::Step;

use super::{Outputs, Role, Want};

/// The tokens of a sequence that a step appends.
pub(super) struct Push {
    pub(super) slot: usize,
    pub(super) role: Role,
    tokens: Range<usize>,
    outputs: Outputs,
}

impl Push {
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }
}

/// Pushes, in the order in which they came.
#[derive(Default)]
pub(super) struct Staged {
    pub(super) pushes: Vec<Push>,
    tokens: Vec<u32>,
    outputs: usize,
}

/// A row of which something is to be known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) slot: usize,
    pub(super) position: usize,
    pub(super) want: Want,
    /// Its number among the step's rows.
    pub(super) row: usize,
    /// Its number among those that have logits.
    pub(super) logits: usize,
    /// Its number among those that have the best of them.
    pub(super) best: usize,
}

/// A step's rows.
#[derive(Default)]
pub(super) struct Layout {
    pub(super) tokens: Vec<u32>,
    positions: Vec<u32>,
    sequences: Vec<u32>,
    pub(super) outputs: Vec<u32>,
    decoding: usize,
    /// Rows of which something is to be known, with the number of their push.
    pub(super) rows: Vec<(usize, Row)>,
}

impl Row {
    /// The same row of a step, behind another pass with this number of rows and outputs.
    pub(super) fn behind(self, rows: usize, outputs: usize) -> Row {
        Row { row: self.row + rows, logits: self.logits + outputs, best: self.best + outputs, ..self }
    }
}

impl Staged {
    pub(super) fn push(&mut self, slot: usize, tokens: &[u32], role: Role, outputs: Outputs) {
        let first = self.tokens.len();
        self.tokens.extend_from_slice(tokens);
        self.outputs += outputs.count(tokens.len());
        self.pushes.push(Push { slot, role, tokens: first..self.tokens.len(), outputs });
    }

    pub(super) fn clear(&mut self) {
        self.pushes.clear();
        self.tokens.clear();
        self.outputs = 0;
    }

    /// Takes back what was noted for a sequence.
    pub(super) fn drop_slot(&mut self, slot: usize) {
        let dropped = self.pushes.iter().filter(|push| push.slot == slot);
        self.outputs -= dropped.map(|push| push.outputs.count(push.len())).sum::<usize>();
        self.pushes.retain(|push| push.slot != slot);
    }

    pub(super) fn has(&self, slot: usize) -> bool {
        self.pushes.iter().any(|push| push.slot == slot)
    }

    pub(super) fn rows(&self) -> usize {
        self.pushes.iter().map(Push::len).sum()
    }

    /// Rows of which something is to be known.
    pub(super) fn outputs(&self) -> usize {
        self.outputs
    }

    pub(super) fn tokens(&self, push: &Push) -> &[u32] {
        &self.tokens[push.tokens.clone()]
    }

    /// What is to be known of rows.
    pub(super) fn wants(&self) -> impl Iterator<Item = Want> {
        self.pushes.iter().filter_map(|push| match push.outputs {
            Outputs::None => None,
            Outputs::Last(want) | Outputs::Each(want) => Some(want),
        })
    }

    /// Lays out the rows of the sequences of a pass; `held` says how many tokens memory holds of a sequence.
    pub(super) fn lay_out(&self, passes: impl Fn(usize) -> bool, held: impl Fn(usize) -> usize) -> Layout {
        let mut layout = Layout::default();
        for role in [Role::Prefill, Role::Decode] {
            for (number, push) in
                self.pushes.iter().enumerate().filter(|(_, push)| push.role == role && passes(push.slot))
            {
                let (first, len) = (held(push.slot), push.len());
                let (from, each, want) = match push.outputs {
                    Outputs::None => (len, false, None),
                    Outputs::Last(want) => (len - 1, false, Some(want)),
                    Outputs::Each(want) => (0, true, Some(want)),
                };
                debug_assert!(each || len - from <= 1);
                for (i, &token) in self.tokens(push).iter().enumerate() {
                    let (row, position) = (layout.tokens.len(), first + i);
                    if let Some(want) = want.filter(|_| i >= from) {
                        let logits = layout.outputs.len();
                        if want != Want::Embedding {
                            layout.outputs.push(row as u32);
                        }
                        layout.rows.push((number, Row { slot: push.slot, position, want, row, logits, best: logits }));
                    }
                    layout.tokens.push(token);
                    layout.positions.push(position as u32);
                    layout.sequences.push(push.slot as u32);
                }
                if role == Role::Decode {
                    layout.decoding += len;
                }
            }
        }
        layout
    }
}

impl Layout {
    pub(super) fn step(&self) -> Step<'_> {
        let Layout { tokens, positions, sequences, outputs, decoding, .. } = self;
        Step { tokens, positions, sequences, outputs, decoding: *decoding }
    }
}
