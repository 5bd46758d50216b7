#!/usr/bin/env python3
"""Faults of all that is not attention: each function makes a Transformers model go wrong from outside, as engines do.

A function gets a `Patch` and changes a module's forward, a function of the model's source, a buffer, a weight or an
attribute of the configuration. The function `norm_eps_1e_6` is the fault `norm-eps-1e-6` of transformers_faults.py.
"""

import math

import torch
import torch.nn.functional as F

from transformers_patch import epsilon, rms


# Norms and residuals.

def norm_eps(p, value):
    for module in p.norms():
        name = next(name for name in ("variance_epsilon", "eps", "epsilon") if hasattr(module, name))
        setattr(module, name, value)


def norm_eps_1e_6(p):
    norm_eps(p, 1e-6)


def norm_eps_1e_5(p):
    norm_eps(p, 1e-5)


def norm_eps_outside_root(p):
    for module in p.norms():
        module.forward = lambda x, m=module: m.weight * (x / (x.pow(2).mean(-1, keepdim=True).sqrt() + epsilon(m)))


def norm_offset_missing(p):
    for module in p.norms():
        if p.kind == "nemotron":
            module.forward = lambda x, m=module: F.layer_norm(x, x.shape[-1:], m.weight, m.bias, epsilon(m))
        else:
            module.forward = lambda x, m=module: rms(x, epsilon(m)) * m.weight


def norm_offset_twice(p):
    for module in p.norms():
        module.weight.data += 1


def norm_plus_one(p):
    norm_offset_twice(p)


def norm_weight_missing(p):
    for module in p.modules("input_layernorm|ln_1|norm_1"):
        module.weight.data.fill_(1)


def norm_weight_squared(p):
    for module in p.norms():
        module.weight.data **= 2


def layernorm_for_rms(p):
    for module in p.norms():
        inner = module.forward
        module.forward = lambda x, inner=inner: inner(x - x.mean(-1, keepdim=True))


def rms_for_layernorm(p):
    for module in p.norms():
        bias = getattr(module, "bias", None)
        shift = 1 if p.kind == "nemotron" else 0
        module.forward = lambda x, m=module, b=bias: rms(x, epsilon(m)) * (m.weight + shift) + (0 if b is None else b)


def norm_bias_missing(p):
    for module in p.norms():
        module.bias.data.zero_()


def norm_variance_unbiased(p):
    """Divides the sum of squares by one less than the width."""
    for module in p.norms():
        module.forward = lambda x, m=module: m.weight * (
            x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) / (x.shape[-1] - 1) + epsilon(m)))


FINAL = r"model\.norm|final_layer_?norm|ln_f|norm_f|embedding_norm"


def final_norm_missing(p):
    p.skip(FINAL)


def post_norms_missing(p):
    pattern = {"glm4": "post_self_attn_layernorm|post_mlp_layernorm"}.get(
        p.kind, "post_attention_layernorm|post_feedforward_layernorm")
    p.skip(pattern)


def post_attention_norm_missing(p):
    p.skip("post_self_attn_layernorm" if p.kind == "glm4" else "post_attention_layernorm")


def post_ffn_norm_missing(p):
    p.skip("post_mlp_layernorm" if p.kind == "glm4" else "post_feedforward_layernorm")


def norms_exchanged(p):
    """The norm after attention and the norm before the feed-forward take each other's weights."""
    for layer in p.layers():
        one, other = layer.post_attention_layernorm.weight, layer.pre_feedforward_layernorm.weight
        one.data, other.data = other.data, one.data


def layer_forward(p, function):
    for layer in p.layers():
        layer.forward = lambda hidden_states, *args, layer=layer, **kwargs: function(layer, hidden_states, kwargs)


def norms_before_not_after(p):
    """Normalises the inputs of attention and feed-forward where the model normalises their outputs."""
    def forward(layer, x, kwargs):
        x = x + layer.self_attn(hidden_states=layer.post_attention_layernorm(x), **kwargs)[0]
        return x + layer.mlp(layer.post_feedforward_layernorm(x))

    layer_forward(p, forward)


def parallel_as_sequential(p):
    if p.kind == "gpt_neox":
        return p.set(r"layers\.\d+", use_parallel_residual=False)

    def forward(layer, x, kwargs):
        x = x + layer.self_attn(hidden_states=layer.input_layernorm(x), **kwargs)[0]
        return x + layer.mlp(layer.input_layernorm.forward(x))

    layer_forward(p, forward)


