//! What another engine's name of a value means in ours. Names are data, in `tables`; here is how a name is taken apart
//! so that a few rows cover many spellings. A name that nothing knows stays unknown: meanings are never guessed.

mod bias;
mod map_file;
mod modules;
mod spelling;
mod tables;
mod wiring;

use std::sync::Arc;

use crate::{Key, import::ReadOptions};

pub use bias::ProjectionBias;
pub use map_file::NameMap;
pub(crate) use spelling::Spelling;
use tables::{Index, LayerOf};
use wiring::Spoken;
pub use wiring::Wiring;

/// The order of a value's dimensions, where its name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// `[tokens, ...]`: whatever follows is one row.
    Tokens,
    /// `[heads, tokens, head_dim]`, as Transformers has queries and keys inside of attention.
    Heads,
    /// `[heads, tokens, positions]`.
    Scores,
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A value of ours.
    Value(Key, Order),
    /// Several, one beside the other.
    Parts(Parts),
    /// The token ids.
    Tokens,
    /// Transformers' `hidden_states[n]`: the embedding, then a layer each, and the last one after the final norm.
    HiddenState(usize),
    /// A step on the way whose value we have no name for, or a copy.
    Internal,
    /// No map knows it.
    Unknown,
}

/// Values that a program makes with one product, with their widths, in the order in which they lie in each group. One group
/// has all queries, then all keys, then all values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) keys: Vec<(Key, usize)>,
    pub(crate) groups: usize,
}

/// Which norms a layer has, by the names of the whole dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Norms {
    /// Before attention and before the feed-forward block; `post_attention_layernorm` is the latter.
    #[default]
    Before,
    /// Before and after both, as Gemma 2 has them; `post_attention_layernorm` belongs to attention.
    Around,
}

/// Everything needed to read names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) map: NameMap,
    pub(crate) bias: ProjectionBias,
    pub(crate) norms: Norms,
    /// What the model has, where it is at hand.
    pub(crate) wiring: Option<Arc<Wiring>>,
    /// What other names of the dump say.
    spoken: Spoken,
}

