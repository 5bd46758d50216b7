//! From nodes in the order of computation to values: which node is which value, where one pass ends and the next
//! begins, which tokens its rows are.

use std::collections::{BTreeMap, BTreeSet};

use super::node::Node;
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
    /// Whether its weight or its place in attention says what it is, and not its name alone.
    sure: bool,
}

/// One evaluation of a batch.
#[derive(Default)]
struct Pass<'a> {
    steps: Vec<Step<'a>>,
}

/// Adds the values of all passes to a dump.
pub(super) fn assemble(nodes: &[Node], names: &Names, dump: &mut Dump) {
    let aside = aside(nodes);
    let nodes = || nodes.iter().zip(&aside).filter(|(_, aside)| !**aside).map(|(node, _)| node);
    let embeds = |node: &Node| node.op == "GET_ROWS" && node.sources.iter().any(|name| name == "token_embd.weight");
    let by_embedding = nodes().any(embeds);
    let links = Links::of(nodes().collect(), names);
    dump.origin.cache = links.cache();
    let roles = links.roles(names);
    let mut passes: Vec<Pass> = vec![Pass::default()];
    let mut seen = BTreeSet::new();
    for (at, &node) in links.nodes.iter().enumerate() {
        let (key, op, sure) = match (&links.found[at], roles.get(&at)) {
            (Found::Value { key, op, sure: true }, _) => (key.clone(), op.clone(), true),
            (_, Some(key)) => (key.clone(), node.op.to_ascii_lowercase(), true),
            (Found::Value { key, op, sure }, None) => (key.clone(), op.clone(), *sure),
            (Found::Unknown, None) => {
                dump.unknown.push(node.name.clone());
                continue;
            }
            (Found::Nothing, None) => continue,
        };
        if links.is_scaled(at) {
            continue;
        }
        let again = !seen.insert((key.clone(), op.clone()));
        // The embedding opens a pass; a filtered log has none, and there a node that comes again does.
        let opens = if by_embedding { embeds(node) } else { again };
        if opens && passes.last().is_some_and(|pass| !pass.steps.is_empty()) {
            passes.push(Pass::default());
            seen.clear();
            seen.insert((key.clone(), op.clone()));
        }
        if let Some(pass) = passes.last_mut() {
            pass.steps.push(Step { key, op, node, sure });
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
        for (key, node) in pass.named(rotates || !attends, names.wiring.is_some()) {
            add(&mut values, key, node, Span { offset, tokens, total });
        }
        offset += tokens;
    }
    dump.origin.prompt_tokens = sizes.get(first).copied().filter(|&size| size > 0);
    dump.known.extend(values);
}

/// The nodes that lead nowhere: llama.cpp makes room for rows of images and sound beside a text's (llama-graph.cpp,
/// `build_inp_embd`), and prints the empty rows too.
fn aside(nodes: &[Node]) -> Vec<bool> {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    let mut aside = Vec::with_capacity(nodes.len());
    for node in nodes {
        let of_images = node.sources.iter().any(|source| source.starts_with("inp_mixed_"));
        let copies =
            COPIES.contains(&node.op.as_str()) && node.sources.iter().any(|name| names.contains(name.as_str()));
        match of_images || copies {
            true => names.insert(&node.name),
            false => names.remove(node.name.as_str()),
        };
        aside.push(of_images || copies);
    }
    aside
}

/// What a node is.
enum Found {
    Value {
        key: Key,
        op: String,
        /// Whether the weight says so that it is made of.
        sure: bool,
    },
    /// Known to be a copy or a step without a name of ours.
    Nothing,
    Unknown,
}

/// Nodes with those that they are made of: the last ones before them of the names that their headers have.
struct Links<'a> {
    nodes: Vec<&'a Node>,
    sources: Vec<Vec<Option<usize>>>,
    found: Vec<Found>,
}

