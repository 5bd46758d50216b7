//! What a model's own graph says about names: the keys that it has, and which values its weights make. A module of
//! another program is known by its weight, so that one name means in each wiring what that wiring does there.

use std::collections::HashMap;

use super::{Spelling, modules, spelling::Side};
use crate::{Graph, Key, Kind, NodeId};

/// The values that a model has, by name and by the weight that makes them.
#[derive(Clone, Debug, Default)]
pub struct Wiring {
    pub(crate) arch: String,
    /// Ids of tokens are below it.
    pub(crate) vocab: usize,
    /// Heads that have keys of their own.
    pub(super) groups: usize,
    /// Heads.
    pub(super) heads: usize,
    /// Whether one stack of layers reads for another.
    pub(super) two_stacks: bool,
    spelled: HashMap<(String, Option<usize>), Key>,
    widths: HashMap<Key, Option<usize>>,
    made: HashMap<String, Vec<Made>>,
    /// What the value that opens the stream is made of.
    opens_from: Option<Key>,
    /// What the feed-forward block of a layer with experts adds to the stream.
    blocks: HashMap<usize, Key>,
    /// What a layer adds to the stream last, whatever it is.
    last_added: HashMap<usize, Key>,
    /// What a model without a head ends with.
    last: Option<Key>,
}

/// What the names of a whole dump tell of single ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spoken {
    /// `inp_embd` is what comes before a name such as `inpL` or `inp_norm`.
    opens_late: bool,
    /// Products are dumped before their bias, too.
    pub(super) bias_apart: bool,
    /// So are the router's.
    router_apart: bool,
    /// Attention has its norm beside it, as DistilBERT has it, and not inside.
    norm_beside: bool,
    /// `attn_norm` is one of two norms of a layer's input, and not attention's.
    two_norms: bool,
    /// Norms add to the stream first, as in vLLM: a layer gives what the next norm is to add, and the stream before it.
    norms_add: bool,
    /// Heads have a name behind their norm.
    normed_apart: bool,
}

impl Spoken {
    pub(crate) fn of<'a>(names: impl Iterator<Item = &'a str>) -> Spoken {
        let mut spoken = Spoken::default();
        for name in names {
            let lower = name.to_ascii_lowercase();
            spoken.opens_late |= ["inpl", "inp_norm", "inp_scaled"].iter().any(|start| lower.starts_with(start));
            spoken.bias_apart |=
                lower.contains("after_bias") || lower.starts_with("wqkv_b") || lower.starts_with("bqkv");
            spoken.norm_beside |= lower.contains("sa_layer_norm");
            spoken.two_norms |= lower.starts_with("attn_norm_2");
            spoken.router_apart |= lower.starts_with("ffn_moe_logits_biased");
            let spelling = Spelling::of(name);
            let (side, module) = spelling.side();
            spoken.normed_apart |= lower.starts_with("qcur_norm-") || lower.starts_with("kcur_norm-");
            spoken.norms_add |= side == Side::Stream && module.last().is_some_and(|word| word.contains("norm"));
        }
        spoken
    }
}

/// What one weight, or some of its rows, makes.
#[derive(Clone, Debug)]
struct Made {
    /// The first of its rows.
    from: usize,
    /// The product or the norm.
    plain: Key,
    /// The same with its bias, or the product itself.
    output: Key,
    input: Option<Key>,
    width: usize,
}