def sequential_as_parallel(p):
    if p.kind == "gpt_neox":
        return p.set(r"layers\.\d+", use_parallel_residual=True)

    def forward(layer, x, kwargs):
        attention = layer.self_attn(hidden_states=layer.input_layernorm(x), **kwargs)[0]
        return x + attention + layer.mlp(layer.post_attention_layernorm(x))

    layer_forward(p, forward)


def parallel_norms_exchanged(p):
    for layer in p.layers():
        layer.ln_attn.forward, layer.ln_mlp.forward = layer.ln_mlp.forward, layer.ln_attn.forward


def residual_of_normed(p):
    """Adds attention's output to the normed input instead of the input."""
    if p.kind == "bloom":
        return p.set(r"h\.\d+", apply_residual_connection_post_layernorm=True)

    def forward(layer, x, kwargs):
        x = layer.input_layernorm(x)
        x = x + layer.self_attn(hidden_states=x, **kwargs)[0]
        return x + layer.mlp(layer.post_attention_layernorm(x))

    layer_forward(p, forward)


def ffn_without_residual(p):
    def forward(layer, x, kwargs):
        x = x + layer.self_attn(hidden_states=layer.input_layernorm(x), **kwargs)[0]
        return layer.mlp(layer.post_attention_layernorm(x))

    layer_forward(p, forward)


def embedding_norm_missing(p):
    p.skip(r"word_embeddings_layernorm|embeddings\.LayerNorm")


# Feed-forward.

ACT = "act_fn|act|gelu_impl|activation_fn|intermediate_act_fn"


def act_replaced(p, function):
    for module in p.modules(ACT):
        module.forward = function


def act_silu_for_gelu(p):
    act_replaced(p, F.silu)


def act_gelu_for_silu(p):
    act_replaced(p, F.gelu)


def act_gelu_exact_for_tanh(p):
    act_replaced(p, F.gelu)


def act_gelu_tanh_for_exact(p):
    act_replaced(p, lambda x: F.gelu(x, approximate="tanh"))


def act_gelu_quick(p):
    act_replaced(p, lambda x: x * torch.sigmoid(1.702 * x))


def act_relu(p):
    act_replaced(p, F.relu)


def act_missing(p):
    act_replaced(p, lambda x: x)


def gate_up_exchanged(p):
    for module in p.modules("mlp|feed_forward"):
        if hasattr(module, "gate_up_proj"):
            p.late.append((module.gate_up_proj, lambda m, args, out: torch.cat(out.chunk(2, -1)[::-1], -1)))
        elif hasattr(module, "w1"):
            module.forward = lambda x, m=module: m.w2(m.w1(x) * F.silu(m.w3(x)))
        elif hasattr(module, "gate_proj"):
            module.forward = lambda x, m=module: m.down_proj(m.gate_proj(x) * m.act_fn(m.up_proj(x)))


def experts_gate_up_exchanged(p):
    for module in p.modules("experts"):
        weight = module.gate_up_proj
        weight.data = torch.cat(weight.data.chunk(2, 1)[::-1], 1)


def ffn_up_bias_missing(p):
    p.zero(r"mlp\.(?:c_fc|fc1|dense_h_to_4h|up_proj)|intermediate\.dense")


def ffn_down_bias_missing(p):
    p.zero(r"mlp\.(?:c_proj|fc2|dense_4h_to_h|down_proj)|\d+\.output\.dense")


# Mixtures of experts.

def router_flag(p, value):
    p.set(r"mlp\.gate", norm_topk_prob=value)


def routed(p, function):
    """Changes what a router gives: function(module, logits, weights, chosen) gives weights and chosen."""
    for module in p.modules(r"mlp\.gate|mlp\.router|block_sparse_moe\.router"):
        inner = module.forward

        def forward(x, module=module, inner=inner):
            logits, weights, chosen = inner(x)
            new, which = function(module, logits, weights, chosen)
            return logits, new.to(weights.dtype), which

        module.forward = forward


def router_not_normalised(p):
    if p.kind in ("mixtral", "granitemoe", "gpt_oss"):
        return routed(p, lambda m, logits, w, chosen: (logits.softmax(-1).gather(1, chosen), chosen))
    router_flag(p, False)


def router_normalised(p):
    if p.kind == "deepseek_v2":
        return routed(p, lambda m, logits, w, chosen: (w / w.sum(-1, keepdim=True) * m.routed_scaling_factor, chosen))
    router_flag(p, True)


def router_sigmoid_for_softmax(p):
    def scores(m, logits, w, chosen):
        new = logits.sigmoid().gather(1, chosen)
        return (new / new.sum(-1, keepdim=True) if getattr(m, "norm_topk_prob", True) else new), chosen

    routed(p, scores)


