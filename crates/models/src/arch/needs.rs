//! Tensors that an architecture's files always have though layers run without them, by group: without a norm, a bias or a head of
//! its own a file of another architecture is complete, one of these was made wrong. They are those that llama.cpp asks for.

/// A tensor that an architecture needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// Its name, of layers without their `blk.N.`.
    pub(crate) tensor: &'static str,
    /// What lacks it: the tensor whose presence asks for it, in the same layer.
    pub(crate) beside: &'static str,
    /// Only models of this number of layers and more need it.
    pub(crate) layers: usize,
}

const fn need(tensor: &'static str, beside: &'static str) -> Need {
    Need { tensor, beside, layers: 0 }
}

pub(super) const QK_NORM: &[Need] =
    &[need("attn_q_norm.weight", "attn_q.weight"), need("attn_k_norm.weight", "attn_k.weight")];
pub(super) const QKV_BIAS: &[Need] = &[need("attn_qkv.bias", "attn_qkv.weight")];
pub(super) const OUTPUT_BIAS: &[Need] = &[need("attn_output.bias", "attn_output.weight")];
pub(super) const NORM_BIAS: &[Need] =
    &[need("attn_norm.bias", "attn_norm.weight"), need("output_norm.bias", "output_norm.weight")];
pub(super) const FFN_NORM_BIAS: &[Need] = &[need("ffn_norm.bias", "ffn_norm.weight")];
pub(super) const FFN_BIAS: &[Need] = &[need("ffn_up.bias", "ffn_up.weight"), need("ffn_down.bias", "ffn_down.weight")];
pub(super) const DOWN_BIAS: &[Need] = &[need("ffn_down.bias", "ffn_down.weight")];
pub(super) const POST_NORM_BIAS: &[Need] = &[
    need("attn_output_norm.bias", "attn_output_norm.weight"),
    need("layer_output_norm.bias", "layer_output_norm.weight"),
];
pub(super) const EMBEDDING_NORM_BIAS: &[Need] = &[need("token_embd_norm.bias", "token_embd_norm.weight")];
pub(super) const POSITIONS: &[Need] = &[need("position_embd.weight", "token_embd.weight")];
pub(super) const FFN_GATE: &[Need] = &[need("ffn_gate.weight", "ffn_up.weight")];
pub(super) const CHOICE_BIAS: &[Need] = &[need("exp_probs_b.bias", "ffn_gate_inp.weight")];
pub(super) const SHARED_GATE: &[Need] = &[need("ffn_gate_inp_shexp.weight", "ffn_up_shexp.weight")];
pub(super) const CONV_BIAS: &[Need] = &[need("ssm_conv1d.bias", "ssm_conv1d.weight")];
pub(super) const STEP_BIAS: &[Need] = &[need("ssm_dt.bias", "ssm_dt.weight")];
pub(super) const STATE_NORM: &[Need] = &[need("ssm_norm.weight", "ssm_out.weight")];
pub(super) const STEP_NORMS: &[Need] = &[
    need("ssm_dt_norm.weight", "ssm_dt.weight"),
    need("ssm_b_norm.weight", "ssm_dt.weight"),
    need("ssm_c_norm.weight", "ssm_dt.weight"),
];
pub(super) const TIME_MIX_BIAS: &[Need] =
    &[need("attn_norm_2.bias", "attn_norm_2.weight"), need("time_mix_ln.bias", "time_mix_ln.weight")];
pub(super) const LOW_RANK_BIAS: &[Need] = &[
    need("time_mix_w0.weight", "time_mix_w1.weight"),
    need("time_mix_a0.weight", "time_mix_a1.weight"),
    need("time_mix_v0.weight", "time_mix_v1.weight"),
];
pub(super) const HEAD: &[Need] = &[need("output.weight", "token_embd.weight")];
pub(super) const HEAD_BIAS: &[Need] = &[need("output.bias", "output.weight")];
pub(super) const VALUES: &[Need] = &[need("attn_v.weight", "attn_k.weight")];
pub(super) const ATTENTION_GATE: &[Need] = &[need("attn_gate.weight", "attn_output.weight")];
pub(super) const SINKS: &[Need] = &[need("attn_sinks.weight", "attn_output.weight")];
pub(super) const EXPERT_BIAS: &[Need] = &[
    need("ffn_gate_inp.bias", "ffn_gate_inp.weight"),
    need("ffn_gate_exps.bias", "ffn_gate_exps.weight"),
    need("ffn_up_exps.bias", "ffn_up_exps.weight"),
    need("ffn_down_exps.bias", "ffn_down_exps.weight"),
];
pub(super) const ROTARY_FACTORS: &[Need] = &[need("rope_freqs.weight", "token_embd.weight")];
pub(super) const EMBEDDING_NORM: &[Need] = &[need("token_embd_norm.weight", "token_embd.weight")];
pub(super) const TOKEN_TYPES: &[Need] = &[need("token_types.weight", "token_embd.weight")];

/// Command R+, which has this number of layers, norms queries and keys; the smaller Command R does not.
pub(super) const LARGE_QK_NORM: &[Need] = &[Need { layers: 64, ..QK_NORM[0] }, Need { layers: 64, ..QK_NORM[1] }];
