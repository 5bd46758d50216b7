//! From nodes in the order of computation to values: which node is which value, where one pass ends and the next
//! begins, which tokens its rows are.

use std::collections::{BTreeMap, BTreeSet};

use super::Node;
use crate::{
    Evidence, Key, Known,
    import::{dump::Dump, printed::position},
    names::{Meaning, Names},
};

/// Operations that move elements and compute none.
const COPIES: [&str; 8] = ["RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE", "CONT", "CPY", "DUP", "SET_ROWS"];

/// Weights that tell what a product is, whatever name it has in this version.
const PRODUCTS: [(&str, &str); 7] = [
    ("attn_q", "Qcur"),
    ("attn_k", "Kcur"),
    ("attn_v", "Vcur"),
    ("attn_output", "attn_out"),
    ("ffn_gate", "ffn_gate"),
    ("ffn_up", "ffn_up"),
    ("ffn_down", "ffn_out"),
];

/// A node that is a value of ours, or on the way to one.
struct Step<'a> {
    key: Key,
    /// The operation in small letters, as it sets off earlier nodes of the same name.
    op: String,
    node: &'a Node,
}

/// One evaluation of a batch.
#[derive(Default)]
struct Pass<'a> {
    steps: Vec<Step<'a>>,
}

/// Adds the values of all passes to a dump.
pub(super) fn assemble(nodes: &[Node], names: &Names, dump: &mut Dump) {
    let embeds = |node: &Node| node.op == "GET_ROWS" && node.sources.iter().any(|name| name == "token_embd.weight");
    let by_embedding = nodes.iter().any(embeds);
    let mut passes: Vec<Pass> = vec![Pass::default()];
    let mut seen = BTreeSet::new();
    for node in nodes {
        let (key, op) = match step(node, names) {
            Found::Value(key, op) => (key, op),
            Found::Unknown => {
                dump.unknown.push(node.name.clone());
                continue;
            }
            Found::Nothing => continue,
        };
        let again = !seen.insert((key.clone(), op.clone()));
        // The embedding opens a pass; a filtered log has none, and there a node that comes again does.
        let opens = if by_embedding { embeds(node) } else { again };
        if opens && passes.last().is_some_and(|pass| !pass.steps.is_empty()) {
            passes.push(Pass::default());
            seen.clear();
            seen.insert((key.clone(), op.clone()));
        }
        if let Some(pass) = passes.last_mut() {
            pass.steps.push(Step { key, op, node });
        }
    }
    let rotates = passes.iter().flat_map(|pass| &pass.steps).any(|step| step.op == "rope");
    let attends =
        passes.iter().flat_map(|pass| &pass.steps).any(|step| matches!(step.key.name.as_str(), "kq" | "kqv_out"));
    let sizes: Vec<usize> = passes.iter().map(Pass::tokens).collect();
    // A pass larger than the one before it is no continuation: what came before was a warm-up.
    let first = (1..sizes.len()).rev().find(|&index| sizes[index] > sizes[index - 1]).unwrap_or(0);
    let total: usize = sizes[first..].iter().sum();
    let mut values = BTreeMap::new();
    let mut offset = 0;
    for (pass, &tokens) in passes[first..].iter().zip(&sizes[first..]) {
        for (key, node) in pass.named(rotates || !attends) {
            add(&mut values, key, node, Span { offset, tokens, total });
        }
        offset += tokens;
    }
    dump.origin.prompt_tokens = sizes.get(first).copied().filter(|&size| size > 0);
    dump.known.extend(values);
}

/// What a node is.
enum Found {
    Value(Key, String),
    /// Known to be a copy or a step without a name of ours.
    Nothing,
    Unknown,
}

