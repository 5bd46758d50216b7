#!/usr/bin/env python3
"""Faults of rope and attention: each function makes a Transformers model go wrong from outside, as an engine would.

A function gets a `Patch` and changes a module's forward, a function of the model's source, a buffer, a weight or an
attribute of the configuration. The function `rope_base_default` is the fault `rope-base-default` in
transformers_faults.py.
"""

import math

import torch

from transformers_patch import epsilon, rms


def base_frequencies(base, dim):
    return 1.0 / base ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)


def turned(x, order):
    """Rows of pairs to rows of halves, or back, along the last axis."""
    split = (-1, 2) if order == "halves" else (2, -1)
    return x.unflatten(-1, split).transpose(-1, -2).flatten(-2)


def other_pairs(p, order):
    """Rope on the other pairs of elements."""
    back = "pairs" if order == "halves" else "halves"

    def rope(inner, q, k, cos, *args, **kwargs):
        width = min(q.shape[-1], cos.shape[-1] * (2 if p.kind in ("gpt_oss", "deepseek_v2") else 1))

        def apart(x):
            return torch.cat([turned(x[..., :width], order), x[..., width:]], -1)

        def again(x):
            return torch.cat([turned(x[..., :width], back), x[..., width:]], -1)

        q, k = inner(apart(q), apart(k), cos, *args, **kwargs)
        return again(q), again(k)

    p.rotate(rope)


# Rope.

def rope_base_default(p):
    p.frequencies(lambda m, f: base_frequencies(10000.0, 2 * len(f)))


def rope_base_global_everywhere(p):
    base = p.config.rope_parameters["full_attention"]["rope_theta"]
    p.frequencies(lambda m, f: base_frequencies(base, 2 * len(f)), "sliding")


def rope_base_local_everywhere(p):
    base = p.config.rope_parameters["sliding_attention"]["rope_theta"]
    p.frequencies(lambda m, f: base_frequencies(base, 2 * len(f)), "full")


def rope_linear_dropped(p):
    factor = _linear_factor(p)
    p.frequencies(lambda m, f: f * factor, "full" if p.kind == "gemma3_text" else "")


def rope_linear_inverted(p):
    factor = _linear_factor(p)
    p.frequencies(lambda m, f: f * factor * factor, "full" if p.kind == "gemma3_text" else "")


def _linear_factor(p):
    parameters = p.config.rope_parameters
    return parameters.get("full_attention", parameters)["factor"]


def rope_llama3_dropped(p):
    p.frequencies(lambda m, f: base_frequencies(p.config.rope_parameters["rope_theta"], 2 * len(f)))


def rope_llama3_as_linear(p):
    parameters = p.config.rope_parameters
    p.frequencies(lambda m, f: base_frequencies(parameters["rope_theta"], 2 * len(f)) / parameters["factor"])


def yarn_magnitude_dropped(p):
    p.set("rotary_emb", attention_scaling=1.0)


def yarn_as_linear(p):
    rope_llama3_as_linear(p)


def yarn_dropped(p):
    rope_llama3_dropped(p)
    yarn_magnitude_dropped(p)


def yarn_magnitude_twice(p):
    for module in p.modules("rotary_emb"):
        module.attention_scaling **= 2


def rope_pairs_interleaved(p):
    other_pairs(p, "halves")


def rope_pairs_half_split(p):
    other_pairs(p, "pairs")


def rope_direction_reversed(p):
    p.rotate(lambda inner, q, k, cos, sin, *args, **kwargs: inner(q, k, cos, -sin, *args, **kwargs))


def rope_query_only(p):
    p.rotate(lambda inner, q, k, *args, **kwargs: (inner(q, k, *args, **kwargs)[0], k))


def rope_key_only(p):
    p.rotate(lambda inner, q, k, *args, **kwargs: (q, inner(q, k, *args, **kwargs)[1]))


def rope_missing(p):
    p.rotate(lambda inner, q, k, *args, **kwargs: (q, k))


def rope_cos_sin_swapped(p):
    p.rotate(lambda inner, q, k, cos, sin, *args, **kwargs: inner(q, k, sin, cos, *args, **kwargs))


def rope_whole_head(p):
    """Rope over all of a head where the configuration says a part."""
    size = getattr(p.config, "head_dim", None) or p.config.hidden_size // p.config.num_attention_heads
    p.frequencies(lambda m, f: base_frequencies(p.config.rope_parameters["rope_theta"], size))
    for module in p.attentions():
        if hasattr(module, "rotary_ndims"):
            module.rotary_ndims = size