impl Wiring {
    /// Lists what a graph has.
    pub fn of(graph: &Graph) -> Wiring {
        let mut wiring = Wiring {
            arch: graph.arch.clone(),
            vocab: graph.config.vocab,
            groups: graph.config.heads.kv_heads,
            heads: graph.config.heads.heads,
            two_stacks: graph.config.start.is_some(),
            ..Wiring::default()
        };
        let mut biased: HashMap<NodeId, NodeId> = HashMap::new();
        for (id, node) in graph.nodes.iter().enumerate() {
            if let (Kind::Bias(_), Some(&product)) = (&node.kind, node.inputs.first()) {
                biased.entry(product).or_insert(id);
            }
        }
        for (id, node) in graph.nodes.iter().enumerate() {
            let scores = matches!(node.kind, Kind::Scores(_) | Kind::SoftMax(_));
            let width = (!scores).then(|| node.width * node.per_token);
            wiring.widths.insert(node.key.clone(), width);
            let spelling = Spelling::of(&node.key.name);
            let spelled = (spelling.words.join("_"), node.key.layer);
            wiring.spelled.entry(spelled).or_insert_with(|| node.key.clone());
            let makes = !matches!(node.kind, Kind::Bias(_) | Kind::SoftMax(_) | Kind::Route { .. });
            let Some(weight) = node.kind.weight().filter(|_| makes) else { continue };
            let (name, rows) = weight.whole();
            let name = name.strip_suffix(".weight").unwrap_or(name);
            // A head that is the embedding's table has a product of its own.
            let tied = name == "token_embd" && !matches!(node.kind, Kind::Embed(_));
            let name = if tied { "output" } else { name };
            let output = biased.get(&id).unwrap_or(&id);
            wiring.made.entry(name.to_owned()).or_default().push(Made {
                from: rows.map_or(0, |rows| rows.start),
                plain: node.key.clone(),
                output: graph.nodes[*output].key.clone(),
                input: node.inputs.first().map(|&input| graph.nodes[input].key.clone()),
                width: node.width * node.per_token,
            });
        }
        let opens = graph.find(&Key::new("inp_embd", None)).map(|id| &graph.nodes[id]);
        wiring.opens_from = opens.and_then(|node| Some(graph.nodes[*node.inputs.first()?].key.clone()));
        for node in graph.nodes.iter().filter(|node| node.key.name == "l_out" && matches!(node.kind, Kind::Add)) {
            let mut inputs = node.inputs.iter().map(|&input| &graph.nodes[input]);
            let mut last = inputs.clone().filter(|input| input.key.name != "ffn_inp");
            if let (Some(layer), Some(last), None) = (node.key.layer, last.next(), last.next()) {
                wiring.last_added.insert(layer, last.key.clone());
            }
            let added = |input: &&crate::Node| input.key.name != "ffn_inp" && matches!(input.kind, Kind::Add);
            let block = inputs.clone().find(added).or_else(|| inputs.find(|input| input.key.name == "ffn_moe_out"));
            let experts = graph.find(&Key::new("ffn_moe_out", node.key.layer)).is_some();
            if let (Some(layer), Some(block), true) = (node.key.layer, block, experts) {
                wiring.blocks.insert(layer, block.key.clone());
            }
        }
        wiring.last = graph.nodes.last().map(|node| node.key.clone());
        for parts in wiring.made.values_mut() {
            parts.sort_by_key(|part| part.from);
        }
        wiring
    }

    /// How many layers it has.
    pub(crate) fn layers(&self) -> Option<usize> {
        self.widths.keys().filter_map(|key| key.layer).max().map(|last| last + 1)
    }