fn step(node: &Node, names: &Names) -> Found {
    let (base, decorated) = match node.name.split_once(" (") {
        Some((base, _)) => (base, true),
        None => (node.name.as_str(), false),
    };
    let source = node.sources.first().map_or("", String::as_str);
    let copy = COPIES.contains(&node.op.as_str());
    let mut op = node.op.to_ascii_lowercase();
    if copy {
        let source = source.split(" (").next().unwrap_or_default();
        let other = match source.rsplit_once('-').map_or(source, |(name, _)| name) {
            // Parts of a fused projection, and heads put side by side, are values under a name of their own.
            "wqkv" => Some("mul_mat"),
            "bqkv" => Some("add"),
            _ if base.starts_with("kqv_out") || base.starts_with("kqv_merged_cont") => Some("cont"),
            _ => None,
        };
        match other {
            Some(other) if source != base && !decorated => op = other.to_owned(),
            _ => return Found::Nothing,
        }
    }
    let made = |weight: &str, with_bias| {
        let mut parts = names.wiring.as_ref()?.made_by(weight, with_bias)?;
        (parts.len() == 1).then(|| parts.remove(0).0)
    };
    if node.op == "GET_ROWS" && source == "token_embd.weight" {
        let key = made("token_embd", false).unwrap_or_else(|| Key::new("inp_embd", None));
        return Found::Value(key, op);
    }
    if let Some(key) = product(node, source) {
        return Found::Value(key, op);
    }
    // Products that only this model's wiring has a name for, whatever theirs is.
    let weighed = match (node.op.as_str(), node.sources.get(1)) {
        ("MUL_MAT", _) => source.strip_suffix(".weight").and_then(|weight| made(weight, false)),
        ("ADD", Some(bias)) => bias.strip_suffix(".bias").and_then(|weight| made(weight, true)),
        _ => None,
    };
    if let Some(key) =
        weighed.filter(|key| !matches!(names.meaning(base), Meaning::Value(ref known, _) if known == key))
    {
        return Found::Value(key, op);
    }
    match names.meaning(base) {
        // The last norm before its weight; other programs call the result so.
        Meaning::Value(..) if base == "norm" => Found::Nothing,
        Meaning::Value(key, _) => Found::Value(key, op),
        Meaning::Unknown if !is_unnamed(base) && !decorated => Found::Unknown,
        _ => Found::Nothing,
    }
}

/// The value that a product with a weight of the model is, or a bias added to it.
fn product(node: &Node, source: &str) -> Option<Key> {
    let weight = match node.op.as_str() {
        "MUL_MAT" => source.strip_suffix(".weight")?,
        "ADD" => node.sources.get(1)?.strip_suffix(".bias")?,
        _ => return None,
    };
    if weight == "output" || (weight == "token_embd" && node.op == "MUL_MAT") {
        return Some(Key::new("result_output", None));
    }
    let (layer, weight) = weight.strip_prefix("blk.")?.split_once('.')?;
    let (_, name) = PRODUCTS.iter().find(|(known, _)| *known == weight)?;
    Some(Key::new(*name, Some(layer.parse().ok()?)))
}

/// Names the scheduler or the graph gives itself: numbered nodes, caches, attention's inner views.
fn is_unnamed(name: &str) -> bool {
    let word = name.split(['-', ' ', '_']).next().unwrap_or_default();
    matches!(word, "node" | "leaf" | "cache" | "norm" | "k" | "v" | "q" | "inp" | "KQ" | "rope" | "wqkv" | "bqkv" | "")
}

