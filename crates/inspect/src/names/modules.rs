//! The modules of other programs, by the weight that a GGUF file has for them. With a model at hand a module's output is
//! what that model makes of the weight, whatever it is called there, and its input is what the weight is applied to. To
//! know another module, add its path to the row of its weight: in lower case, words joined with `_`, without the layer.
//! Where one path is in several rows, the first weight that the model has is meant.

use std::{collections::HashMap, sync::LazyLock};

/// Weights of a layer, or of none, with the modules that hold them.
type Rows = &'static [(&'static str, &'static str)];

/// Weights by module.
pub(super) type Index = HashMap<&'static str, Vec<&'static str>>;

/// Modules of a layer.
pub(super) static IN_LAYERS: LazyLock<Index> = LazyLock::new(|| index(LAYER_ROWS));
/// Modules of no layer.
pub(super) static BESIDE: LazyLock<Index> = LazyLock::new(|| index(MODEL_ROWS));

fn index(rows: Rows) -> Index {
    let mut index = Index::new();
    for (weight, modules) in rows {
        for module in modules.split_whitespace() {
            index.entry(module).or_default().push(weight);
        }
    }
    index
}

/// What some wirings call by a name that means another weight in all others: their architectures, the module, the weight.
const OTHERWISE: &[(&[&str], &str, &str)] = &[
    // A router that gives what it chose.
    (&["afmoe"], "mlp_router", "-"),
    (&["llama4"], "feed_forward_router", "-"),
    // Embeddings that are scaled in the module.
    (&["gemma3", "gemma3n", "gemma4", "gemma-embedding"], "embed_tokens", "-"),
    // Four norms, of which the second is in front of the feed-forward block.
    (&["glm4"], "post_attention_layernorm", "ffn_norm"),
    // Qwen's first release has its gate in w2.
    (&["qwen"], "mlp_w1", "ffn_up"),
    (&["qwen"], "mlp_w2", "ffn_gate"),
    // Norms after what they follow, inside of the module that they end.
    (&["bert", "nomic-bert", "jina-bert-v2"], "attention", "attn_output_norm"),
    (&["bert", "nomic-bert", "jina-bert-v2", "modern-bert"], "embeddings", "token_embd_norm"),
    (&["bert", "nomic-bert", "jina-bert-v2"], "attention_output", "attn_output_norm"),
];

/// The weights that a module can have, the likeliest first.
pub(super) fn weights(arch: &str, module: &str, in_layer: bool) -> Vec<&'static str> {
    if let Some((.., weight)) = OTHERWISE.iter().find(|(archs, name, _)| archs.contains(&arch) && *name == module) {
        return vec![weight];
    }
    let index = if in_layer { &IN_LAYERS } else { &BESIDE };
    index.get(module).cloned().unwrap_or_default()
}