    /// Whether the model has a value.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.widths.contains_key(key)
    }

    /// Elements of a token's row; `None` for scores, which are as wide as there are tokens, and for other models' values.
    pub(crate) fn width(&self, key: &Key) -> Option<usize> {
        self.widths.get(key).copied().flatten()
    }

    /// What an engine hands out as a token's embedding, and its width.
    pub(crate) fn embedding(&self) -> Option<(Key, usize)> {
        let norm = Some(Key::new("result_norm", None)).filter(|key| self.has(key));
        let key = norm.or_else(|| self.last.clone())?;
        Some((key.clone(), self.width(&key)?))
    }

    /// Elements of a head of queries, keys, values or what attention makes of them.
    pub(crate) fn head(&self, key: &Key) -> Option<usize> {
        let heads = match key.name.split('.').next()? {
            "Qcur" | "Qcur_normed" | "kqv_out" => self.heads,
            "Kcur" | "Kcur_normed" | "Vcur" => self.groups,
            _ => return None,
        };
        self.width(key)?.checked_div(heads)
    }

    /// The value with this name, in any spelling of it.
    pub(crate) fn find(&self, name: &str) -> Option<Key> {
        let key: Key = name.parse().unwrap_or_else(|never| match never {});
        if self.has(&key) {
            return Some(key);
        }
        let Spelling { words, layer, encodes } = Spelling::of(name);
        self.spelled.get(&(words.join("_"), layer)).filter(|_| !(encodes && self.two_stacks)).cloned()
    }

    /// The values, one beside the other, that a weight makes, with their widths; before or after the bias.
    pub(crate) fn made_by(&self, weight: &str, with_bias: bool) -> Option<Vec<(Key, usize)>> {
        let parts = self.made.get(weight)?;
        let apart = parts.windows(2).all(|pair| pair[0].from < pair[1].from);
        let key = |part: &Made| if with_bias { part.output.clone() } else { part.plain.clone() };
        // A weight that several layers share makes no one value.
        apart.then(|| parts.iter().map(|part| (key(part), part.width)).collect())
    }

    /// Names of programs that mean a value which is no module's.
    pub(super) fn alias(&self, words: &str, layer: Option<usize>, spoken: Spoken) -> Option<Key> {
        let key = |name: &str| Some(Key::new(name, layer)).filter(|key| self.has(key));
        let first = |names: &[&str]| names.iter().find_map(|name| key(name));
        let of_weight = |weight: &str| format!("blk.{}.{weight}", layer.unwrap_or(0));
        let opens = || Some(Key::new("inp_embd", None)).filter(|key| self.has(key));
        let experts = key("ffn_moe_out").is_some();
        match words {
            "inpl" | "inp_norm" | "inp_scaled" => opens(),
            "inp_embd" if spoken.opens_late => self.opens_from.clone(),
            "embd" if spoken.opens_late => self.made_by("token_embd", false).map(|mut parts| parts.remove(0).0),
            "result_embd" | "final_norm_out" => Some(Key::new("result_norm", None)).filter(|key| self.has(key)),
            "sa_out" => key("ffn_inp"),
            // vLLM: tuples, and modules that do two steps in one.
            "layer" if spoken.norms_add => self.last_added.get(&layer?).cloned(),
            "self_attn_rotary_emb_output_0" if spoken.norms_add => key("Qcur"),
            "self_attn_rotary_emb_output_1" if spoken.norms_add => key("Kcur"),
            "self_attn_attn" | "attn_attn" => key("kqv_out"),
            "mlp_act_fn" if spoken.norms_add && !experts => first(&["ffn_swiglu", "ffn_gate_par", "ffn_act"]),
            "k_pe" => key("Kcur.rope"),
            "q_pe" => key("Qcur.rope"),
            // Heads that are normed behind the rotation have both names in llama.cpp's graphs.
            "kcur_norm" if key("Kcur.rope").is_some() && key("Kcur_normed").is_none() => key("Kcur"),
            "qcur_norm" if key("Qcur.rope").is_some() && key("Qcur_normed").is_none() => key("Qcur"),
            "kcur" if spoken.normed_apart => key("Kcur.rope").filter(|_| key("Kcur_normed").is_none()),
            "qcur" if spoken.normed_apart => key("Qcur.rope").filter(|_| key("Qcur_normed").is_none()),
            "ffn_moe_logits_biased" => key("ffn_moe_logits"),
            "ffn_moe_logits" if spoken.router_apart => key("ffn_moe_logits.mul_mat"),
            "ffn_geglu" | "ffn_reglu" | "ffn_glu" | "ffn_gate_act" => first(&["ffn_gate_par", "ffn_swiglu"]),
            "ffn_gelu"
            | "ffn_relu"
            | "ffn_sqr_relu"
            | "ffn_xielu"
            | "ffn_activation"
            | "ffn_act"
            | "mlp_act"
            | "mlp_act_fn"
            | "mlp_activation"
            | "mlp_gelu_impl"
            | "mlp_activation_fn"
            | "intermediate"
            | "intermediate_intermediate_act_fn"
                if !experts =>
            {
                first(&["ffn_act", "ffn_silu", "ffn_gate_par.gelu"])
            }
            // As llama.cpp has them, by the names of their weights: the first is the feed-forward block's.
            "attn_norm" | "attn_norm_2" if spoken.two_norms && self.made.contains_key(&of_weight("attn_norm_2")) => {
                self.made_by(&of_weight(words), true).map(|mut parts| parts.remove(0).0)
            }
            "attention" if spoken.norm_beside => {
                self.made_by(&of_weight("attn_output"), true).map(|mut parts| parts.remove(0).0)
            }
            // Its modules add the stream to what they make.
            "self_attention" if self.arch == "bloom" => key("ffn_inp"),
            "mlp" if self.arch == "bloom" => key("l_out"),
            "attn_gated" => self.applied_to(&of_weight("attn_output")),
            "attention_self" => key("kqv_out"),
            // llama.cpp has the heads' values behind the product that it takes apart from the rest.
            "kqv_out" if self.made.contains_key(&of_weight("attn_v_b")) => {
                self.made_by(&of_weight("attn_v_b"), true).map(|mut parts| parts.remove(0).0)
            }
            "mlp_experts" | "block_sparse_moe_experts" | "feed_forward_experts" | "experts" => key("ffn_moe_out"),
            "mlp" | "block_sparse_moe" | "feed_forward" | "ffn" | "moe" | "ffn_out" if experts => {
                self.blocks.get(&layer?).cloned()
            }
            _ => None,
        }
    }

    /// Whether some layers keep a state.
    pub(super) fn keeps_states(&self) -> bool {
        self.made.keys().any(|weight| weight.contains(".ssm_") || weight.contains(".time_mix_"))
    }

    /// What the names of a stack's weights begin with.
    fn stack(&self, of: &Spelling) -> &'static str {
        match (self.two_stacks, of.encodes) {
            (false, _) => "",
            (true, true) => "enc.",
            (true, false) => "dec.",
        }
    }

    /// The weights that a module may have, of those that the model has.
    pub(super) fn module(&self, words: &[String], of: &Spelling) -> Vec<String> {
        let (module, layer) = (words.join("_"), of.layer);
        // One norm has no need of a name of its own; of several this would be any.
        let bare = matches!(module.as_str(), "norm" | "layernorm" | "input_norm") && layer.is_some();
        let full = |weight: &&str| match layer {
            Some(layer) => format!("{}blk.{layer}.{weight}", self.stack(of)),
            None => (*weight).to_owned(),
        };
        let weights = modules::weights(&self.arch, &module, layer.is_some());
        let mut all: Vec<String> = weights.iter().map(full).filter(|weight| self.made.contains_key(weight)).collect();
        if bare && layer.is_some_and(|layer| self.made.contains_key(&format!("blk.{layer}.ffn_norm"))) {
            all.clear();
        }
        all
    }

    /// The weights that a module has in one, where the file has them apart or in another order, and in how many groups
    /// their outputs lie.
    pub(super) fn fused(&self, words: &[String], of: &Spelling) -> Option<(Vec<String>, usize)> {
        let layer = of.layer?;
        let full = |weight: &str| format!("{}blk.{layer}.{weight}", self.stack(of));
        let module = words.join("_");
        let weights = modules::weights(&self.arch, &module, true);
        let apart: Vec<String> = match weights.first() {
            Some(&"attn_qkv") => ["attn_q", "attn_k", "attn_v"].map(full).into(),
            Some(&"ffn_up") if module.ends_with("gate_up_proj") => ["ffn_gate", "ffn_up"].map(full).into(),
            _ => return None,
        };
        // Heads side by side with their keys and values; the file's converter puts them apart.
        let groups = match self.arch.as_str() {
            "gptneox" | "bloom" if module.ends_with("query_key_value") => self.heads,
            "falcon" if module.ends_with("query_key_value") => self.groups,
            "internlm2" if module.ends_with("wqkv") => self.groups,
            _ => 1,
        };
        if apart.iter().all(|weight| self.made.contains_key(weight)) {
            return Some((apart, groups));
        }
        let one = full(weights.first()?);
        (groups > 1 && self.made.contains_key(&one)).then(|| (vec![one], groups))
    }

    /// The value that a common name stands for where the wiring has another one: with the bias, of the experts.
    pub(super) fn nearest(&self, key: Key) -> Key {
        let others: &[&str] = match key.name.as_str() {
            "Qcur.mul_mat" => &["Qcur.add", "Qcur.mul_mat", "Qcur"],
            "Kcur.mul_mat" => &["Kcur.add", "Kcur.mul_mat", "Kcur"],
            "ffn_out" if !self.has(&key) => {
                return key.layer.and_then(|layer| self.blocks.get(&layer)).cloned().unwrap_or(key);
            }
            "ffn_swiglu" => &["ffn_swiglu", "ffn_gate_par", "ffn_act"],
            "attn_post_norm" => &["attn_post_norm", "post_attention_norm"],
            _ => &[],
        };
        let others = others.iter().map(|name| Key::new(*name, key.layer));
        others.into_iter().find(|other| self.has(other)).unwrap_or(key)
    }

    /// What a weight is applied to.
    pub(crate) fn applied_to(&self, weight: &str) -> Option<Key> {
        self.made.get(weight)?.first()?.input.clone()
    }
}