impl Pass<'_> {
    /// Tokens of the pass: rows of the embedding, or the most rows of any value.
    fn tokens(&self) -> usize {
        let embedding = self.steps.iter().find(|step| step.key.name == "inp_embd");
        match embedding {
            Some(step) => step.node.ne[1],
            None => self.steps.iter().map(|step| rows_alone(&step.key, &step.op, step.node)).max().unwrap_or(0),
        }
    }

    /// The final name of every node: of those that come several times the last one has the name, and earlier ones their
    /// operation behind it. The last of queries and keys is one at or after the rotation, where the model rotates: a
    /// piece of a log may end before.
    fn named(&self, rotation_ends: bool) -> BTreeMap<Key, &Node> {
        let mut last: BTreeMap<&Key, usize> = BTreeMap::new();
        for (index, step) in self.steps.iter().enumerate() {
            last.insert(&step.key, index);
        }
        let rotated: BTreeSet<&Key> =
            self.steps.iter().filter(|step| step.op == "rope").map(|step| &step.key).collect();
        let mut named = BTreeMap::new();
        for (index, step) in self.steps.iter().enumerate() {
            let turns = rotation_ends && matches!(step.key.name.as_str(), "Qcur" | "Kcur");
            let ends = last.get(&step.key) == Some(&index) && (!turns || rotated.contains(&step.key));
            let key = match ends {
                true => step.key.clone(),
                false => Key::new(format!("{}.{}", step.key.name, step.op), step.key.layer),
            };
            named.insert(key, step.node);
        }
        named
    }
}

/// Rows of a value when the tokens of the pass are not known yet.
fn rows_alone(key: &Key, op: &str, node: &Node) -> usize {
    let [_, second, third, _] = node.ne;
    match key.name.as_str() {
        "kq" | "kq_soft_max" => second,
        _ if op == "rope" || third > 1 => third,
        "Qcur_normed" | "Kcur_normed" => 1,
        _ => second,
    }
}

/// A pass among all tokens.
#[derive(Clone, Copy)]
struct Span {
    offset: usize,
    tokens: usize,
    total: usize,
}