impl<'a> Links<'a> {
    fn of(nodes: Vec<&'a Node>, names: &Names) -> Links<'a> {
        // Of several with one name, the last of the shape that is read.
        let mut last: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut sources: Vec<Vec<Option<usize>>> = Vec::with_capacity(nodes.len());
        for (at, node) in nodes.iter().enumerate() {
            let source = |(name, shape): (&String, &Option<[usize; 4]>)| {
                let of_name = last.get(name.as_str())?;
                let fits = |&&at: &&usize| shape.is_none_or(|shape| nodes[at].ne == shape);
                of_name.iter().rev().take(8).find(fits).copied()
            };
            sources.push(node.sources.iter().zip(&node.shapes).map(source).collect());
            last.entry(&node.name).or_default().push(at);
        }
        // A product or a norm that has a bias added to it.
        let bias =
            |node: &Node| Some((node.op == "ADD").then_some(node.sources.get(1)?.strip_suffix(".bias")?)?.to_owned());
        let mut biased = BTreeSet::new();
        for (node, sources) in nodes.iter().zip(&sources) {
            if let (Some(weight), Some(Some(source))) = (bias(node), sources.first()) {
                biased.insert((*source, weight));
            }
        }
        let mut found: Vec<Found> = Vec::with_capacity(nodes.len());
        for (at, node) in nodes.iter().enumerate() {
            let with = |weight: &str| biased.contains(&(at, weight.to_owned()));
            let what = if is_reordered(node, sources[at].first().and_then(|at| found.get((*at)?)), names) {
                Found::Nothing
            } else {
                step(node, names, with)
            };
            found.push(what);
        }
        Links { nodes, sources, found }
    }

    fn source(&self, at: usize, index: usize) -> Option<usize> {
        self.sources[at].get(index).copied().flatten()
    }

    /// The node that computed what copies, and turns by a matrix that is taken back later, lead from.
    fn origin(&self, mut at: usize) -> usize {
        loop {
            let node = self.nodes[at];
            let source = match node.op.as_str() {
                op if COPIES.contains(&op) && !matches!(self.found[at], Found::Value { .. }) => self.source(at, 0),
                "MUL_MAT" if is_turn(node) => self.source(at, 1),
                _ => None,
            };
            match source {
                Some(source) => at = source,
                None => return at,
            }
        }
    }

    /// The types that keys and values are kept in.
    fn cache(&self) -> Option<[String; 2]> {
        let of = |what: char| {
            let written = self.nodes.iter().find(|node| matches!(cached(node), Some((kept, _)) if kept == what));
            written.map(|node| node.kind.clone())
        };
        Some([of('k')?, of('v')?])
    }

    /// Queries, keys and values as attention reads them, whatever they are called, and its result where it is turned back.
    fn roles(&self, names: &Names) -> BTreeMap<usize, Key> {
        let mut roles = BTreeMap::new();
        let mut add = |name: &str, layer: Option<usize>, at: Option<usize>| {
            let Some(mut at) = at.map(|at| self.origin(at)) else { return };
            // The scale of scores, inside of queries.
            if name == "Qcur" && self.nodes[at].op == "SCALE" {
                at = self.source(at, 0).map_or(at, |source| self.origin(source));
            }
            let node = self.nodes[at];
            let Some(layer) = layer.or_else(|| layer_of(&node.name)) else { return };
            let of_another = match &self.found[at] {
                Found::Value { key, .. } => {
                    ["Qcur", "Kcur", "Vcur"].iter().any(|other| *other != name && key.name.starts_with(other))
                }
                _ => false,
            };
            // Latent attention reads what this model's graph does not have.
            let wiring = names.wiring.as_ref();
            let latent = wiring.is_some_and(|wiring| wiring.made_by(&format!("blk.{layer}.attn_v_b"), true).is_some());
            if !of_another && !latent && !node.ne.contains(&0) {
                roles.insert(at, Key::new(name, Some(layer)));
            }
        };
        let mut result = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let named = || node.sources.iter().find_map(|name| cache_layer(name).or_else(|| layer_of(name)));
            let base = node.name.rsplit_once('-').map_or(node.name.as_str(), |(base, _)| base);
            match (node.op.as_str(), cached(node)) {
                (_, Some((what, layer))) => {
                    add(if what == 'k' { "Kcur" } else { "Vcur" }, Some(layer), self.source(at, 0));
                }
                ("FLASH_ATTN_EXT", _) => {
                    add("Qcur", named(), self.source(at, 0));
                    add("Kcur", named(), self.uncached(at, 1));
                }
                ("MUL_MAT", _) if base == "kq" => {
                    let layer = layer_of(&node.name).or_else(named);
                    add("Qcur", layer, self.source(at, 1));
                    add("Kcur", layer, self.uncached(at, 0));
                }
                ("MUL_MAT", _) if base == "kqv" => {
                    add("Vcur", layer_of(&node.name), self.uncached(at, 0));
                }
                ("RESHAPE", _) => {
                    let turned = self.source(at, 0).filter(|&turned| is_turn(self.nodes[turned]));
                    let attended = turned.and_then(|turned| Some(self.origin(self.source(turned, 1)?)));
                    if let Some(Found::Value { key, .. }) = attended.map(|at| &self.found[at])
                        && key.name == "kqv_out"
                    {
                        result.push((at, key.clone()));
                    }
                }
                _ => {}
            }
        }
        roles.extend(result);
        roles
    }

