//! The names other engines use, as data. A row says which of our values all its spellings mean; to know another
//! spelling, add it to its row, in lower case, words joined with `_`, without the layer.

use std::{collections::HashMap, sync::LazyLock};

use crate::Key;

/// Where the layer of a meaning comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerOf {
    /// The layer in the name.
    Same,
    /// The one before: a layer's input is the output of the last.
    Before,
    /// No such norm.
    None,
}

/// One meaning and its spellings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) ours: &'static str,
    pub(super) layer: LayerOf,
    pub(super) heads_first: bool,
    /// Divided by spaces.
    spellings: &'static str,
}

impl Row {
    pub(super) fn has_layer(&self) -> bool {
        self.layer != LayerOf::None
    }

    fn spellings(&self) -> impl Iterator<Item = &'static str> {
        self.spellings.split(' ')
    }
}

const fn layer(ours: &'static str, spellings: &'static str) -> Row {
    Row { ours, layer: LayerOf::Same, heads_first: false, spellings }
}

const fn heads(ours: &'static str, spellings: &'static str) -> Row {
    Row { ours, layer: LayerOf::Same, heads_first: true, spellings }
}

const fn before(spellings: &'static str) -> Row {
    Row { ours: "l_out", layer: LayerOf::Before, heads_first: false, spellings }
}

const fn global(ours: &'static str, spellings: &'static str) -> Row {
    Row { ours, layer: LayerOf::None, heads_first: false, spellings }
}

/// Names that are ours as they stand, with a layer.
const OURS_IN_LAYERS: &[&str] = &[
    "attn_norm",
    "Qcur",
    "Qcur.mul_mat",
    "Qcur.add",
    "Qcur_normed",
    "Kcur",
    "Kcur.mul_mat",
    "Kcur.add",
    "Kcur_normed",
    "Vcur",
    "Vcur.mul_mat",
    "kq",
    "kq.scaled",
    "kq_soft_max",
    "kqv_out",
    "attn_out",
    "attn_post_norm",
    "ffn_inp",
    "ffn_norm",
    "ffn_gate",
    "ffn_up",
    "ffn_silu",
    "ffn_swiglu",
    "ffn_out",
    "ffn_post_norm",
    "ffn_moe_topk",
    "ffn_moe_weights",
    "ffn_moe_gate",
    "ffn_moe_up",
    "ffn_moe_swiglu",
    "ffn_moe_act",
    "ffn_moe_down",
    "ffn_moe_weighted",
    "ffn_moe_out",
    "l_out",
];

/// A name that is ours as it stands.
pub(super) fn ours(name: &str) -> Option<Key> {
    let key: Key = name.parse().unwrap_or_else(|never| match never {});
    let known = match key.layer {
        Some(_) => OURS_IN_LAYERS.contains(&key.name.as_str()),
        None => matches!(key.name.as_str(), "inp_embd" | "result_norm" | "result_output"),
    };
    known.then_some(key)
}

/// The ids of the tokens.
pub(super) const TOKENS: &[&str] = &["input_ids", "tokens", "token_ids", "inp_tokens", "ids"];

/// Steps whose value has no name here. TransformerLens' `hook_normalized` comes before the norm's weight, llama.cpp's
/// `norm` too; `hook_result` and `v` caches are copies.
pub(super) const INTERNAL: &[&str] = &[
    "norm_w",
    "inp_pos",
    "inp_out_ids",
    "kq_mask",
    "kqv",
    "kqv_merged",
    "kqv_wo",
    "inp_scaled",
    "inpl",
    "inpsa",
    "ln1_hook_normalized",
    "ln2_hook_normalized",
    "ln1_hook_scale",
    "ln2_hook_scale",
    "ln_final_hook_normalized",
    "ln_final_hook_scale",
    "attn_hook_result",
    "hook_attn_in",
    "hook_mlp_in",
    "hook_q_input",
    "hook_k_input",
    "hook_v_input",
    "hook_pos_embed",
    "ffn_moe_argsort",
    "ffn_moe_probs",
    "ffn_moe_probs_biased",
];