def rope_exponent_of_head(p):
    """Rotates the right part, with frequencies spaced for the whole head."""
    size = getattr(p.config, "head_dim", None) or p.config.hidden_size // p.config.num_attention_heads
    base = p.config.rope_parameters["rope_theta"]
    p.frequencies(lambda m, f: base_frequencies(base, size)[: len(f)])


def rope_last_part(p):
    """Rotates the last part of a head instead of the first."""
    def rope(inner, q, k, cos, *args, **kwargs):
        width = cos.shape[-1]
        q, k = (torch.cat([x[..., -width:], x[..., :-width]], -1) for x in (q, k))
        q, k = inner(q, k, cos, *args, **kwargs)
        return tuple(torch.cat([x[..., width:], x[..., :width]], -1) for x in (q, k))

    p.rotate(rope)


def decode_position_restarts(p):
    count = [0]

    def positions(ids):
        if ids.shape[-1] > 1:
            return ids
        count[0] += 1
        return torch.full_like(ids, count[0] - 1)

    if p.kind == "gpt2":
        return p.learned_positions(positions)
    p.positions(positions)


def decode_position_skips_one(p):
    def positions(ids):
        return ids if ids.shape[-1] > 1 else ids + 1

    if p.kind in ("gpt2", "gpt_bigcode"):
        return p.learned_positions(positions)
    p.positions(positions)


def decode_position_stands_still(p):
    last = [0]

    def positions(ids):
        if ids.shape[-1] > 1:
            last[0] = int(ids[0, -1])
            return ids
        return torch.full_like(ids, last[0])

    if p.kind in ("gpt2", "gpt_bigcode"):
        return p.learned_positions(positions)
    p.positions(positions)


def inv_freq_in_half(p):
    p.frequencies(lambda m, f: f.to(torch.bfloat16))


def rope_before_qk_norm(p):
    """Normalises Q and K of a head after rope instead of before it."""
    attentions, here, kept = p.attentions(), [], {}
    for module in attentions:
        norms = [getattr(module, f"{part}_norm", None) or getattr(module, f"{part}_layernorm") for part in "qk"]
        kept[module] = [norm.forward for norm in norms]
        for norm in norms:
            norm.forward = lambda x: x
        module.register_forward_pre_hook(lambda m, args: here.append(m))

    def rope(inner, q, k, *args, **kwargs):
        q, k = inner(q, k, *args, **kwargs)
        norm_q, norm_k = kept[here[-1]]
        return norm_q(q), norm_k(k)

    p.rotate(rope)


def nope_layers_roped(p):
    for module in p.attentions():
        if p.kind == "llama4_text":
            module.use_rope = True
        elif p.kind == "cohere2":
            module.sliding_window = p.config.sliding_window
        else:
            module.sliding_window, module.is_sliding = p.config.sliding_window, True


def longrope_long_for_short(p):
    factors = torch.tensor(p.config.rope_parameters["long_factor"])
    p.frequencies(lambda m, f: base_frequencies(p.config.rope_parameters["rope_theta"], 2 * len(f)) / factors)
    for module in p.modules("rotary_emb"):
        module.forward = lambda x, position_ids, m=module: _table(m, x, position_ids)


def longrope_factors_dropped(p):
    p.frequencies(lambda m, f: base_frequencies(p.config.rope_parameters["rope_theta"], 2 * len(f)))
    for module in p.modules("rotary_emb"):
        module.forward = lambda x, position_ids, m=module: _table(m, x, position_ids)


def _table(module, x, position_ids):
    angles = position_ids[..., None].float() * module.inv_freq
    angles = torch.cat([angles, angles], -1)
    return (angles.cos() * module.attention_scaling).to(x.dtype), (angles.sin() * module.attention_scaling).to(x.dtype)


# Attention.

def scaled(p, factor):
    def attend(inner, module, q, k, v, mask, **kwargs):
        return inner(module, q * factor(module, q), k, v, mask, **kwargs)

    p.attend(attend)


def attn_scale_missing(p):
    scaled(p, lambda m, q: math.sqrt(q.shape[-1]))


def attn_scale_of_hidden(p):
    """Scales by the root of hidden size over heads where the head size is another."""
    size = p.config.hidden_size // p.config.num_attention_heads
    scaled(p, lambda m, q: m.scaling ** -1 * size**-0.5)


def attn_scale_head_dim(p):
    """Scales by the root of the head size where the configuration has its own number."""
    scaled(p, lambda m, q: m.scaling ** -1 * q.shape[-1] ** -0.5)


def attn_scale_inverse_dim(p):
    scaled(p, lambda m, q: q.shape[-1] ** -0.5)