def router_softmax_for_sigmoid(p):
    def scores(m, logits, w, chosen):
        new = logits.softmax(-1).gather(1, chosen)
        new = new / new.sum(-1, keepdim=True) if m.norm_topk_prob else new
        return new * m.routed_scaling_factor, chosen

    routed(p, scores)


def router_one_expert_more(p):
    for module in p.modules(r"mlp\.gate|mlp\.router|block_sparse_moe\.router"):
        module.top_k += 1


def router_one_expert(p):
    for module in p.modules(r"mlp\.gate|mlp\.router|block_sparse_moe\.router"):
        module.top_k = 1


def router_weights_even(p):
    routed(p, lambda m, logits, w, chosen: (w.mean(-1, keepdim=True).expand_as(w), chosen))


def router_weights_reversed(p):
    """Weighs the chosen experts in the other order."""
    routed(p, lambda m, logits, w, chosen: (w.flip(-1), chosen))


def router_lowest(p):
    """Chooses the least likely experts."""
    def choose(m, logits, w, chosen):
        which = logits.topk(chosen.shape[1], -1, largest=False)[1]
        new = logits.softmax(-1).gather(1, which)
        return new / new.sum(-1, keepdim=True), which

    routed(p, choose)


def routed_scale_missing(p):
    p.set(r"mlp\.gate", routed_scaling_factor=1.0)


def correction_bias_missing(p):
    p.zero(r"mlp\.gate", "e_score_correction_bias")


def correction_bias_in_weights(p):
    """Weighs experts with the biased scores that should only choose them."""
    def scores(m, logits, w, chosen):
        new = (logits.sigmoid() + m.e_score_correction_bias).gather(1, chosen)
        new = new / new.sum(-1, keepdim=True) if m.norm_topk_prob else new
        return new * m.routed_scaling_factor, chosen

    routed(p, scores)


def expert_groups_ignored(p):
    p.set(r"mlp\.gate", num_group=1, topk_group=1)


def router_bias_missing(p):
    p.zero(r"mlp\.router")


def shared_expert_gate_missing(p):
    for module in p.modules("shared_expert_gate"):
        p.late.append((module, lambda m, args, out: torch.full_like(out, 40.0)))


def shared_expert_missing(p):
    for module in p.modules("shared_experts?"):
        p.late.append((module, lambda m, args, out: torch.zeros_like(out)))


def shared_expert_gate_no_sigmoid(p):
    """Multiplies with the gate's logit instead of its sigmoid."""
    for module in p.modules("shared_expert_gate"):
        p.late.append((module, lambda m, args, out: torch.logit(out.float().clamp(1e-6, 1 - 1e-6)).to(out.dtype)))


def swiglu_alpha_one(p):
    p.set("experts", alpha=1.0)


def swiglu_limit_missing(p):
    p.set("experts", limit=math.inf)


def swiglu_limit_one(p):
    p.set("experts", limit=1.0)


def _gpt_oss_gate(p, function):
    for module in p.modules("experts"):
        module._apply_gate = lambda gate_up, m=module: function(m, gate_up)


def swiglu_up_without_one(p):
    def gate(m, gate_up):
        gate, up = gate_up[..., ::2].clamp(max=m.limit), gate_up[..., 1::2].clamp(-m.limit, m.limit)
        return up * gate * torch.sigmoid(gate * m.alpha)

    _gpt_oss_gate(p, gate)


def swiglu_halves_for_pairs(p):
    def gate(m, gate_up):
        gate, up = gate_up.chunk(2, -1)
        gate, up = gate.clamp(max=m.limit), up.clamp(-m.limit, m.limit)
        return (up + 1) * gate * torch.sigmoid(gate * m.alpha)

    _gpt_oss_gate(p, gate)


def expert_biases_missing(p):
    p.zero("experts", "gate_up_proj_bias")
    p.zero("experts", "down_proj_bias")


# Embeddings, multipliers and head.

def embedding_scale_missing(p):
    if p.kind.startswith("granite"):
        return setattr(p.base, "embedding_multiplier", 1.0)
    for module in p.modules("embed_tokens"):
        module.embed_scale = torch.ones_like(module.embed_scale)


def embedding_scale_not_root(p):
    """Multiplies embeddings with the width instead of its root."""
    for module in p.modules("embed_tokens"):
        module.embed_scale = torch.full_like(module.embed_scale, float(p.config.hidden_size))


def residual_multiplier_missing(p):
    p.set(r"layers\.\d+", residual_multiplier=1.0)


def residual_multiplier_ffn_only(p):
    def forward(layer, x, kwargs):
        x = x + layer.self_attn(hidden_states=layer.input_layernorm(x), **kwargs)[0]
        return x + layer.mlp(layer.post_attention_layernorm(x)) * layer.residual_multiplier

    layer_forward(p, forward)