impl Names {
    /// Looks through all names of a dump first.
    pub(crate) fn for_dump<'a>(options: &ReadOptions, names: impl Iterator<Item = &'a str> + Clone) -> Names {
        let around = names.clone().any(|name| name.contains("pre_feedforward_layernorm"));
        let norms = if around { Norms::Around } else { Norms::Before };
        Names { norms, spoken: Spoken::of(names), ..Names::of(options) }
    }

    /// With what the reader knows.
    pub(crate) fn of(options: &ReadOptions) -> Names {
        let ReadOptions { names: map, bias, wiring, .. } = options.clone();
        Names { map, bias, norms: Norms::Before, wiring, spoken: Spoken::default() }
    }

    /// What a name stands for.
    pub(crate) fn meaning(&self, name: &str) -> Meaning {
        if let Some(key) = self.map.find(name) {
            return Meaning::Value(key.clone(), order_of(&key.name));
        }
        let wiring = self.wiring.as_deref();
        let node: Key = name.parse().unwrap_or_else(|never| match never {});
        let mut spelling = Spelling::of(name);
        if let (None, Some(layer)) = (spelling.layer, node.layer) {
            // llama.cpp's names end with their layer: `ssm_in-0` is no module's input.
            spelling = Spelling { layer: Some(layer), ..Spelling::of(&node.name) };
        }
        let alias = wiring.and_then(|wiring| {
            let (_, module) = spelling.side();
            let words = |words: &[String]| wiring.alias(&words.join("_"), spelling.layer, self.spoken);
            let plain = matches!(spelling.side().0, spelling::Side::Output | spelling::Side::Unsaid).then_some(module);
            words(&spelling.words)
                .or_else(|| plain.and_then(words))
                .filter(|_| !(spelling.encodes && wiring.two_stacks))
        });
        let own = alias.or_else(|| wiring.and_then(|wiring| wiring.find(name)));
        let ours = || tables::ours(name).map(|key| Meaning::Value(key.clone(), order_of(&key.name)));
        if let Some(key) = own {
            return Meaning::Value(key.clone(), order_of(&key.name));
        }
        if let Some(meaning) = ours().filter(|_| wiring.is_none()) {
            return meaning;
        }
        if node.name == "norm" && node.layer.is_some() {
            // llama.cpp's norm before its weight, where others have a module of this name.
            return Meaning::Internal;
        }
        match self.spelled(&spelling) {
            // Ours in another wiring: the report says that it has no place in this one.
            Meaning::Unknown => ours().unwrap_or(Meaning::Unknown),
            found => found,
        }
    }

    /// What a module of another program is in this model.
    fn in_wiring(&self, spelling: &Spelling) -> Option<Meaning> {
        let wiring = self.wiring.as_deref()?;
        let (side, module) = spelling.side();
        let whole = wiring.module(&spelling.words, spelling);
        let (side, weights) = match side {
            _ if !whole.is_empty() => (spelling::Side::Unsaid, whole),
            side => (side, wiring.module(module, spelling)),
        };
        if side == spelling::Side::Stream {
            let key = match module {
                [layer] if layer == "layer" => Some(Key::new("ffn_inp", spelling.layer)).filter(|key| wiring.has(key)),
                _ => weights.iter().filter(|weight| weight.contains("norm")).find_map(|norm| wiring.applied_to(norm)),
            };
            return Some(key.map_or(Meaning::Unknown, |key| Meaning::Value(key, Order::Tokens)));
        }
        if side == spelling::Side::Input {
            let key = weights.iter().find_map(|weight| wiring.applied_to(weight))?;
            return Some(Meaning::Value(key, Order::Tokens));
        }
        weights.iter().find_map(|weight| {
            let mut keys = wiring.made_by(weight, self.with_bias(spelling))?;
            Some(match keys.len() {
                1 => Meaning::Value(keys.remove(0).0, Order::Tokens),
                _ => Meaning::Parts(Parts { keys, groups: 1 }),
            })
        })
    }

    /// Whether a module's output has its bias in it. llama.cpp's nodes say it, others where they dump both.
    fn with_bias(&self, spelling: &Spelling) -> bool {
        let words = spelling.words.join("_");
        words != "wqkv" && (!self.spoken.bias_apart || words.ends_with("_b") || words.ends_with("bias"))
    }

    /// Several values of one product, each of which has a weight of its own in the file.
    fn fused(&self, spelling: &Spelling) -> Option<Meaning> {
        let wiring = self.wiring.as_deref()?;
        let (side, module) = spelling.side();
        let (parts, groups) = wiring.fused(module, spelling)?;
        let with_bias = self.with_bias(spelling);
        let keys: Option<Vec<_>> = parts.iter().map(|weight| wiring.made_by(weight, with_bias)).collect();
        let keys: Vec<(Key, usize)> = keys?.into_iter().flatten().collect();
        let made = matches!(side, spelling::Side::Output | spelling::Side::Unsaid);
        made.then_some(Meaning::Parts(Parts { keys, groups }))
    }

    /// What words with the layer already taken out stand for.
    pub(crate) fn spelled(&self, spelling: &Spelling) -> Meaning {
        let joined = spelling.words.join("_");
        let parameter = |word: &String| matches!(word.as_str(), "weight" | "bias" | "scales" | "qweight");
        if spelling.words.last().is_some_and(parameter) && !joined.ends_with("after_bias") {
            return Meaning::Unknown;
        }
        if tables::TOKENS.contains(&joined.as_str()) && spelling.layer.is_none() {
            return Meaning::Tokens;
        }
        if let ("hidden_states" | "all_hidden_states", Some(index)) = (joined.as_str(), spelling.layer) {
            return Meaning::HiddenState(index);
        }
        if tables::INTERNAL.contains(&joined.as_str()) {
            return Meaning::Internal;
        }
        if let Some(found) = self.fused(spelling).or_else(|| self.in_wiring(spelling)) {
            return found;
        }
        if spelling.encodes && self.wiring.as_ref().is_some_and(|wiring| wiring.two_stacks) {
            return Meaning::Unknown;
        }
        if joined == "gate" && spelling.layer.is_some() && self.wiring.as_ref().is_some_and(|it| it.keeps_states()) {
            // How fast a state fades.
            return Meaning::Internal;
        }
        if let Some(found) = self.look_up(&joined, spelling, &tables::OUTPUTS) {
            return found;
        }
        let (side, rest) = spelling.side();
        let rest = rest.join("_");
        match side {
            spelling::Side::Output => self.look_up(&rest, spelling, &tables::OUTPUTS),
            spelling::Side::Input => self.look_up(&rest, spelling, &tables::INPUTS),
            spelling::Side::Stream | spelling::Side::Unsaid => None,
        }
        .unwrap_or(Meaning::Unknown)
    }

    fn look_up(&self, joined: &str, spelling: &Spelling, table: &Index) -> Option<Meaning> {
        let row = table.get(&(joined, spelling.layer.is_some()))?;
        let mut name = row.ours;
        if self.norms == Norms::Around && joined.ends_with("post_attention_layernorm") {
            if row.layer != LayerOf::Same || name != "ffn_norm" {
                return None;
            }
            name = "attn_post_norm";
        }
        let key = match (row.layer, spelling.layer) {
            (LayerOf::Before, Some(0)) => Key::new("inp_embd", None),
            (LayerOf::Before, Some(layer)) => Key::new(name, Some(layer - 1)),
            (LayerOf::Same, layer) => Key::new(name, layer),
            (_, _) => Key::new(name, None),
        };
        let key = match (self.bias, key.name.as_str()) {
            (ProjectionBias::Included, "Qcur.mul_mat") => Key::new("Qcur.add", key.layer),
            (ProjectionBias::Included, "Kcur.mul_mat") => Key::new("Kcur.add", key.layer),
            _ => key,
        };
        let key = self.wiring.as_ref().map_or(key.clone(), |wiring| wiring.nearest(key));
        let order = if row.heads_first { Order::Heads } else { order_of(&key.name) };
        Some(Meaning::Value(key, order))
    }
}

