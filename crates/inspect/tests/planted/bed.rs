//! Models with tokens, and what became of a fault that was planted in them.

use std::path::Path;

use candor::Gguf;
use candor_inspect::{
    Confidence, Diagnosis, Graph, Node, Outcome, Trace, catalogue, diagnose_in,
    fault::Active,
    replay::{Arithmetic, Decoded, Order, Rounding, Stage, Tokens},
    simulate,
};
use candor_testing::TinyT5;

use crate::model::Shape;

/// A model, ready to plant faults in.
pub struct Bed {
    pub name: String,
    pub gguf: Gguf,
    pub graph: Graph,
    pub tokens: Tokens,
    decoded: Decoded,
}

impl Bed {
    pub fn new(shape: &Shape) -> Bed {
        Bed::worded(&format!("{} {}", shape.name, shape.matrices.name()), shape.gguf())
    }

    /// A model whose vocabulary is that of the tiny llamas.
    pub fn worded(name: &str, gguf: Gguf) -> Bed {
        let graph = Graph::new(&gguf).unwrap();
        // BOS, words and bytes, nine as a prompt and four decoded.
        let ids = vec![1, 270, 281, 262, 300, 35, 290, 263, 275, 288, 301, 266, 279];
        Bed { name: name.to_owned(), gguf, graph, tokens: Tokens::new(ids, 9), decoded: Decoded::default() }
    }

    /// A model of another wiring.
    pub fn golden(name: &str) -> Bed {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens/architectures");
        let gguf = Gguf::open(format!("{folder}/{name}/model.gguf")).unwrap();
        let graph = Graph::new(&gguf).unwrap();
        let vocab = graph.config.vocab as u32;
        let ids = [1, 270, 281, 262, 300, 35, 290, 263, 275, 288, 301, 266, 279].map(|id| id % vocab);
        Bed { name: name.to_owned(), gguf, graph, tokens: Tokens::new(ids.to_vec(), 9), decoded: Decoded::default() }
    }

    /// A model that answers a text of nine tokens, five of the answer.
    pub fn answering() -> Bed {
        let gguf = Gguf::from_bytes(TinyT5::default().bytes().into()).unwrap();
        let graph = Graph::new(&gguf).unwrap();
        let tokens = Tokens::new(vec![TinyT5::START, 270, 281, 262, 300], 1);
        let tokens = Tokens { text: vec![290, 263, 275, 288, 301, 266, 279, 35, 2], ..tokens };
        Bed { name: "t5".to_owned(), gguf, graph, tokens, decoded: Decoded::default() }
    }

    /// The model of a file, with tokens that any vocabulary has: nine as a prompt and four decoded.
    pub fn open(path: &Path) -> Bed {
        let name = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        Bed::of(&name, Gguf::from_bytes(std::fs::read(path).unwrap().into()).unwrap())
    }

    /// A model with such tokens.
    pub fn of(name: &str, gguf: Gguf) -> Bed {
        let graph = Graph::new(&gguf).unwrap();
        let some = |count: usize, from: usize| -> Vec<u32> {
            (0..count).map(|n| ((from + 37 * n) % graph.config.vocab) as u32).collect()
        };
        let tokens = Tokens::new(some(13, 5), 9);
        let tokens = match graph.config.start {
            Some(_) => Tokens { text: some(9, 11), ..Tokens::new(some(5, 5), 1) },
            None => tokens,
        };
        Bed { name: name.to_owned(), gguf, graph, tokens, decoded: Decoded::default() }
    }

    /// The same model with other operations.
    pub fn with(self, name: &str, change: impl FnOnce(&mut Vec<Node>)) -> Bed {
        Bed { name: name.to_owned(), graph: self.graph.with(change), ..self }
    }

    pub fn diagnose(&self, trace: &Trace) -> Diagnosis {
        diagnose_in(&self.graph, &self.gguf, trace).unwrap()
    }

    pub fn plant(&self, rounding: Rounding, faults: &[Active]) -> Option<Trace> {
        let stage = Stage { graph: &self.graph, gguf: &self.gguf, tokens: &self.tokens, decoded: &self.decoded };
        simulate(&stage, Arithmetic { rounding, order: Order::Reverse, ..Arithmetic::default() }, faults)
    }
}

pub fn every_fault() -> Vec<Active> {
    catalogue().flat_map(|fault| fault.variants.iter().map(move |&variant| Active::new(fault, variant))).collect()
}

/// What became of a planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Its name came first.
    Named,
    /// It is among exact twins.
    Twin,
    /// Nothing to see: the values differ by less than rounding.
    Invisible,
    /// Seen, not named.
    Missed,
    /// Another name, with high confidence.
    WrongName,
}

pub fn judge(report: &Diagnosis, planted: &Active) -> Verdict {
    let name = planted.fault.name;
    let named = report.findings.iter().any(|finding| finding.fault == name);
    let twin = report.findings.iter().any(|finding| finding.twins.iter().any(|twin| twin == name));
    let confident =
        report.findings.iter().any(|finding| finding.confidence == Confidence::High && finding.fault != name);
    match (named, twin, confident) {
        (_, _, true) if !named => Verdict::WrongName,
        (true, _, _) => Verdict::Named,
        (_, true, _) => Verdict::Twin,
        _ if report.outcome == Outcome::Healthy => Verdict::Invisible,
        _ => Verdict::Missed,
    }
}