const LAYER_ROWS: Rows = &[
    (
        "attn_norm",
        "input_layernorm ln_1 ln1 norm_1 norm1 attention_norm attn_norm layernorm norm pre_norm ln_mlp operator_norm \
         norm_attn_norm_norm_1 layer_norm_1 input_norm attention_layernorm pre_attention_norm att_norm pre_ln \
         layer_0_layer_norm self_attn_layer_norm attn_ln rms_1 temporal_pre_norm attn_norm_layer",
    ),
    ("attn_norm_2", "ln_attn ln2 ln_2 attn_norm_2"),
    (
        "attn_qkv",
        "self_attn_qkv_proj qkv_proj attn_qkv_proj attention_query_key_value self_attention_query_key_value \
         self_attn_query_key_value attn_c_attn c_attn attn_wqkv attention_wqkv wqkv attn_qkv attention_qkv \
         norm_attn_norm_attn_wqkv mixer_wqkv self_attn_w_pack w_pack attn_qkv_fused self_attn_qkv qkv wqkv_b bqkv linear_attn_qkv_mixed",
    ),
    (
        "attn_q",
        "self_attn_q_proj attn_q_proj q_proj attention_wq wq attn_q attn_wq attention_self_query attention_q_lin \
         attention_q_proj attn_attention_q_proj mixer_q_proj layer_0_selfattention_q self_attn_query attention_query \
         query query_proj q attn_to_q qcur_full",
    ),
    (
        "attn_k",
        "self_attn_k_proj attn_k_proj k_proj attention_wk wk attn_k attn_wk attention_self_key attention_k_lin \
         attention_k_proj attn_attention_k_proj mixer_k_proj layer_0_selfattention_k self_attn_key attention_key key \
         key_proj k attn_to_k",
    ),
    (
        "attn_v",
        "self_attn_v_proj attn_v_proj v_proj attention_wv wv attn_v attn_wv attention_self_value attention_v_lin \
         attention_v_proj attn_attention_v_proj mixer_v_proj layer_0_selfattention_v self_attn_value attention_value \
         value value_proj v attn_to_v",
    ),
    (
        "attn_output",
        "self_attn_o_proj attn_o_proj o_proj attention_wo wo attn_wo attn_output attention_o_proj attn_c_proj \
         attention_dense self_attention_dense self_attn_dense attn_out_proj self_attn_out_proj attention_out_proj \
         attention_output_dense attention_out_lin attn_attention_out_proj norm_attn_norm_attn_out_proj mixer_o_proj \
         mixer_out_proj layer_0_selfattention_o attention_wo_proj attn_wo_proj",
    ),
    ("attn_q_norm", "self_attn_q_norm attn_q_norm q_norm self_attn_q_layernorm self_attn_query_layernorm attn_q_ln"),
    ("attn_k_norm", "self_attn_k_norm attn_k_norm k_norm self_attn_k_layernorm self_attn_key_layernorm attn_k_ln"),
    ("attn_gate", "self_attn_gate_proj self_attn_g_proj attn_gate"),
    ("attn_q_a", "self_attn_q_a_proj q_a_proj attn_q_a"),
    ("attn_q_a_norm", "self_attn_q_a_layernorm q_a_layernorm attn_q_a_norm"),
    ("attn_q_b", "self_attn_q_b_proj q_b_proj attn_q_b q"),
    ("attn_kv_a_mqa", "self_attn_kv_a_proj_with_mqa kv_a_proj_with_mqa attn_kv_a_mqa kv_cmpr_pe"),
    ("attn_kv_a_norm", "self_attn_kv_a_layernorm kv_a_layernorm attn_kv_a_norm kv_cmpr"),
    ("attn_k_b", "q_nope_absorbed"),
    ("attn_kv_b", "self_attn_kv_b_proj kv_b_proj attn_kv_b"),
    ("attn_output_norm", "attention_output_layernorm attention_output_layer_norm sa_layer_norm norm1 layer_norm_1"),
    (
        "post_attention_norm",
        "post_attention_layernorm post_self_attn_layernorm post_attention_norm attn_post_norm post_attn_norm",
    ),
    (
        "ffn_norm",
        "pre_feedforward_layernorm post_attention_layernorm ln_2 ln2 norm_2 norm2 ffn_norm norm_attn_norm_norm_2 \
         pre_ff_layernorm pre_mlp_layernorm pre_moe_layernorm pre_ffn_norm mlp_norm ffn_layernorm post_attention_norm \
         layer_1_layer_norm feed_forward_norm rms_2",
    ),
    (
        "post_ffw_norm",
        "post_feedforward_layernorm post_mlp_layernorm post_ffw_norm post_ffn_norm ffn_post_norm post_mlp_norm",
    ),
    ("layer_output_norm", "output_layernorm output_layer_norm norm2 layer_norm_2"),
    (
        "ffn_gate_inp",
        "mlp_gate block_sparse_moe_gate mlp_router block_sparse_moe_router_layer ffn_router_layer feed_forward_router \
         feed_forward_gate moe_gate mlp_gate_proj_router router block_sparse_moe_router ffn_gate_inp mixer_gate \
         ffn_router moe_router mlp_router_gate",
    ),
    ("ffn_gate_inp_shexp", "mlp_shared_expert_gate shared_expert_gate ffn_gate_inp_shexp"),
    (
        "ffn_gate",
        "mlp_gate_proj gate_proj feed_forward_w1 ffn_w1 mlp_w1 w1 feed_forward_gate_proj ffn_gate ffn_gate_proj \
         mlp_gate mlp_c_fc1 mlp_fc12 mlp_linear_gate layer_1_densereludense_wi_0 shared_mlp_gate_proj feed_forward_gate",
    ),
    ("ffn_up", "mlp_gate_up_proj gate_up_proj mlp_dense_h_to_4h"),
    (
        "ffn_up",
        "mlp_up_proj up_proj feed_forward_w3 ffn_w3 mlp_w3 w3 feed_forward_up_proj ffn_up ffn_up_proj mlp_c_fc c_fc \
         mlp_fc1 fc1 intermediate_dense ffn_lin1 mlp_fc_in mlp_fc11 mlp_c_fc2 mlp_up mixer_up_proj mlp_wi \
         layer_1_densereludense_wi_1 layer_1_densereludense_wi shared_mlp_up_proj feed_forward_up",
    ),
    (
        "ffn_down",
        "mlp_down_proj down_proj feed_forward_w2 ffn_w2 mlp_w2 w2 feed_forward_down_proj ffn_down ffn_down_proj \
         mlp_c_proj mlp_dense_4h_to_h mlp_fc2 fc2 output_dense ffn_lin2 mlp_fc_out mlp_wo mlp_down mixer_down_proj \
         layer_1_densereludense_wo shared_mlp_down_proj feed_forward_down",
    ),
    (
        "ffn_gate_shexp",
        "mlp_shared_expert_gate_proj mlp_shared_experts_gate_proj feed_forward_shared_expert_gate_proj shared_mlp_gate_proj \
         mlp_shared_mlp_gate_proj ffn_gate_shexp",
    ),
    (
        "ffn_up_shexp",
        "mlp_shared_expert_up_proj mlp_shared_experts_up_proj feed_forward_shared_expert_up_proj shared_mlp_up_proj \
         mlp_shared_mlp_up_proj mixer_shared_experts_up_proj ffn_up_shexp",
    ),
    (
        "ffn_down_shexp",
        "mlp_shared_expert_down_proj mlp_shared_experts_down_proj feed_forward_shared_expert_down_proj \
         shared_mlp_down_proj mlp_shared_mlp_down_proj mixer_shared_experts_down_proj ffn_down_shexp ffn_shexp mlp_shared_experts \
         mlp_shared_expert",
    ),
    ("ssm_in", "mixer_in_proj mamba_in_proj in_proj ssm_in"),
    ("ssm_x", "mixer_x_proj mamba_x_proj x_proj ssm_x"),
    ("ssm_dt", "mixer_dt_proj mamba_dt_proj dt_proj ssm_dt"),
    ("ssm_norm", "mixer_norm mamba_norm linear_attn_norm ssm_norm"),
    ("ssm_dt_norm", "mamba_dt_layernorm mixer_dt_layernorm"),
    ("ssm_b_norm", "mamba_b_layernorm mixer_b_layernorm"),
    ("ssm_c_norm", "mamba_c_layernorm mixer_c_layernorm"),
    (
        "ssm_out",
        "mixer_out_proj mamba_out_proj linear_attn_out_proj out_proj ssm_out mamba linear_attn mixer linear_attn_out",
    ),
    ("attn_output", "self_attn self_attention mixer attn attention"),
    ("ffn_down", "mixer"),
    ("shortconv.in_proj", "conv_in_proj shortconv_in_proj layers_conv_in_proj"),
    ("shortconv.out_proj", "conv_out_proj shortconv_out_proj conv layers_conv_out_proj"),
    ("ssm_ba", "linear_attn_mixed_ba linear_attn_in_proj_ba"),
    ("time_mix_receptance", "attention_receptance attn_r_proj time_mix_receptance"),
    ("time_mix_key", "attention_key attn_k_proj time_mix_key"),
    ("time_mix_value", "attention_value attn_v_proj time_mix_value"),
    ("time_mix_gate", "attention_gate time_mix_gate"),
    ("time_mix_output", "attention_output attn_o_proj time_mix_output time_mix_out"),
    ("time_mix_ln", "attention_ln_x attn_g_norm time_mix_ln"),
    ("channel_mix_key", "feed_forward_key ffn_key channel_mix_key"),
    ("channel_mix_value", "feed_forward_value ffn_value channel_mix_value"),
    ("channel_mix_receptance", "feed_forward_receptance ffn_receptance channel_mix_receptance"),
];