def attn_scale_twice(p):
    scaled(p, lambda m, q: m.scaling if getattr(m, "scaling", None) else q.shape[-1] ** -0.5)


def causal_mask_missing(p):
    p.attend(lambda inner, m, q, k, v, mask, **kw: inner(m, q, k, v, mask if q.shape[2] == 1 else None, **kw))


def causal_mask_on_encoder(p):
    def attend(inner, module, q, k, v, mask, **kwargs):
        rows = torch.full((q.shape[2], k.shape[2]), torch.finfo(q.dtype).min, dtype=q.dtype).triu(1)
        return inner(module, q, k, v, rows[None, None], **kwargs)

    p.attend(attend)


def _shifted(p, by):
    def attend(inner, module, q, k, v, mask, **kwargs):
        if q.shape[2] > 1:
            shape = (q.shape[2], k.shape[2])
            mask = torch.full(shape, torch.finfo(q.dtype).min, dtype=q.dtype).triu(1 + by)
            mask[0, 0] = 0
            mask = mask[None, None]
        return inner(module, q, k, v, mask, **kwargs)

    p.attend(attend)


def mask_sees_next(p):
    _shifted(p, 1)


def mask_not_itself(p):
    _shifted(p, -1)


def sliding_window_ignored(p):
    p.config.sliding_window = 4096


def sliding_window_one_more(p):
    p.config.sliding_window += 1


def sliding_window_one_less(p):
    p.config.sliding_window -= 1


def sliding_window_everywhere(p):
    p.config.layer_types = ["sliding_attention"] * p.config.num_hidden_layers


def sliding_window_other_layers(p):
    other = {"sliding_attention": "full_attention", "full_attention": "sliding_attention"}
    p.config.layer_types = [other[kind] for kind in p.config.layer_types]


def attn_softcap_missing(p):
    p.set("self_attn", attn_logit_softcapping=None)


def attn_softcap_after_mask(p):
    def attend(inner, module, q, k, v, mask, softcap=None, scaling=None, **kwargs):
        groups = module.num_key_value_groups
        scores = q @ k.repeat_interleave(groups, 1).transpose(2, 3) * scaling
        scores = torch.tanh((scores + mask) / softcap) * softcap
        weights = scores.softmax(-1, dtype=torch.float32).to(q.dtype)
        return (weights @ v.repeat_interleave(groups, 1)).transpose(1, 2).contiguous(), weights

    p.attend(attend)


def attn_softcap_divisor_forgotten(p):
    def attend(inner, module, q, k, v, mask, softcap=None, **kwargs):
        return inner(module, q * softcap, k, v, mask, softcap=softcap, **kwargs)

    p.attend(attend)


def final_softcap_missing(p):
    p.config.final_logit_softcapping = None


def regrouped(p, choose):
    def attend(inner, module, q, k, v, mask, **kwargs):
        groups, module.num_key_value_groups = module.num_key_value_groups, 1
        try:
            return inner(module, q, choose(k, groups), choose(v, groups), mask, **kwargs)
        finally:
            module.num_key_value_groups = groups

    p.attend(attend)


def kv_heads_tiled(p):
    regrouped(p, lambda x, groups: x.repeat(1, groups, 1, 1))


def kv_head_first_for_all(p):
    regrouped(p, lambda x, groups: x[:, :1].expand(-1, x.shape[1] * groups, -1, -1))


def kv_heads_reversed(p):
    p.attend(lambda inner, m, q, k, v, mask, **kw: inner(m, q, k.flip(1), v.flip(1), mask, **kw))


def attn_sinks_missing(p):
    for module in p.attentions():
        module.sinks.data.fill_(-1e4)


def attn_sinks_one_for_all(p):
    for module in p.attentions():
        module.sinks.data.copy_(module.sinks.data[:1].expand_as(module.sinks))


def alibi_missing(p):
    _alibi(p, lambda made: torch.zeros_like(made))


def alibi_slopes_reversed(p):
    _alibi(p, lambda made: made.flip(0))


def alibi_slopes_from_one(p):
    """Slopes 2^(-8i/n) counted from i = 0."""
    _alibi(p, lambda made: made * 2 ** (8 / p.config.num_attention_heads))


def _alibi(p, change):
    name = "_get_alibi_slopes" if p.kind == "bloom" else "build_mpt_alibi_tensor"
    p.replace(name, lambda inner, *args, **kwargs: change(inner(*args, **kwargs)))