/// Adds a node's elements to its value; a node whose shape does not fit is left out.
fn add(values: &mut BTreeMap<Key, Evidence>, key: Key, node: &Node, span: Span) {
    let Some(printed) = &node.printed else { return };
    let [inner, second, third, _] = node.ne;
    let scores = matches!(key.name.as_str(), "kq" | "kq_soft_max");
    let seen = span.offset + span.tokens;
    let (rows, width) = if scores {
        (second, third.checked_mul(span.total))
    } else if third > 1 || (second != span.tokens && second > 1 && span.tokens == 1) {
        (third, inner.checked_mul(second))
    } else {
        (second, Some(inner))
    };
    let Some(width) = width.filter(|&width| width > 0) else { return };
    let first = match rows {
        _ if rows == span.tokens => span.offset,
        // The last layer goes on with the tokens whose logits are asked for: the last one.
        1 if span.tokens > 0 => seen - 1,
        _ => return,
    };
    if scores && inner < seen {
        return;
    }
    let shape = [third, second, inner];
    let mut cells = Vec::with_capacity(printed.cells.len());
    for cell in &printed.cells {
        let Some(at) = position(&cell.at, &shape) else { return };
        let (outer, middle, column) = (at / (inner * second), at / inner % second, at % inner);
        if !scores {
            let flat = (outer * second + middle) * inner + column;
            cells.push((flat / width, flat % width, cell.value));
        } else if column < seen {
            // The cache is longer than what is in it; the rest is padding.
            cells.push((middle, outer * span.total + column, cell.value));
        }
    }
    // Padding counts in a sum of scores, not of probabilities.
    let sum = node.sum.filter(|_| key.name != "kq" || inner == span.total);
    let precision = printed.cells.iter().map(|cell| cell.half_unit).fold(0.0, f64::max);
    let fresh = !values.contains_key(&key);
    let evidence = values.entry(key).or_insert_with(|| Evidence {
        width,
        rows: Some(Vec::new()),
        known: Known::Some(Vec::new()),
        sum,
        precision,
    });
    let (Some(tokens), Known::Some(known)) = (&mut evidence.rows, &mut evidence.known) else { return };
    if evidence.width != width {
        return;
    }
    let before = tokens.len();
    known.extend(cells.into_iter().map(|(row, column, value)| ((before + row) as i64, column as i64, value)));
    tokens.extend(first..first + rows);
    evidence.precision = evidence.precision.max(precision);
    if !fresh {
        evidence.sum = evidence.sum.zip(sum).map(|(all, more)| all + more);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::nodes, *};

    /// A node of `ne0 * ne1 * ne2` elements, all of them `value`.
    fn node(name: &str, op: &str, sources: &str, ne: [usize; 3], value: f32) -> String {
        let row = vec![format!("{value:.4}"); ne[0]].join(", ");
        let rows = vec![format!("[{row}],"); ne[1]].join("\n");
        let blocks = vec![format!("[\n{rows}\n],"); ne[2]].join("\n");
        let [inner, second, third] = ne;
        let sum = value * (inner * second * third) as f32;
        format!(
            "common_debug_cb_eval: {name} = (f32) {op}({sources}}}) = {{{inner}, {second}, {third}, 1}}\n[\n{blocks}\n]\n\
             sum = {sum:.6}\n"
        )
    }

    /// A pass of a model with one layer and biases, whose layer goes on with the last token alone.
    fn pass(tokens: usize, value: f32) -> String {
        let wide = [4, tokens, 1];
        let heads = [2, 2, tokens];
        [
            node("embd", "GET_ROWS", "token_embd.weight{4, 9, 1, 1}, inp_tokens{1, 1, 1, 1}", wide, value),
            node("norm-0", "RMS_NORM", "embd{4, 1, 1, 1}, ", wide, 0.0),
            node("attn_norm-0", "MUL", "norm-0{4, 1, 1, 1}, blk.0.attn_norm.weight{4, 1, 1, 1}", wide, value),
            node("Qcur-0", "MUL_MAT", "blk.0.attn_q.weight{4, 4, 1, 1}, attn_norm-0{4, 1, 1, 1}", wide, value + 1.0),
            node("Qcur-0", "ADD", "Qcur-0{4, 1, 1, 1}, blk.0.attn_q.bias{4, 1, 1, 1}", wide, value + 2.0),
            node("Qcur-0 (reshaped)", "RESHAPE", "Qcur-0{4, 1, 1, 1}, ", heads, value + 2.0),
            node("Qcur-0", "ROPE", "Qcur-0 (reshaped){2, 2, 1, 1}, inp_pos{1, 1, 1, 1}", heads, value + 3.0),
            node("Vcur-0", "MUL_MAT", "blk.0.attn_v.weight{4, 4, 1, 1}, attn_norm-0{4, 1, 1, 1}", wide, value + 4.0),
            node("Vcur-0", "ADD", "Vcur-0{4, 1, 1, 1}, blk.0.attn_v.bias{4, 1, 1, 1}", wide, value + 5.0),
            node("kqv_merged_cont-0", "CONT", "kqv_merged-0 (permuted){2, 2, 1, 1}, ", wide, value + 6.0),
            node(
                "kqv_out-0",
                "MUL_MAT",
                "blk.0.attn_output.weight{4, 4, 1, 1}, kqv_merged_cont-0{4, 1, 1, 1}",
                wide,
                7.0,
            ),
            node("node_31", "GET_ROWS", "kqv_out-0{4, 1, 1, 1}, inp_out_ids{1, 1, 1, 1}", [4, 1, 1], 7.0),
            node("l_out-0", "ADD", "ffn_out-0{4, 1, 1, 1}, ffn_inp-0{4, 1, 1, 1}", [4, 1, 1], value + 8.0),
            node("mystery-0", "GLU", "ffn_out-0{4, 1, 1, 1}, ", wide, 0.0),
        ]
        .concat()
    }

    fn read(text: &str) -> Dump {
        let mut dump = Dump::of("test");
        assemble(&nodes(text), &Names::default(), &mut dump);
        dump
    }

    #[test]
    fn passes_follow_each_other() {
        let dump = read(&[pass(2, 90.0), pass(3, 10.0), pass(1, 20.0), pass(1, 30.0)].concat());
        assert_eq!(dump.origin.prompt_tokens, Some(3));
        assert!(dump.unknown.iter().all(|name| name == "mystery-0") && !dump.unknown.is_empty());
        let found: BTreeMap<String, &Evidence> =
            dump.known.iter().map(|(key, value)| (key.to_string(), value)).collect();
        for (key, rows, values) in [
            ("inp_embd", vec![0, 1, 2, 3, 4], vec![10.0, 10.0, 10.0, 20.0, 30.0]),
            ("attn_norm-0", vec![0, 1, 2, 3, 4], vec![10.0, 10.0, 10.0, 20.0, 30.0]),
            ("Qcur.mul_mat-0", vec![0, 1, 2, 3, 4], vec![11.0, 11.0, 11.0, 21.0, 31.0]),
            ("Qcur.add-0", vec![0, 1, 2, 3, 4], vec![12.0, 12.0, 12.0, 22.0, 32.0]),
            ("Qcur-0", vec![0, 1, 2, 3, 4], vec![13.0, 13.0, 13.0, 23.0, 33.0]),
            ("Vcur.mul_mat-0", vec![0, 1, 2, 3, 4], vec![14.0, 14.0, 14.0, 24.0, 34.0]),
            ("Vcur-0", vec![0, 1, 2, 3, 4], vec![15.0, 15.0, 15.0, 25.0, 35.0]),
            ("kqv_out-0", vec![0, 1, 2, 3, 4], vec![16.0, 16.0, 16.0, 26.0, 36.0]),
            ("attn_out-0", vec![0, 1, 2, 3, 4], vec![7.0; 5]),
            ("l_out-0", vec![2, 3, 4], vec![18.0, 28.0, 38.0]),
        ] {
            let evidence = found[key];
            assert_eq!((evidence.width, evidence.rows.as_ref()), (4, Some(&rows)), "{key}");
            let expected: Vec<_> =
                (0..).zip(&values).flat_map(|(row, &value)| (0..4).map(move |c| (row, c, value))).collect();
            assert_eq!(evidence.known, Known::Some(expected), "{key}");
            let sum: f32 = values.iter().map(|value| 4.0 * value).sum();
            assert_eq!(evidence.sum, Some(f64::from(sum)), "{key}");
        }
        assert_eq!(found.len(), 10, "{:?}", found.keys());
    }

    #[test]
    fn a_log_without_the_embedding() {
        let query = |tokens, value| {
            let wide = [4, tokens, 1];
            node("Qcur-0", "MUL_MAT", "blk.0.attn_q.weight{4, 4, 1, 1}, attn_norm-0{4, 1, 1, 1}", wide, value)
        };
        let dump = read(&[query(2, 1.0), query(1, 2.0)].concat());
        let [(key, evidence)] = &dump.known[..] else { panic!("{:?}", dump.known) };
        // A piece of a log that ends before the rotation has no `Qcur`.
        assert_eq!((key.to_string().as_str(), &evidence.rows), ("Qcur.mul_mat-0", &Some(vec![0, 1, 2])));
    }

    #[test]
    fn a_model_that_does_not_rotate() {
        let text = [
            node("Qcur-0", "MUL_MAT", "blk.0.attn_q.weight{4, 4, 1, 1}, attn_norm-0{4, 1, 1, 1}", [4, 2, 1], 1.0),
            node("Qcur-0", "ADD", "Qcur-0{4, 1, 1, 1}, blk.0.attn_q.bias{4, 1, 1, 1}", [4, 2, 1], 2.0),
            node("kq-0", "MUL_MAT", "k-0{2, 4, 2, 1}, q-0{2, 2, 2, 1}", [2, 2, 2], 3.0),
        ];
        let keys: Vec<String> = read(&text.concat()).known.iter().map(|(key, _)| key.to_string()).collect();
        assert_eq!(keys, ["Qcur-0", "Qcur.mul_mat-0", "kq-0"]);
    }
}