const MODEL_ROWS: Rows = &[
    (
        "token_embd",
        "embed_tokens wte embed_in word_embeddings embeddings_word_embeddings embeddings tok_embeddings token_embd \
         token_embedding embedding embed tok_emb emb shared embeddings_tok_embeddings wte_embedding inp_embd_get_rows",
    ),
    (
        "token_embd_norm",
        "word_embeddings_layernorm embeddings_layernorm embeddings_norm embedding_norm emb_ln token_embd_norm layernorm_embedding",
    ),
    (
        "output_norm",
        "norm final_norm ln_f norm_f final_layer_norm final_layernorm output_norm final_rms_norm f_norm norm_final",
    ),
    ("output", "lm_head embed_out output output_layer head cls_predictions_decoder"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_has_a_module_once() {
        for rows in [LAYER_ROWS, MODEL_ROWS] {
            for (weight, modules) in rows {
                let mut all: Vec<&str> = modules.split_whitespace().collect();
                let count = all.len();
                all.sort_unstable();
                all.dedup();
                assert_eq!(all.len(), count, "{weight}");
                assert!(all.iter().all(|module| *module == module.to_lowercase()), "{weight}");
            }
        }
    }

    #[test]
    fn some_wirings_mean_another_weight() {
        assert_eq!(weights("glm4", "post_attention_layernorm", true), ["ffn_norm"]);
        assert_eq!(weights("gemma2", "post_attention_layernorm", true), ["post_attention_norm", "ffn_norm"]);
        assert!(weights("llama", "mystery", true).is_empty());
    }
}