/// Rows by spelling and by whether the name has a layer.
pub(super) type Index = HashMap<(&'static str, bool), Row>;

/// What a module or a step gives.
pub(super) static OUTPUTS: LazyLock<Index> = LazyLock::new(|| index(OUTPUT_ROWS));
/// What a module takes.
pub(super) static INPUTS: LazyLock<Index> = LazyLock::new(|| index(INPUT_ROWS));

fn index(rows: &[Row]) -> Index {
    rows.iter().flat_map(|row| row.spellings().map(|spelling| ((spelling, row.has_layer()), *row))).collect()
}

const OUTPUT_ROWS: &[Row] = &[
    global(
        "inp_embd",
        "inp_embd embd embed embeds embedding embeddings embed_tokens token_embd token_embedding \
         token_embeddings tok_embeddings tok_emb token_emb wte hook_embed inputs_embeds",
    ),
    global(
        "result_norm",
        "result_norm norm final_norm output_norm ln_f norm_f ln_final final_layernorm final_rmsnorm \
         final_rms_norm rms_final after_final_norm",
    ),
    global(
        "result_output",
        "result_output logits lm_head output output_logits final_logits logits_processor unembed logit",
    ),
    layer(
        "attn_norm",
        "attn_norm input_layernorm attention_norm attn_rmsnorm attn_rms_norm rms_1 rms1 rmsnorm1 after_rms_1 \
         ln_1 ln1 norm1 norm_1 rms_att pre_attention_norm pre_attention_layernorm pre_attn_norm input_norm \
         after_attn_norm attn_input_norm",
    ),
    layer(
        "Qcur.mul_mat",
        "qcur_mul_mat q wq q_proj query query_proj self_attn_q_proj attn_q_proj attention_wq attn_q attn_wq \
         q_pre_rope q_before_rope pre_rope_q q_raw attn_hook_q attn_to_q self_attn_query attention_query \
         attention_q_proj",
    ),
    layer(
        "Kcur.mul_mat",
        "kcur_mul_mat k wk k_proj key key_proj self_attn_k_proj attn_k_proj attention_wk attn_k attn_wk \
         k_pre_rope k_before_rope pre_rope_k k_raw attn_hook_k attn_to_k self_attn_key attention_key \
         attention_k_proj",
    ),
    layer("Qcur.add", "qcur_add q_bias q_after_bias q_with_bias"),
    layer("Kcur.add", "kcur_add k_bias k_after_bias k_with_bias"),
    layer(
        "Vcur",
        "vcur v wv v_proj value value_proj self_attn_v_proj attn_v_proj attention_wv attn_v attn_wv \
         attn_hook_v attn_to_v self_attn_value attention_value attention_v_proj v_cache value_cache v_after_bias",
    ),
    layer("Qcur_normed", "qcur_normed qcur_norm q_norm q_normed self_attn_q_norm attn_q_norm q_after_norm"),
    layer("Kcur_normed", "kcur_normed kcur_norm k_norm k_normed self_attn_k_norm attn_k_norm k_after_norm"),
    layer(
        "Qcur",
        "qcur q_rope q_roped q_rot q_rotated rope_q rot_q q_after_rope q_post_rope post_rope_q after_rope_q \
         q_rotary attn_q_rope attn_hook_rot_q q_with_rope",
    ),
    layer(
        "Kcur",
        "kcur k_rope k_roped k_rot k_rotated rope_k rot_k k_after_rope k_post_rope post_rope_k after_rope_k \
         k_rotary attn_k_rope attn_hook_rot_k k_with_rope k_cache key_cache",
    ),
    heads("Qcur", "q_embed self_attn_q_embed query_states_rope"),
    heads("Kcur", "k_embed self_attn_k_embed key_states_rope"),
    layer("kq", "kq qk q_k qk_raw raw_scores"),
    layer("kq.scaled", "attn_scores attention_scores scores attn_hook_attn_scores kq_scaled qk_scaled scaled_scores"),
    layer(
        "kq_soft_max",
        "kq_soft_max kq_soft_max_ext kq_softmax attentions attn_weights attention_weights attn_probs \
         attention_probs self_attn_attn_weights attn_hook_pattern attn_softmax softmax softmax_scores \
         attn_pattern",
    ),
    layer(
        "kqv_out",
        "kqv_out kqv_merged_cont attn_ctx attention_context attn_context context attn_concat heads_concat \
         attn_hook_z attn_z attn_before_o_proj attn_pre_o attn_pre_proj",
    ),
    layer(
        "attn_out",
        "attn_out attn_output self_attn attn attention o_proj wo self_attn_o_proj attn_o_proj attention_wo \
         attn_wo attn_o attn_proj attention_out attention_output hook_attn_out self_attn_out self_attn_output \
         self_attn_dense",
    ),
    layer("attn_post_norm", "attn_post_norm post_attn_norm"),
    layer(
        "ffn_inp",
        "ffn_inp hook_resid_mid resid_mid residual_mid attn_residual residual_after_attn \
         residual_after_attention after_attn_residual after_attention_residual post_attn_residual \
         post_attention_residual resid1 residual1 ffn_input",
    ),
    layer(
        "ffn_norm",
        "ffn_norm post_attention_layernorm pre_feedforward_layernorm rms_2 rms2 rmsnorm2 after_rms_2 ln_2 ln2 \
         norm2 norm_2 mlp_norm ffn_rmsnorm ffn_rms_norm rms_ffn pre_ffn_norm after_ffn_norm \
         post_attention_norm",
    ),
    layer(
        "ffn_gate",
        "ffn_gate gate_proj mlp_gate_proj gate ffn_gate_proj feed_forward_w1 ffn_w1 mlp_w1 w1 c_fc1 mlp_c_fc1 \
         mlp_hook_pre mlp_gate feed_forward_gate_proj",
    ),
    layer(
        "ffn_up",
        "ffn_up up_proj mlp_up_proj up ffn_up_proj feed_forward_w3 ffn_w3 mlp_w3 w3 c_fc2 mlp_c_fc2 \
         mlp_hook_pre_linear mlp_up feed_forward_up_proj",
    ),
    layer("ffn_silu", "ffn_silu mlp_act_fn silu mlp_silu"),
    layer(
        "ffn_swiglu",
        "ffn_swiglu ffn_gate_par swiglu mlp_swiglu silu_mul mlp_hook_post gate_times_up gate_mul_up \
         silu_gate_up ffn_mul",
    ),
    layer(
        "ffn_out",
        "ffn_out down_proj mlp_down_proj mlp ffn feed_forward feed_forward_w2 ffn_w2 mlp_w2 w2 mlp_out \
         mlp_output ffn_output ffn_down hook_mlp_out mlp_c_proj down mlp_down ffn_down_proj \
         feed_forward_down_proj",
    ),
    layer("ffn_post_norm", "ffn_post_norm post_feedforward_layernorm post_ffw_norm post_ffn_norm"),
    layer(
        "l_out",
        "l_out layer layer_out layer_output block_output block_out hook_resid_post resid_post \
         residual_after_ffn residual_after_mlp after_ffn_residual after_mlp_residual final_residual \
         layer_output_0",
    ),
    before("hook_resid_pre resid_pre layer_input block_input before_rms_1"),
];

const INPUT_ROWS: &[Row] = &[
    layer("kqv_out", "self_attn_o_proj o_proj attention_wo wo attn_o_proj attn_output"),
    layer("ffn_swiglu", "mlp_down_proj down_proj feed_forward_w2 w2 ffn_down mlp_c_proj"),
    layer("ffn_inp", "post_attention_layernorm pre_feedforward_layernorm ffn_norm rms_2 ln_2 ln2"),
    layer("attn_norm", "self_attn self_attn_q_proj self_attn_k_proj self_attn_v_proj q_proj attention"),
    layer("ffn_norm", "mlp mlp_gate_proj mlp_up_proj gate_proj up_proj feed_forward feed_forward_w1"),
    layer("ffn_gate", "mlp_act_fn"),
    before("layer input_layernorm attention_norm attn_norm rms_1 ln_1 ln1"),
    global("result_norm", "lm_head output"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spelling_means_one_thing() {
        for (rows, index) in [(OUTPUT_ROWS, &OUTPUTS), (INPUT_ROWS, &INPUTS)] {
            assert_eq!(rows.iter().map(|row| row.spellings().count()).sum::<usize>(), index.len(), "a spelling twice");
            for (spelling, _) in index.keys() {
                assert!(!spelling.is_empty() && *spelling == spelling.to_lowercase(), "{spelling:?}");
            }
        }
    }

    #[test]
    fn every_meaning_is_a_name_of_ours() {
        for row in OUTPUT_ROWS.iter().chain(INPUT_ROWS) {
            let key = Key::new(row.ours, row.has_layer().then_some(0));
            assert_eq!(ours(&key.to_string()), Some(key));
        }
    }
}