fn order_of(name: &str) -> Order {
    if matches!(name, "kq" | "kq_soft_max" | "kq.scaled") { Order::Scores } else { Order::Tokens }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(name: &str) -> String {
        match Names::default().meaning(name) {
            Meaning::Value(key, _) => key.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn names_of_other_engines() {
        for (theirs, ours) in [
            // our own and llama.cpp
            ("Qcur-0", "Qcur-0"),
            ("Qcur.mul_mat-12", "Qcur.mul_mat-12"),
            ("qcur-3", "Qcur-3"),
            ("result_norm", "result_norm"),
            ("embd", "inp_embd"),
            ("kq_soft_max_ext-2", "kq_soft_max-2"),
            ("ffn_gate_par-1", "ffn_swiglu-1"),
            ("blk.3.attn_q", "Qcur.mul_mat-3"),
            ("blk.3.attn_output", "attn_out-3"),
            // Transformers
            ("model.embed_tokens", "inp_embd"),
            ("LlamaForCausalLM.model.layers.10.input_layernorm", "attn_norm-10"),
            ("model.layers.0.self_attn.q_proj", "Qcur.mul_mat-0"),
            ("model.layers.0.self_attn.v_proj", "Vcur-0"),
            ("model.layers.0.self_attn.q_norm", "Qcur_normed-0"),
            ("model.layers.1.self_attn.o_proj", "attn_out-1"),
            ("model.layers.1.self_attn.o_proj.input", "kqv_out-1"),
            ("model.layers.1.self_attn.o_proj_inputs_args_0", "kqv_out-1"),
            ("model.layers.1.self_attn", "attn_out-1"),
            ("model.layers.1.post_attention_layernorm", "ffn_norm-1"),
            ("model.layers.1.post_attention_layernorm.input", "ffn_inp-1"),
            ("model.layers.1.mlp.gate_proj", "ffn_gate-1"),
            ("model.layers.1.mlp.down_proj.input", "ffn_swiglu-1"),
            ("model.layers.1.mlp.output", "ffn_out-1"),
            ("model.layers.1", "l_out-1"),
            ("model.layers.1.output.0", "l_out-1"),
            ("model.layers.1.input", "l_out-0"),
            ("model.layers.0.input", "inp_embd"),
            ("model.norm", "result_norm"),
            ("lm_head", "result_output"),
            ("attentions.2", "kq_soft_max-2"),
            ("hidden_states.2", "HiddenState(2)"),
            // TransformerLens
            ("blocks.0.attn.hook_q", "Qcur.mul_mat-0"),
            ("blocks.0.attn.hook_rot_q", "Qcur-0"),
            ("blocks.0.attn.hook_attn_scores", "kq.scaled-0"),
            ("blocks.0.attn.hook_pattern", "kq_soft_max-0"),
            ("blocks.0.attn.hook_z", "kqv_out-0"),
            ("blocks.0.hook_attn_out", "attn_out-0"),
            ("blocks.0.hook_resid_pre", "inp_embd"),
            ("blocks.4.hook_resid_pre", "l_out-3"),
            ("blocks.0.hook_resid_mid", "ffn_inp-0"),
            ("blocks.0.hook_resid_post", "l_out-0"),
            ("blocks.0.mlp.hook_post", "ffn_swiglu-0"),
            ("blocks.0.ln1.hook_normalized", "Internal"),
            ("ln_final.hook_normalized", "Internal"),
            ("hook_embed", "inp_embd"),
            // Meta's, candle's and what people write by hand
            ("layers.5.attention.wq", "Qcur.mul_mat-5"),
            ("layers.5.feed_forward.w2", "ffn_out-5"),
            ("tok_embeddings", "inp_embd"),
            ("layer_7_rms_1", "attn_norm-7"),
            ("layer7.q_rope", "Qcur-7"),
            ("layer7/k_after_rope", "Kcur-7"),
            ("L3_attn_norm", "attn_norm-3"),
            ("block2.ffn_out", "ffn_out-2"),
            ("logits", "result_output"),
            // nothing of these is guessed
            ("model.layers.0.self_attn.q_proj.weight", "Unknown"),
            ("layer3.x", "Unknown"),
            ("model.layers.0.self_attn.rotary_emb", "Unknown"),
            ("xb", "Unknown"),
            ("norm-0", "Internal"),
            ("input_ids", "Tokens"),
            ("", "Unknown"),
            ("model", "Unknown"),
            ("LlamaModel.output", "Unknown"),
        ] {
            assert_eq!(meaning(theirs), ours, "{theirs}");
        }
    }

    #[test]
    fn a_bias_inside_a_projection() {
        let names = Names { bias: ProjectionBias::Included, ..Names::default() };
        let found = names.meaning("model.layers.0.self_attn.q_proj");
        assert_eq!(found, Meaning::Value(Key::new("Qcur.add", Some(0)), Order::Tokens));
        let value = names.meaning("model.layers.0.self_attn.v_proj");
        assert_eq!(value, Meaning::Value(Key::new("Vcur", Some(0)), Order::Tokens));
    }

    #[test]
    fn four_norms() {
        let all = ["model.layers.0.pre_feedforward_layernorm", "model.layers.0.post_attention_layernorm"];
        let names = Names::for_dump(&ReadOptions::default(), all.into_iter());
        let keys = all.map(|name| match names.meaning(name) {
            Meaning::Value(key, _) => key.to_string(),
            other => format!("{other:?}"),
        });
        assert_eq!(keys, ["ffn_norm-0", "attn_post_norm-0"]);
        assert_eq!(names.meaning("model.layers.0.post_attention_layernorm.input"), Meaning::Unknown);
    }

    #[test]
    fn heads_come_first_in_some() {
        let names = Names::default();
        for (name, order) in [
            ("model.layers.0.self_attn.q_embed", Order::Heads),
            ("blocks.0.attn.hook_rot_q", Order::Tokens),
            ("attentions.0", Order::Scores),
        ] {
            assert!(matches!(names.meaning(name), Meaning::Value(_, found) if found == order), "{name}");
        }
    }
}