    /// Whether a node is scores of queries that were scaled before, which this model's graph does not have.
    fn is_scaled(&self, at: usize) -> bool {
        let query = self.source(at, 1).map(|query| self.origin(query));
        let named = self.nodes[at].name.starts_with("kq-") && self.nodes[at].op == "MUL_MAT";
        named && query.is_some_and(|query| self.nodes[query].op == "SCALE")
    }

    /// What a product of attention reads, where that is no cache.
    fn uncached(&self, at: usize, index: usize) -> Option<usize> {
        let origin = self.origin(self.source(at, index)?);
        let mut names = self.nodes[origin].sources.iter().chain([&self.nodes[origin].name]);
        (!names.any(|name| name.starts_with("cache_"))).then_some(origin)
    }
}

/// Whether a node is a vector of the model on another value than this model's graph has it on: llama.cpp has RWKV's
/// `k + (a * k_a * k - k_a * k)` where others have `k + k_a * (a * k - k)`.
fn is_reordered(node: &Node, source: Option<&Found>, names: &Names) -> bool {
    let weight = node.sources.get(1).and_then(|name| name.strip_suffix(".weight")).filter(|_| node.op == "MUL");
    let ours = weight.and_then(|weight| names.wiring.as_ref()?.applied_to(weight));
    match (ours, source) {
        (Some(ours), Some(Found::Value { key, sure: true, .. })) => *key != ours,
        _ => false,
    }
}

/// Whether a node turns heads by a matrix that scores and results are free of in the end, as llama.cpp does in front of a
/// quantized cache (llama-kv-cache.cpp).
fn is_turn(node: &Node) -> bool {
    node.op == "MUL_MAT"
        && node.sources.first().is_some_and(|name| name.starts_with("attn_inp_") && name.ends_with("_rot"))
}

/// The layer at the end of a name: `Qcur-0 (view)`.
fn layer_of(name: &str) -> Option<usize> {
    name.split(" (").next()?.rsplit_once('-')?.1.parse().ok()
}

/// The layer of a cache: `cache_k_l0 (view)`.
fn cache_layer(name: &str) -> Option<usize> {
    let rest = name.strip_prefix("cache_")?.get(1..)?.strip_prefix("_l")?;
    rest.split(" (").next()?.parse().ok()
}

/// Whether a node writes keys or values to a cache, and the layer.
fn cached(node: &Node) -> Option<(char, usize)> {
    let to = match node.op.as_str() {
        "SET_ROWS" => &node.name,
        "CPY" => node.sources.get(1)?,
        _ => return None,
    };
    let what = to.strip_prefix("cache_").unwrap_or(to).chars().next().filter(|what| matches!(what, 'k' | 'v'))?;
    let older = || to.get(1..)?.starts_with("_cache_view-").then(|| layer_of(to)).flatten();
    Some((what, cache_layer(to).or_else(older)?))
}