def logit_scale_missing(p):
    if p.kind.startswith("granite"):
        p.config.logits_scaling = 1.0
        if hasattr(p.model, "logits_scaling"):
            p.model.logits_scaling = 1.0
    else:
        p.model.logit_scale = 1.0


def logit_scale_inverted(p):
    if p.kind.startswith("granite"):
        p.config.logits_scaling = 1 / p.config.logits_scaling
        if hasattr(p.model, "logits_scaling"):
            p.model.logits_scaling = p.config.logits_scaling
    else:
        p.model.logit_scale = 1 / p.model.logit_scale


def head_tied(p):
    p.model.lm_head.weight = torch.nn.Parameter(p.model.get_input_embeddings().weight.data.clone())


def head_bias_missing(p):
    p.zero("lm_head")


def learned_positions_from_one(p):
    p.learned_positions(lambda ids: ids + 1)


def learned_positions_missing(p):
    for module in p.modules("wpe|position_embeddings"):
        module.weight.data.zero_()


def learned_positions_without_offset(p):
    """Takes row p for position p where the rows start behind the padding's."""
    p.learned_positions(lambda ids: (ids - 2).clamp(min=0))


def token_types_missing(p):
    p.zero("token_type_embeddings", "weight")


def token_types_one(p):
    for module in p.modules("token_type_embeddings"):
        inner = module.forward
        module.forward = lambda ids, inner=inner: inner(torch.ones_like(ids))


def token_ids_one_late(p):
    """Looks each token up one row too far."""
    for module in p.modules(r"embed_tokens|wte|word_embeddings|embed_in|backbone\.embeddings"):
        inner = module.forward
        module.forward = lambda ids, inner=inner: inner((ids + 1) % p.config.vocab_size)


# Recurrent layers and convolutions.

def conv_bias_missing(p):
    p.zero(r"conv1d|conv\.conv")


def conv_taps_reversed(p):
    for module in p.modules(r"conv1d|conv\.conv"):
        module.weight.data = module.weight.data.flip(-1)


def conv_act_missing(p):
    for name in ("causal_conv1d_fn", "causal_conv1d_update"):
        p.replace(name, lambda inner, *args, **kwargs: inner(*args, **{**kwargs, "activation": None}))


def conv_state_dropped(p):
    def update(inner, x, state, *args, **kwargs):
        state.zero_()
        return inner(x, state, *args, **kwargs)

    p.replace("causal_conv1d_update", update)


SCANS = ("mamba_selective_scan", "mamba_selective_state_update")


def dt_softplus_missing(p):
    p.replace(SCANS[0], lambda inner, *args, **kwargs: inner(*args, **{**kwargs, "delta_softplus": False}))
    p.replace(SCANS[1], lambda inner, *args, **kwargs: inner(*args, **{**kwargs, "dt_softplus": False}))


def dt_bias_missing(p):
    if p.kind == "mamba2":
        return p.zero("mixer", "dt_bias")
    p.zero("dt_proj")


def ssm_a_not_exponentiated(p):
    for module in p.modules("mixer"):
        module.A_log.data = torch.log(module.A_log.data.abs().clamp(min=1e-6))


def ssm_skip_missing(p):
    p.zero("mixer", "D")


def ssm_gate_missing(p):
    for name in SCANS:
        p.replace(name, lambda inner, *args, **kwargs: inner(*args, **{**kwargs, "z": None}))


def ssm_b_c_exchanged(p):
    p.replace(SCANS[0], lambda inner, x, dt, a, b, c, *args, **kwargs: inner(x, dt, a, c, b, *args, **kwargs))
    p.replace(SCANS[1], lambda inner, s, x, dt, a, b, c, *args, **kwargs: inner(s, x, dt, a, c, b, *args, **kwargs))


def ssm_state_dropped(p):
    def update(inner, state, *args, **kwargs):
        state.zero_()
        return inner(state, *args, **kwargs)

    p.replace(SCANS[1], update)


def ssm_x_gate_exchanged(p):
    """Takes the first half of the input product as the gate."""
    for module in p.modules("in_proj"):
        p.late.append((module, lambda m, args, out: torch.cat(out.chunk(2, -1)[::-1], -1)))


def short_conv_gates_exchanged(p):
    """Takes the second third of the product as the gate before the convolution, the first as the one after."""
    for module in p.modules(r"conv\.in_proj"):
        def swap(m, args, out):
            b, c, x = out.chunk(3, -1)
            return torch.cat([c, b, x], -1)
        p.late.append((module, swap))
