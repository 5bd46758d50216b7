//! What a pass spends on each named value: the time, by a clock that looks on, and the work, by the model's own operations.
//!
//! A value's part of a pass is all that is computed between the value shown before it and itself.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use candor::{KvFormat, Observed, Observer};

use crate::{Graph, Key, Kind, Node, record::is_beside};

/// Records the time at which a pass reaches each value, and reads no value. The caller starts the pass.
#[derive(Debug)]
pub struct Clock {
    last: Instant,
    spent: HashMap<Key, Duration>,
}

impl Default for Clock {
    fn default() -> Self {
        Clock { last: Instant::now(), spent: HashMap::new() }
    }
}

impl Clock {
    /// A pass begins now.
    pub fn start(&mut self) {
        self.last = Instant::now();
    }
}

impl Observer for Clock {
    fn wants(&mut self, name: &'static str, layer: Option<usize>) -> bool {
        // What is within a fusion is asked for before the fusion runs.
        if !is_beside(name) {
            let spent = self.last.elapsed();
            *self.spent.entry(Key::new(name, layer)).or_default() += spent;
            // Noting is no part of the pass.
            self.last = Instant::now();
        }
        false
    }

    fn value(&mut self, _: &Observed<'_>) {}
}

/// The rows of a pass over one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The position of the first.
    pub first: usize,
    /// How many.
    pub count: usize,
    /// How many of them have logits.
    pub outputs: usize,
}

/// What the values of one name, or of one layer, took together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// Time.
    pub time: Duration,
    /// Bytes of weights, keys and values that had to be read.
    pub bytes: f64,
    /// Multiplications and additions of products.
    pub operations: f64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.time += other.time;
        self.bytes += other.bytes;
        self.operations += other.operations;
    }
}

/// A part of a pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The value that it ends with.
    pub key: Key,
    /// What is computed, in ggml's words, in order: `3 mul_mat`.
    pub operations: String,
    /// What it took.
    pub cost: Cost,
}

/// The parts of passes over these rows, in the order of computation, with the time that the clock noted and the work that
/// they are, keys and values being kept in these formats.
pub fn parts(graph: &Graph, clock: &Clock, passes: &[Rows], cache: [KvFormat; 2]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut first = 0;
    for (key, after) in graph.shown.iter().filter(|(key, _)| !is_beside(&key.name)) {
        let nodes = &graph.nodes[first..(*after).max(first)];
        first = first.max(*after);
        let time = clock.spent.get(key).copied().unwrap_or_default();
        // Nothing is computed between values that come together.
        if let (true, Some(part)) = (nodes.is_empty(), parts.last_mut()) {
            part.cost.time += time;
            continue;
        }
        let mut cost = Cost { time, ..Cost::default() };
        for &rows in passes {
            let outputs = key.name == "result_output";
            let rows = if outputs { Rows { count: rows.outputs, ..rows } } else { rows };
            if rows.count > 0 {
                nodes.iter().for_each(|node| cost += work(node, nodes, rows, cache));
            }
        }
        parts.push(Part { key: key.clone(), operations: spelt(nodes), cost });
    }
    parts
}

/// The operations in words.
fn spelt(nodes: &[Node]) -> String {
    let runs = nodes.chunk_by(|a, b| a.kind.name() == b.kind.name());
    let run = |run: &[Node]| match run.len() {
        1 => run[0].kind.name().to_owned(),
        several => format!("{several} {}", run[0].kind.name()),
    };
    runs.map(run).collect::<Vec<_>>().join(", ")
}