fn step(node: &Node, names: &Names, biased: impl Fn(&str) -> bool) -> Found {
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
    let sure = |key: Key| Found::Value { key, op: node.op.to_ascii_lowercase(), sure: true };
    let made = |weight: &str, with_bias| {
        let mut parts = names.wiring.as_ref()?.made_by(weight, with_bias)?;
        (parts.len() == 1).then(|| parts.remove(0).0)
    };
    if node.op == "GET_ROWS" && source == "token_embd.weight" {
        return sure(made("token_embd", false).unwrap_or_else(|| Key::new("inp_embd", None)));
    }
    if let Some(key) = product(node, source, names.wiring.is_some()) {
        return Found::Value { key, op, sure: false };
    }
    // What a weight of this model makes, whatever its name.
    let second = node.sources.get(1).map_or("", String::as_str);
    let weighed = match node.op.as_str() {
        "MUL_MAT" => source.strip_suffix(".weight").map(|weight| (weight, false)),
        "MUL" => second.strip_suffix(".weight").map(|weight| (weight, false)),
        "ADD" => second.strip_suffix(".bias").map(|weight| (weight, true)),
        _ => None,
    };
    if let (Some((weight, with_bias)), Some(wiring)) = (weighed, &names.wiring) {
        match wiring.made_by(weight, with_bias).as_deref() {
            // A norm is one with its bias.
            Some([_]) if node.op == "MUL" && biased(weight) => return Found::Nothing,
            Some([(key, _)]) => return sure(key.clone()),
            // Products that an engine has in one.
            Some([_, _, ..]) => return Found::Nothing,
            _ => {}
        }
    }
    let latent = || {
        let weight = format!("blk.{}.attn_v_b", layer_of(base)?);
        names.wiring.as_ref()?.made_by(&weight, true)
    };
    if node.op == "CONCAT" && (base.starts_with("Qcur") || base.starts_with("Kcur")) && latent().is_some() {
        // Latent attention, with queries that heads' matrices are multiplied into.
        return Found::Nothing;
    }
    if node.op == "GET_ROWS" && (base.starts_with("ffn_inp") || base.starts_with("ffn_norm")) {
        // The last rows of what attention, or a state, gives (Jamba, Llama 4), under a name of what follows.
        return Found::Nothing;
    }
    match names.meaning(base) {
        // The last norm before its weight; other programs call the result so.
        Meaning::Value(..) if base == "norm" => Found::Nothing,
        Meaning::Value(key, _) => Found::Value { key, op, sure: false },
        Meaning::Unknown if !is_unnamed(base) && !decorated => Found::Unknown,
        _ => Found::Nothing,
    }
}

/// The value that a product with a weight of the model is, or a bias added to it.
fn product(node: &Node, source: &str, wired: bool) -> Option<Key> {
    let weight = match node.op.as_str() {
        "MUL_MAT" => source.strip_suffix(".weight")?,
        "ADD" => node.sources.get(1)?.strip_suffix(".bias")?,
        _ => return None,
    };
    if weight == "output" || (weight == "token_embd" && node.op == "MUL_MAT") {
        return Some(Key::new("result_output", None));
    }
    if wired {
        // The wiring knows better.
        return None;
    }
    let (layer, weight) = weight.strip_prefix("blk.")?.split_once('.')?;
    let (_, name) = PRODUCTS.iter().find(|(known, _)| *known == weight)?;
    Some(Key::new(*name, Some(layer.parse().ok()?)))
}

