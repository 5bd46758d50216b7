//! An answer as a list of blocks: what it says, what it thinks, what it calls. Endpoints that stream blocks say of each where
//! it begins, what comes to it, and where it ends.

use candor::{AnswerParser, AnswerPart};
use serde_json::{Map, Value};

/// A block of an answer.
#[derive(Clone, Debug)]
pub enum Block {
    /// What the user reads.
    Text(String),
    /// What the model thinks.
    Reasoning(String),
    /// A tool that is to be called.
    Call {
        /// The call's own name.
        id: String,
        /// The tool's.
        name: String,
        /// Its arguments.
        arguments: Map<String, Value>,
    },
}

/// What happens to a block, by its number.
pub enum Change {
    /// It begins.
    Begin(usize),
    /// Text comes to it; of a call, its arguments as JSON.
    Grow(usize, String),
    /// It ends.
    End(usize),
}

/// The blocks of an answer so far.
pub struct Blocks {
    parser: Option<AnswerParser>,
    /// What the ids of calls begin with.
    ids: String,
    blocks: Vec<Block>,
    /// Whether the last one may grow.
    open: bool,
    /// Empty lines, which begin no text.
    blank: String,
}

impl Blocks {
    /// Those of an answer that is yet to come. Calls without ids get some that begin with `ids`.
    pub fn new(parser: AnswerParser, ids: String) -> Blocks {
        Blocks { parser: Some(parser), ids, blocks: Vec::new(), open: false, blank: String::new() }
    }

    /// All of them.
    pub fn all(&self) -> &[Block] {
        &self.blocks
    }

    /// Whether a tool is called.
    pub fn calls(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block, Block::Call { .. }))
    }

    /// Whether the model is thinking.
    pub fn reasons(&self) -> bool {
        self.open && matches!(self.blocks.last(), Some(Block::Reasoning(_)))
    }

    /// Takes a piece of the answer.
    pub fn push(&mut self, text: &str) -> Vec<Change> {
        let parts = self.parser.as_mut().map(|parser| parser.push(text)).unwrap_or_default();
        self.take(parts)
    }

    /// Takes the answer's end.
    pub fn finish(&mut self) -> Vec<Change> {
        let parts = self.parser.take().map(AnswerParser::finish).unwrap_or_default();
        let mut changes = self.take(parts);
        self.close(&mut changes);
        changes
    }

    fn take(&mut self, parts: Vec<AnswerPart>) -> Vec<Change> {
        let mut changes = Vec::new();
        for part in parts {
            match part {
                AnswerPart::Content(text) => {
                    let goes_on = self.open && matches!(self.blocks.last(), Some(Block::Text(_)));
                    if !goes_on && text.trim().is_empty() {
                        self.blank.push_str(&text);
                        continue;
                    }
                    let text = std::mem::take(&mut self.blank) + &text;
                    self.grow(goes_on, Block::Text(String::new()), text, &mut changes);
                }
                AnswerPart::Reasoning(text) => {
                    let goes_on = self.reasons();
                    self.grow(goes_on, Block::Reasoning(String::new()), text, &mut changes);
                }
                AnswerPart::Call(call) => {
                    self.close(&mut changes);
                    self.blank.clear();
                    let n = self.blocks.len();
                    let id = call.id.unwrap_or_else(|| format!("{}-{n}", self.ids));
                    changes.extend([
                        Change::Begin(n),
                        Change::Grow(n, Value::Object(call.arguments.clone()).to_string()),
                        Change::End(n),
                    ]);
                    self.blocks.push(Block::Call { id, name: call.name, arguments: call.arguments });
                }
            }
        }
        changes
    }

    /// Text comes to the last block, or to a new one.
    fn grow(&mut self, goes_on: bool, new: Block, text: String, changes: &mut Vec<Change>) {
        if !goes_on {
            self.close(changes);
            changes.push(Change::Begin(self.blocks.len()));
            self.blocks.push(new);
            self.open = true;
        }
        if let Some(Block::Text(whole) | Block::Reasoning(whole)) = self.blocks.last_mut() {
            whole.push_str(&text);
        }
        changes.push(Change::Grow(self.blocks.len() - 1, text));
    }

    fn close(&mut self, changes: &mut Vec<Change>) {
        if self.open {
            changes.push(Change::End(self.blocks.len() - 1));
            self.open = false;
        }
    }
}