def decoding(p, function):
    """Changes the keys and values that a decoded token attends to: function(step, k, v) gives both."""
    def attend(inner, module, q, k, v, mask, **kwargs):
        if q.shape[2] > 1:
            module.decoded = 0
            return inner(module, q, k, v, mask, **kwargs)
        module.decoded += 1
        k, v = function(module.decoded, k, v)
        return inner(module, q, k, v, None if mask is None else mask[..., -k.shape[2] :], **kwargs)

    p.attend(attend)


def kv_cache_dropped(p):
    decoding(p, lambda step, k, v: (k[:, :, -1:], v[:, :, -1:]))


def kv_cache_without_newest(p):
    decoding(p, lambda step, k, v: (k[:, :, :-1], v[:, :, :-1]))


def kv_cache_slot_zero(p):
    """Decoded tokens are written from slot 0 on."""
    def slots(step, k, v):
        prompt = k.shape[2] - step
        return tuple(torch.cat([x[:, :, prompt:], x[:, :, step:prompt]], 2) for x in (k, v))

    decoding(p, slots)


def kv_cache_values_late(p):
    """Values are read one position late."""
    decoding(p, lambda step, k, v: (k, torch.cat([v[:, :, :1], v[:, :, :-1]], 2)))


def heads_not_transposed(p):
    def attend(inner, *args, **kwargs):
        out, weights = inner(*args, **kwargs)
        return out.transpose(1, 2).contiguous().view(out.shape), weights

    p.attend(attend)


def qk_norm_missing(p):
    p.skip("q_norm|q_layernorm")
    p.skip("k_norm|k_layernorm")


def q_norm_missing(p):
    p.skip("q_norm|q_layernorm")


def qk_norm_swapped(p):
    for module in p.attentions():
        module.q_norm.forward, module.k_norm.forward = module.k_norm.forward, module.q_norm.forward


def qk_norm_per_head(p):
    """Normalises each head on its own where the model normalises all heads together."""
    size = getattr(p.config, "head_dim", None) or p.config.hidden_size // p.config.num_attention_heads
    for module in p.modules("q_norm|k_norm"):
        module.forward = lambda x, m=module: m.weight * rms(x.unflatten(-1, (-1, size)), epsilon(m)).flatten(-2)


def qk_norm_over_all_heads(p):
    """Normalises all heads together where the model normalises each."""
    for module in p.modules("q_norm|k_norm"):
        module.forward = lambda x, m=module: m.weight * rms(x.flatten(-2), epsilon(m)).unflatten(-1, x.shape[-2:])


def q_bias_missing(p):
    p.zero(r"q_proj|query")


def v_bias_missing(p):
    p.zero(r"v_proj|value")


def qkv_bias_missing(p):
    p.zero(r"q_proj|k_proj|v_proj|query_key_value|c_attn|attention\.self\.(?:query|key|value)")


def o_bias_missing(p):
    p.zero(r"o_proj|attention\.dense|self_attention\.dense|attn\.c_proj|attention\.output\.dense|self_attn\.dense")


def fused(p, function):
    """Hands attention a product of fused Q, K and V in another order; the product itself is right."""
    for module in p.modules("query_key_value|c_attn|qkv_proj|Wqkv"):
        p.late.append((module, lambda m, args, out: function(out)))


def qkv_split_as_blocks(p):
    """Splits a product whose rows are q, k, v of each head as if they were all q, all k, all v."""
    heads = p.config.num_attention_heads
    fused(p, lambda out: out.unflatten(-1, (3, heads, -1)).transpose(-2, -3).flatten(-3))


def qkv_split_by_head(p):
    """Splits a product whose rows are all q, all k, all v as if they were q, k, v of each head."""
    heads = p.config.num_attention_heads
    fused(p, lambda out: out.unflatten(-1, (heads, 3, -1)).transpose(-2, -3).flatten(-3))


def qkv_split_order_kqv(p):
    heads = p.config.num_attention_heads
    groups = getattr(p.config, "num_key_value_heads", None) or heads
    size = p.config.hidden_size // heads
    fused(p, lambda out: torch.cat([out[..., groups * size :][..., : heads * size], out[..., : groups * size],
                                    out[..., (heads + groups) * size :]], -1))


def conv1d_not_transposed(p):
    for module in p.modules(r"attn\.c_proj"):
        module.weight.data = module.weight.data.T.contiguous()


def mla_kv_norm_missing(p):
    p.skip("kv_a_layernorm")


def mla_q_norm_missing(p):
    p.skip("q_a_layernorm")


def mla_scale_without_rope_part(p):
    p.set("self_attn", scaling=p.config.qk_nope_head_dim**-0.5)


def mla_key_rope_missing(p):
    rope_query_only(p)