/// Names the scheduler or the graph gives itself: numbered nodes, caches, attention's inner views.
fn is_unnamed(name: &str) -> bool {
    let word = name.split(['-', ' ', '_', '(']).next().unwrap_or_default();
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
    fn named(&self, rotation_ends: bool, is_wired: bool) -> BTreeMap<Key, &Node> {
        let known: BTreeSet<&Key> = self.steps.iter().filter(|step| step.sure).map(|step| &step.key).collect();
        let mut last: BTreeMap<&Key, usize> = BTreeMap::new();
        for (index, step) in self.steps.iter().enumerate() {
            // A name may come again for another value, a weight does not.
            if step.sure || !known.contains(&step.key) {
                last.insert(&step.key, index);
            }
        }
        let rotated: BTreeSet<&Key> =
            self.steps.iter().filter(|step| step.op == "rope").map(|step| &step.key).collect();
        let mut named = BTreeMap::new();
        for (index, step) in self.steps.iter().enumerate() {
            if !step.sure && known.contains(&step.key) && is_wired {
                continue;
            }
            let turns = !step.sure && rotation_ends && matches!(step.key.name.as_str(), "Qcur" | "Kcur");
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

/// Whether a node has the rows of all tokens for each head, one head behind the other: products with a matrix for each.
fn by_head(node: &Node) -> bool {
    let [.., heads, _] = node.ne;
    let of_heads = |shape: &Option<[usize; 4]>| shape.is_some_and(|shape| shape[2] == heads);
    let weighed = node.sources.first().is_some_and(|name| name.ends_with(".weight"));
    node.op == "MUL_MAT" && heads > 1 && weighed && node.shapes.len() > 1 && node.shapes.iter().all(of_heads)
}

/// Rows of a value when the tokens of the pass are not known yet.
fn rows_alone(key: &Key, op: &str, node: &Node) -> usize {
    let [_, second, third, _] = node.ne;
    match key.name.as_str() {
        "kq" | "kq_soft_max" => second,
        _ if by_head(node) => second,
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
    } else if by_head(node) {
        (second, inner.checked_mul(third))
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
        if by_head(node) && !scores {
            cells.push((middle, outer * inner + column, cell.value));
        } else if !scores {
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

    /// What is known under each name: the first number of it.
    fn firsts(text: &str) -> BTreeMap<String, f32> {
        let first = |evidence: &Evidence| match &evidence.known {
            Known::Some(cells) => cells[0].2,
            Known::All(values) => values[0],
        };
        read(text).known.iter().map(|(key, evidence)| (key.to_string(), first(evidence))).collect()
    }

    #[test]
    fn rows_for_images_open_no_pass() {
        let wide = [4, 2, 1];
        let text = [
            node("embd", "GET_ROWS", "token_embd.weight{4, 9, 1, 1}, inp_tokens{2, 1, 1, 1}", wide, 1.0),
            node("node_1", "GET_ROWS", "token_embd.weight{4, 9, 1, 1}, inp_mixed_tokens{2, 1, 1, 1}", wide, 0.0),
            node("node_2", "DUP", "inp_mixed_embd{4, 2, 1, 1}, ", wide, 0.0),
            node(" (view)", "SET_ROWS", "node_1{4, 2, 1, 1}, inp_mixed_slots{2, 1, 1, 1}", wide, 0.0),
            node("l_out-0", "ADD", "embd{4, 2, 1, 1}, embd{4, 2, 1, 1}", wide, 2.0),
        ];
        let dump = read(&text.concat());
        assert_eq!(dump.origin.prompt_tokens, Some(2));
        let found: Vec<_> = dump.known.iter().map(|(key, evidence)| (key.to_string(), evidence.rows.clone())).collect();
        assert_eq!(found, ["inp_embd", "l_out-0"].map(|name| (name.to_owned(), Some(vec![0, 1]))));
    }

    #[test]
    fn queries_are_what_attention_reads() {
        let (wide, heads, turned) = ([4, 2, 1], [2, 2, 2], [2, 2, 2]);
        let product = |name: &str, weight: &str, value| {
            node(
                name,
                "MUL_MAT",
                &format!("blk.0.{weight}.weight{{4, 4, 1, 1}}, attn_norm-0{{4, 2, 1, 1}}"),
                wide,
                value,
            )
        };
        let text = [
            product("Qcur-0", "attn_q", 1.0),
            node("Qcur-0", "RESHAPE", "Qcur-0{4, 2, 1, 1}, ", heads, 1.0),
            node("Qcur_pos-0", "ROPE", "Qcur-0{2, 2, 2, 1}, inp_pos{2, 1, 1, 1}", heads, 2.0),
            node("node_4", "SCALE", "Qcur_pos-0{2, 2, 2, 1}, ", heads, 1.0),
            product("Kcur-0", "attn_k", 3.0),
            node("Kcur-0", "RESHAPE", "Kcur-0{4, 2, 1, 1}, ", heads, 3.0),
            node("Kcur-post-rope-0", "ROPE", "Kcur-0{2, 2, 2, 1}, inp_pos{2, 1, 1, 1}", heads, 4.0),
            product("Vcur-0", "attn_v", 5.0),
            node("Vcur_clamped-0", "CLAMP", "Vcur-0{4, 2, 1, 1}, ", wide, 6.0),
            node("cache_k_l0 (view)", "SET_ROWS", "Kcur-post-rope-0{2, 2, 2, 1}, k_idxs{2, 1, 1, 1}", wide, 4.0),
            node("cache_v_l0 (view)", "SET_ROWS", "Vcur_clamped-0{4, 2, 1, 1}, v_idxs{2, 1, 1, 1}", wide, 6.0),
            node("node_4 (permuted)", "PERMUTE", "node_4{2, 2, 2, 1}, ", turned, 1.0),
            node("kq-0", "MUL_MAT", "cache_k_l0 (permuted){2, 2, 2, 1}, node_4 (permuted){2, 2, 2, 1}", turned, 7.0),
        ];
        let found = firsts(&text.concat());
        for (key, value) in [("Qcur-0", 2.0), ("Kcur-0", 4.0), ("Vcur-0", 6.0)] {
            assert_eq!(found.get(key), Some(&value), "{key} of {found:?}");
        }
        assert_eq!(found.get("kq-0"), None, "scores that are scaled already");
    }

    #[test]
    fn heads_that_are_turned_for_a_quantized_cache() {
        let (wide, heads, flat) = ([4, 2, 1], [2, 2, 2], [2, 4, 1]);
        let cache = |name: &str, source: &str| {
            let sources = format!("{source}{{4, 2, 1, 1}}, idxs{{2, 1, 1, 1}}");
            node(name, "SET_ROWS", &sources, wide, 0.0).replace("(f32)", "(q4_0)")
        };
        let text = [
            node("Vcur-0", "MUL_MAT", "blk.0.attn_v.weight{4, 4, 1, 1}, attn_norm-0{4, 2, 1, 1}", wide, 1.0),
            node("Vcur-0 (reshaped)", "RESHAPE", "Vcur-0{4, 2, 1, 1}, ", flat, 1.0),
            node("node_2", "MUL_MAT", "attn_inp_v_rot{2, 2, 1, 1}, Vcur-0 (reshaped){2, 4, 1, 1}", flat, 9.0),
            node(" (reshaped)", "RESHAPE", "node_2{2, 4, 1, 1}, ", wide, 9.0),
            cache("cache_k_l0 (view)", "Kcur-0"),
            cache("cache_v_l0 (view)", "(reshaped)"),
            node("node_5", "FLASH_ATTN_EXT", "q{2, 2, 2, 1}, cache_k_l0 (view){2, 2, 2, 1}", heads, 8.0),
            node("kqv_out-0", "RESHAPE", "node_5{2, 2, 2, 1}, ", wide, 8.0),
            node("kqv_out-0 (reshaped)", "RESHAPE", "kqv_out-0{4, 2, 1, 1}, ", flat, 8.0),
            node("node_8", "MUL_MAT", "attn_inp_v_rot{2, 2, 1, 1}, kqv_out-0 (reshaped){2, 4, 1, 1}", flat, 2.0),
            node(" (reshaped)", "RESHAPE", "node_8{2, 4, 1, 1}, ", wide, 2.0),
        ]
        .concat();
        let found = firsts(&text);
        assert_eq!((found.get("Vcur-0"), found.get("kqv_out-0")), (Some(&1.0), Some(&2.0)), "{found:?}");
        assert_eq!(read(&text).origin.cache, Some(["q4_0", "q4_0"].map(str::to_owned)));
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