/// What a node has to read and to multiply; `beside` are the nodes of its part.
fn work(node: &Node, beside: &[Node], rows: Rows, [keys, values]: [KvFormat; 2]) -> Cost {
    let (count, weight) = (rows.count as f64, node.kind.weight());
    let bytes = weight.map_or(0.0, |weight| weight.bytes.len() as f64);
    let size = weight.map_or(0.0, |weight| weight.rows as f64 * weight.cols as f64);
    let mask = beside.iter().find_map(|node| match &node.kind {
        Kind::SoftMax(attending) => Some(attending.mask),
        _ => None,
    });
    // Attention with a cache's heads of a width in a format.
    let attended = |kv_heads: usize, heads: usize, dim: usize, format: KvFormat| {
        let seen = |row: usize| mask.unwrap_or_default().seen(rows.first + row, rows.first + rows.count).len() as f64;
        let row = format.format().row_bytes(dim).unwrap_or(0) as f64;
        let products: f64 = (0..rows.count).map(seen).sum();
        // Neighbours see nearly the same, so that it is read once.
        let most = (0..rows.count).map(seen).fold(0.0, f64::max);
        (most * kv_heads as f64 * row, 2.0 * products * (heads * dim) as f64)
    };
    let (bytes, operations) = match &node.kind {
        Kind::MatMul(_) | Kind::Stacked { routed: false, .. } => (bytes, 2.0 * size * count),
        Kind::Stacked { matrices, .. } => {
            // As many experts as rows choose at most.
            let (all, chosen) = (*matrices as f64, count * node.per_token as f64);
            (bytes * (chosen / all).min(1.0), 2.0 * size / all * chosen)
        }
        Kind::Embed(table) => (bytes / table.rows.max(1) as f64 * count, 0.0),
        Kind::Scores(heads) => attended(heads.kv_heads, heads.heads, heads.key_dim, keys),
        Kind::Mix(heads) => attended(heads.kv_heads, heads.heads, heads.value_dim, values),
        _ => (bytes, 0.0),
    };
    Cost { time: Duration::ZERO, bytes, operations }
}

#[cfg(test)]
mod tests {
    use candor::Gguf;
    use candor_testing::Tiny;

    use super::*;

    #[test]
    fn the_parts_are_all_of_the_work() {
        let tiny = Tiny::default();
        let gguf = Gguf::from_bytes(tiny.bytes().into()).unwrap();
        let graph = Graph::new(&gguf).unwrap();
        let mut clock = Clock::default();
        for name in ["Qcur.mul_mat", "Kcur.mul_mat", "attn_out"] {
            assert!(!clock.wants(name, Some(1)));
        }
        let names = |parts: &[Part]| parts.iter().map(|part| part.key.to_string()).collect::<Vec<_>>();
        let prompt = [Rows { first: 0, count: 3, outputs: 0 }, Rows { first: 3, count: 2, outputs: 1 }];
        let all = parts(&graph, &clock, &prompt, [KvFormat::F16; 2]);
        let layer = "attn_norm Qcur.mul_mat Qcur kqv_out ffn_inp ffn_norm ffn_gate ffn_swiglu l_out";
        let mut expected = vec!["inp_embd".to_owned()];
        expected.extend((0..2).flat_map(|i| layer.split(' ').map(move |name| format!("{name}-{i}"))));
        expected.extend(["result_norm".to_owned(), "result_output".to_owned()]);
        assert_eq!(names(&all), expected);
        let part = |key: &str| all.iter().find(|part| part.key.to_string() == key).unwrap();
        for (key, operations) in [
            ("inp_embd", "get_rows"),
            ("Qcur.mul_mat-1", "3 mul_mat"),
            ("Qcur-0", "2 rope"),
            ("kqv_out-0", "kq, soft_max, kqv"),
            ("ffn_inp-0", "mul_mat, add"),
            ("ffn_gate-0", "2 mul_mat"),
            ("result_output", "mul_mat"),
        ] {
            assert_eq!(part(key).operations, operations, "{key}");
        }
        // The clock saw two values of one part, and none within a fusion.
        let timed: Vec<&Part> = all.iter().filter(|part| part.cost.time > Duration::ZERO).collect();
        assert_eq!(timed.iter().map(|part| part.key.to_string()).collect::<Vec<_>>(), ["Qcur.mul_mat-1"]);
        // Logits of the last of five tokens alone, in F32: a pass over the head.
        let head = Tiny::VOCAB * tiny.dim;
        assert_eq!(
            (part("result_output").cost.bytes, part("result_output").cost.operations),
            (4.0 * head as f64, 2.0 * head as f64)
        );
        // 4 heads of 8 over 1 to 5 positions, keys and values; 2 heads of them are read, three positions and then five.
        let attention = &part("kqv_out-0").cost;
        assert_eq!((attention.operations, attention.bytes), (2.0 * 2.0 * 15.0 * 32.0, 2.0 * 8.0 * 16.0 * 2.0));
    }
}
