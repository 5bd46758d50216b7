"""Tiny models of random weights of architectures that the fixtures lack, computed by two other programs.

usage: make.py OUT [NAME...]

Each model goes to OUT/NAME: model.gguf (F32), logits_hf.npy and logits_llamacpp.npy (every position of a prompt), tokens.json (the
prompt, and 16 greedy tokens of each program), and one line on stdout. OUT is crates/inspect/tests/goldens/architectures here.

Weights are made by Hugging Face's class with a fixed seed, norms and biases included, and computed by it in float64; llama.cpp
computes the file that is written here, in F32 with one thread. Tensors are named by the gguf package's table. Made with
transformers 5.23.0, torch 2.15.0, gguf 0.19.0, llama-cpp-python 0.3.36, numpy 2.4.6.
"""
import json
import sys
import zlib
from pathlib import Path

import gguf
import llama_cpp as ll
import numpy as np
import torch
import transformers as hf

PROMPT, GREEDY, VOCAB, CONTEXT = 20, 16, 160, 128
BASE = dict(
    vocab_size=VOCAB,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=CONTEXT,
    rms_norm_eps=1e-5,
    tie_word_embeddings=False,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=None,
    attn_implementation="eager",
)
ROPE = dict(rope_theta=10000.0, rope_type="default")


class Row:
    """A model: GGUF's architecture, Hugging Face's class, and what their numbers are."""

    def __init__(self, name, arch, model, config, keys=lambda w, c: None, turned=False, fix=lambda name, x, c: [(name, x)], **numbers):
        self.name, self.arch = name, getattr(gguf.MODEL_ARCH, arch)
        self.model, self.config, self.keys, self.turned, self.fix = model, config, keys, turned, fix
        self.numbers = {**BASE, "rope_parameters": ROPE, **numbers}


def pairs_side_by_side(x, heads):
    """Rows of queries or keys as Llama files have them: the two halves of each head's pairs interleaved."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def seeded(row):
    """The model in float64; no weight is a constant."""
    torch.manual_seed(zlib.crc32(row.name.encode()))
    config = row.config(**row.numbers)
    model = row.model(config).eval()
    for part in model.modules():
        if hasattr(part, "config"):
            # The quick way knows no float64.
            part.config._experts_implementation = "eager"
    with torch.no_grad():
        for name, x in model.named_parameters():
            near_one = "norm" in name and name.endswith("weight") or name.endswith("scale")
            x.copy_(1 + 0.1 * torch.randn_like(x) if near_one else torch.randn_like(x) * (
                0.1 if x.ndim == 1 else 0.7 if "embed" in name else 1.3 / x.shape[-1] ** 0.5))
        for name, x in model.named_buffers():
            if name.endswith("correction_bias"):
                x.copy_(0.1 * torch.randn_like(x))
            if name.endswith("layer_scalar"):
                x.copy_((1 + 0.1 * torch.randn_like(x)).float())
        # The file's weights are floats.
        for x in model.parameters():
            x.copy_(x.float())
    return config, model.float().double()


def vocabulary(writer):
    tokens = ["<unk>", "<s>", "</s>"] + [f"\u2581{number}" for number in range(VOCAB - 3)]
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * VOCAB)
    writer.add_token_types([2, 3, 3] + [1] * (VOCAB - 3))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def feed_forward(text):
    """The width, or each layer's."""
    if not getattr(text, "use_double_wide_mlp", False):
        return text.intermediate_size
    return [text.intermediate_size * (2 if mode == "reuse" else 1) for mode in text.kv_sharing_modes]


def kv_heads(text):
    """Key and value heads, or each layer's."""
    if not getattr(text, "attention_k_eq_v", False):
        return text.num_key_value_heads
    return [text.per_layer_config[i].num_key_value_heads for i in range(text.num_hidden_layers)]


def write(row, path, config, model):
    writer = gguf.GGUFWriter(str(path), gguf.MODEL_ARCH_NAMES[row.arch])
    text = getattr(config, "text_config", config)
    writer.add_name(f"random {row.name}")
    writer.add_context_length(CONTEXT)
    writer.add_vocab_size(VOCAB)
    writer.add_embedding_length(text.hidden_size)
    writer.add_block_count(text.num_hidden_layers)
    writer.add_feed_forward_length(feed_forward(text))
    writer.add_head_count(text.num_attention_heads)
    writer.add_head_count_kv(kv_heads(text))
    if getattr(text, "rope_parameters", None) and "rope_theta" in text.rope_parameters:
        writer.add_rope_freq_base(text.rope_parameters["rope_theta"])
    if getattr(text, "rms_norm_eps", None) is not None:
        writer.add_layer_norm_rms_eps(text.rms_norm_eps)
    row.keys(writer, text)
    vocabulary(writer)
    names = gguf.get_tensor_name_map(row.arch, text.num_hidden_layers)
    for name, x in model.state_dict().items():
        if "vision" in name or "visual" in name:
            continue
        name = name.replace("language_model.", "")
        x = x.float().numpy()
        for name, x in row.fix(name, x, text):
            stem, dot, suffix = name.rpartition(".")
            if row.turned and stem.endswith(("q_proj", "k_proj")):
                x = pairs_side_by_side(x, text.num_attention_heads if stem.endswith("q_proj") else text.num_key_value_heads)
            known = name if name.startswith("blk.") else names.get_name(name, try_suffixes=(".weight", ".bias", ".scale"))
            if known is None:
                raise SystemExit(f"{row.name}: {name} has no name in GGUF")
            if name.startswith("lm_head") and text.tie_word_embeddings:
                continue
            writer.add_tensor(known, np.ascontiguousarray(x, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def greedy(step, prompt):
    """The likeliest tokens, one by one; `step` gives the last position's logits."""
    tokens = list(prompt)
    for _ in range(GREEDY):
        tokens.append(int(np.argmax(step(tokens))))
    return tokens[len(prompt) :]


def by_hugging_face(model, prompt):
    def logits(tokens):
        with torch.no_grad():
            return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].numpy()

    return logits(prompt), greedy(lambda tokens: logits(tokens)[-1], prompt)


def by_llama_cpp(path, prompt):
    said = []
    quiet = ll.llama_log_callback(lambda level, text, user: said.append(text.decode()))
    ll.llama_log_set(quiet, None)
    model = ll.llama_model_load_from_file(str(path).encode(), ll.llama_model_default_params())
    if not model:
        raise SystemExit(f"{path}: llama.cpp: {''.join(said)[-400:]}")
    params = ll.llama_context_default_params()
    params.n_ctx, params.n_threads, params.n_threads_batch = CONTEXT, 1, 1
    params.type_k = params.type_v = 0
    params.flash_attn_type = ll.LLAMA_FLASH_ATTN_TYPE_DISABLED
    context = ll.llama_init_from_model(model, params)

    def logits(tokens):
        ll.llama_memory_clear(ll.llama_get_memory(context), True)
        batch = ll.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
            batch.seq_id[i][0] = 0
        if ll.llama_decode(context, batch) != 0:
            raise SystemExit(f"{path}: llama_decode failed")
        rows = [np.ctypeslib.as_array(ll.llama_get_logits_ith(context, i), (VOCAB,)).copy() for i in range(len(tokens))]
        ll.llama_batch_free(batch)
        return np.array(rows)

    result = logits(prompt), greedy(lambda tokens: logits(tokens)[-1], prompt)
    ll.llama_free(context)
    ll.llama_model_free(model)
    return result


def rope_dims(writer, config):
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)


def stacked(experts):
    """Experts in one tensor, gate and up apart, as GGUF has them; Hugging Face has [experts, in, out] or [experts, out, in]."""

    def fix(name, x, config):
        if name.endswith("experts.gate_up_proj"):
            gate, up = np.split(x, 2, axis=1)
            stem = name.removesuffix("gate_up_proj")
            return [(f"{stem}gate_proj.weight", gate), (f"{stem}up_proj.weight", up)]
        if name.endswith("experts.down_proj"):
            return [(f"{name}.weight", x)]
        return experts(name, x, config)

    return fix


def plain(name, x, config):
    return [(name, x)]


def latent(name, x, config):
    """Latent attention with the matrices of keys and values apart, the former turned round."""
    if name.endswith("correction_bias"):
        return [(f"blk.{name.split('.')[2]}.exp_probs_b.bias", x)]
    if not name.endswith("kv_b_proj.weight"):
        return [(name, x)]
    k, v = np.split(x.reshape(config.num_attention_heads, -1, config.kv_lora_rank), [config.qk_nope_head_dim], axis=1)
    stem = name.removesuffix("kv_b_proj.weight")
    return [(f"{stem}k_b_proj.weight", k.swapaxes(1, 2)), (f"{stem}v_b_proj.weight", v)]


def latent_keys(writer, config):
    rank, turning = config.kv_lora_rank, config.qk_rope_head_dim
    writer.add_head_count_kv(1)
    writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_kv_lora_rank(rank)
    writer.add_key_length(rank + turning)
    writer.add_value_length(rank)
    writer.add_key_length_mla(config.qk_nope_head_dim + turning)
    writer.add_value_length_mla(config.v_head_dim)
    writer.add_rope_dimension_count(turning)
    writer.add_leading_dense_block_count(config.first_k_dense_replace)
    routed_keys(writer, config)


def routed_keys(writer, config):
    writer.add_expert_count(config.n_routed_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_weights_norm(config.norm_topk_prob)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_expert_group_count(config.n_group)
    writer.add_expert_group_used_count(config.topk_group)


def nemotron(name, x, config):
    """A layer of Nemotron-H is one of four things, all named `mixer`."""
    parts = name.split(".")
    if len(parts) < 4 or parts[3] != "mixer":
        return [(name, x)]
    names = {
        "in_proj.weight": "ssm_in.weight", "out_proj.weight": "ssm_out.weight", "conv1d.weight": "ssm_conv1d.weight",
        "conv1d.bias": "ssm_conv1d.bias", "dt_bias": "ssm_dt.bias", "A_log": "ssm_a", "D": "ssm_d", "norm.weight": "ssm_norm.weight",
        "q_proj.weight": "attn_q.weight", "k_proj.weight": "attn_k.weight", "v_proj.weight": "attn_v.weight", "o_proj.weight": "attn_output.weight",
        "experts.up_proj": "ffn_up_exps.weight", "experts.down_proj": "ffn_down_exps.weight", "gate.weight": "ffn_gate_inp.weight",
        "gate.e_score_correction_bias": "exp_probs_b.bias", "shared_experts.up_proj.weight": "ffn_up_shexp.weight",
        "shared_experts.down_proj.weight": "ffn_down_shexp.weight", "up_proj.weight": "ffn_up.weight", "down_proj.weight": "ffn_down.weight",
    }
    part = ".".join(parts[4:])
    if part == "A_log":
        x = -np.exp(x)
    if part in ("A_log", "D"):
        x = x.reshape(-1, 1)
    if part == "conv1d.weight":
        x = x[:, 0]
    if part == "norm.weight":
        x = x.reshape(config.n_groups, -1)
    return [(f"blk.{parts[2]}.{names[part]}", x)]


def nemotron_keys(writer, config):
    rope_dims(writer, config)
    kinds = config.layers_block_type
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    writer.add_head_count_kv([config.num_key_value_heads if kind == "full_attention" else 0 for kind in kinds])
    writer.add_feed_forward_length([config.intermediate_size if kind in ("mlp", "moe") else 0 for kind in kinds])
    writer.add_ssm_conv_kernel(config.conv_kernel)
    writer.add_ssm_inner_size(config.mamba_num_heads * config.mamba_head_dim)
    writer.add_ssm_state_size(config.ssm_state_size)
    writer.add_ssm_time_step_rank(config.mamba_num_heads)
    writer.add_ssm_group_count(config.n_groups)
    writer.add_expert_shared_feed_forward_length(config.moe_shared_expert_intermediate_size)
    routed_keys(writer, config)


def hunyuan_keys(writer, config):
    rope_dims(writer, config)
    writer.add_expert_count(config.num_experts)
    writer.add_expert_used_count(config.moe_topk)
    writer.add_expert_feed_forward_length(config.intermediate_size)
    writer.add_expert_shared_feed_forward_length(config.intermediate_size)


def ministral_keys(writer, config):
    rope_dims(writer, config)
    scaling = config.rope_parameters
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(scaling["factor"])
    writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
    writer.add_rope_scaling_yarn_beta_fast(scaling["beta_fast"])
    writer.add_rope_scaling_yarn_beta_slow(scaling["beta_slow"])
    writer.add_rope_scaling_yarn_log_mul(scaling["mscale_all_dim"])
    writer.add_attn_temperature_scale(scaling["llama_4_scaling_beta"])


def gemma4_keys(writer, config):
    limited = [kind == "sliding_attention" for kind in config.layer_types]
    head_dims = [config.per_layer_config[kind].head_dim for kind in ("full_attention", "sliding_attention")]
    writer.add_sliding_window(config.sliding_window)
    writer.add_sliding_window_pattern(limited)
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    writer.add_final_logit_softcapping(config.final_logit_softcapping)
    writer.add_key_length(head_dims[0])
    writer.add_value_length(head_dims[0])
    writer.add_key_length_swa(head_dims[1])
    writer.add_value_length_swa(head_dims[1])
    writer.add_rope_dimension_count(head_dims[0])
    writer.add_rope_dimension_count_swa(head_dims[1])
    writer.add_rope_freq_base(config.rope_parameters["full_attention"]["rope_theta"])
    writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    if config.enable_moe_block:
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.top_k_experts)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)


def gemma4_names(name, x, config):
    """What Gemma 4's files have besides the class's matrices: whole experts, scales, and divisors of pairs that do not turn."""
    stem, _, last = name.rpartition(".")
    layer = name.partition("layers.")[2].partition(".")[0]
    renamed = {
        "layer_scalar": f"blk.{layer}.layer_output_scale.weight",
        "gate_up_proj": f"blk.{layer}.ffn_gate_up_exps.weight",
        "down_proj": f"blk.{layer}.ffn_down_exps.weight",
        "per_expert_scale": f"blk.{layer}.ffn_down_exps.scale",
        "scale": f"blk.{layer}.ffn_gate_inp.scale",
    }
    if last in renamed:
        return [(renamed[last], x)]
    if stem.endswith("router.proj"):
        return [(f"blk.{layer}.ffn_gate_inp.weight", x)]
    if name == "model.norm.weight":
        scaling, pairs = config.rope_parameters["full_attention"], config.per_layer_config["full_attention"].head_dim // 2
        turn = int(scaling["partial_rotary_factor"] * pairs)
        return [(name, x), ("rope_freqs.weight", np.array([1.0] * turn + [1e30] * (pairs - turn)))]
    shared = config.num_kv_shared_layers
    if stem.endswith("k_norm") and shared and int(layer) == config.num_hidden_layers - shared - 1:
        # Real files may have keys and values of layers that do not use them.
        unused = int(layer) + 1
        dim = config.per_layer_config[unused].head_dim
        draw, matrix = np.random.default_rng(1).standard_normal, (config.num_key_value_heads * dim, config.hidden_size)
        parts = [("attn_k", matrix), ("attn_v", matrix), ("attn_k_norm", (dim,))]
        return [(name, x)] + [(f"blk.{unused}.{part}.weight", draw(shape)) for part, shape in parts]
    return [(name, x)]


def gemma3n_keys(writer, config):
    writer.add_sliding_window(config.sliding_window)
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    writer.add_final_logit_softcapping(config.final_logit_softcapping)
    rope_dims(writer, config)
    writer.add_rope_freq_base(config.rope_parameters["full_attention"]["rope_theta"])
    writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    writer.add_altup_num_inputs(config.altup_num_inputs)
    writer.add_altup_active_idx(config.altup_active_idx)
    quantile = torch.distributions.normal.Normal(0, 1).icdf
    writer.add_activation_sparsity_scale([quantile(torch.tensor(x)).item() for x in config.activation_sparsity_pattern])


def gemma3n_names():
    """The matrices between AltUp's streams are one tensor each."""
    parts = {}

    def fix(name, x, config):
        if name.endswith("correct_output_scale"):
            return [(f"{name}.weight", x)]
        stem = next((stem for stem in ("altup_projections", "altup_unembed_projections") if f"{stem}." in name), None)
        if stem is None:
            return [(name, x)]
        stack = parts.setdefault(stem, [])
        stack.append(x)
        return [(f"model.{stem}.weight", np.stack(stack))] if len(stack) == config.altup_num_inputs - 1 else []

    return fix


def layer_norm_keys(writer, config):
    rope_dims(writer, config)
    writer.add_layer_norm_eps(config.layer_norm_eps)


def turned_norms(name, x, config):
    """Norms of heads whose pairs are interleaved are interleaved, too."""
    return [(name, pairs_side_by_side(x, 1) if "query_layernorm" in name or "key_layernorm" in name else x)]


def vision_rope(sections):
    def keys(writer, config):
        rope_dims(writer, config)
        writer.add_rope_dimension_sections(sections + [0])
        if getattr(config, "num_experts", None):
            writer.add_expert_count(config.num_experts)
            writer.add_expert_used_count(config.num_experts_per_tok)
            writer.add_expert_feed_forward_length(config.moe_intermediate_size)

    return keys


def seeing(config, **text):
    """A model that sees, of which the text's part is written."""
    vision = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32, embed_dim=16, deepstack_visual_indexes=[0])
    return lambda **numbers: config(text_config={**numbers, **text}, vision_config=vision, tie_word_embeddings=False)


MAMBA = dict(ssm_state_size=8, mamba_num_heads=4, mamba_head_dim=8, n_groups=2, expand=1, use_mamba_kernels=False)
ROUTED = dict(n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=1, routed_scaling_factor=1.8)
S, F = "sliding_attention", "full_attention"
GEMMA4 = dict(
    rope_parameters={
        S: dict(rope_type="default", rope_theta=10000.0),
        F: dict(rope_type="proportional", rope_theta=1000000.0, partial_rotary_factor=0.5),
    },
    sliding_window=8,
    global_head_dim=16,
    final_logit_softcapping=8.0,
    vocab_size_per_layer_input=VOCAB,
    tie_word_embeddings=True,
    intermediate_size=32,
)
MROPE = {**ROPE, "mrope_section": [2, 1, 1]}
ROWS = [
    Row("smollm3", "SMOLLM3", hf.SmolLM3ForCausalLM, hf.SmolLM3Config, rope_dims, True, num_hidden_layers=4, tie_word_embeddings=True),
    Row("seed-oss", "SEED_OSS", hf.SeedOssForCausalLM, hf.SeedOssConfig, rope_dims, head_dim=16, attention_bias=True),
    Row("arcee", "ARCEE", hf.ArceeForCausalLM, hf.ArceeConfig, rope_dims, True),
    Row(
        "ministral3", "MISTRAL3", hf.Ministral3ForCausalLM, hf.Ministral3Config, ministral_keys, True,
        rope_parameters=dict(
            rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=8, beta_fast=32.0, beta_slow=1.0,
            mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1,
        ),
    ),
    Row("hunyuan-moe", "HUNYUAN_MOE", hf.HunYuanMoEV1ForCausalLM, hf.HunYuanMoEV1Config, hunyuan_keys, fix=stacked(plain), num_experts=4, moe_topk=2, use_qk_norm=True),
    # Maincoder has no class of its own in Transformers: its layers are Hunyuan's, with neighbours paired.
    Row("maincoder", "MAINCODER", hf.HunYuanDenseV1ForCausalLM, hf.HunYuanDenseV1Config, rope_dims, True, fix=turned_norms),
    # Nor has Orion: its layers are StableLM's, with whole heads turned.
    Row("orion", "ORION", hf.StableLmForCausalLM, hf.StableLmConfig, layer_norm_keys, layer_norm_eps=1e-5,
        rope_parameters={**ROPE, "partial_rotary_factor": 1.0}),
    Row("jais2", "JAIS2", hf.Jais2ForCausalLM, hf.Jais2Config, layer_norm_keys, layer_norm_eps=1e-5),
    Row(
        "glm4-moe-lite", "DEEPSEEK2", hf.Glm4MoeLiteForCausalLM, hf.Glm4MoeLiteConfig, latent_keys, fix=stacked(latent),
        num_key_value_heads=4, q_lora_rank=12, kv_lora_rank=16, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10,
        first_k_dense_replace=1, **ROUTED,
    ),
    Row(
        "nemotron-h-moe", "NEMOTRON_H_MOE", hf.NemotronHForCausalLM, hf.NemotronHConfig, nemotron_keys, fix=nemotron, num_hidden_layers=5,
        layers_block_type=["mamba", "full_attention", "moe", "mamba", "moe"], moe_shared_expert_intermediate_size=24, **MAMBA, **ROUTED,
    ),
    Row("qwen2vl", "QWEN2VL", hf.Qwen2VLForConditionalGeneration, seeing(hf.Qwen2VLConfig), vision_rope([2, 1, 1]), rope_parameters=MROPE),
    Row("qwen3vl", "QWEN3VL", hf.Qwen3VLForConditionalGeneration, seeing(hf.Qwen3VLConfig), vision_rope([2, 1, 1]), rope_parameters=MROPE),
    Row(
        "qwen3vlmoe", "QWEN3VLMOE", hf.Qwen3VLMoeForConditionalGeneration, seeing(hf.Qwen3VLMoeConfig), vision_rope([2, 1, 1]),
        fix=stacked(plain), rope_parameters=MROPE, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
    ),
    Row(
        "gemma4-shared", "GEMMA4", hf.Gemma4ForCausalLM, hf.Gemma4TextConfig, gemma4_keys, fix=gemma4_names, **GEMMA4,
        num_hidden_layers=7, layer_types=[S, F, S, F, S, S, F], num_kv_shared_layers=3, use_double_wide_mlp=True,
        hidden_size_per_layer_input=8,
    ),
    Row(
        "gemma4-moe", "GEMMA4", hf.Gemma4ForCausalLM, hf.Gemma4TextConfig, gemma4_keys, fix=gemma4_names, **GEMMA4,
        num_hidden_layers=3, layer_types=[S, F, F], hidden_size_per_layer_input=0, attention_k_eq_v=True,
        num_global_key_value_heads=1, enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=24,
    ),
    Row(
        # llama.cpp has these as constants: 256 numbers per layer, four streams, ten sparse layers, every fifth without a window,
        # logits capped at 30.
        "gemma3n", "GEMMA3N", hf.Gemma3nForCausalLM, hf.Gemma3nTextConfig, gemma3n_keys, fix=gemma3n_names(), hidden_size=16,
        intermediate_size=24, num_hidden_layers=5, num_kv_shared_layers=0, sliding_window=8, final_logit_softcapping=30.0,
        vocab_size_per_layer_input=VOCAB, hidden_size_per_layer_input=256, activation_sparsity_pattern=[0.95] * 5,
        tie_word_embeddings=True,
        rope_parameters={S: dict(rope_type="default", rope_theta=10000.0), F: dict(rope_type="default", rope_theta=1000000.0)},
    ),
]


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    out, wanted = Path(sys.argv[1]), sys.argv[2:]
    for row in ROWS:
        if wanted and row.name not in wanted:
            continue
        folder = out / row.name
        folder.mkdir(parents=True, exist_ok=True)
        config, model = seeded(row)
        path = folder / "model.gguf"
        write(row, path, config, model)
        prompt = [1] + [3 + (7 + 41 * i * i + 13 * i) % (VOCAB - 3) for i in range(PROMPT - 1)]
        (ours, ours_next), (theirs, theirs_next) = by_hugging_face(model, prompt), by_llama_cpp(path, prompt)
        np.save(folder / "logits_hf.npy", ours.astype(np.float32))
        np.save(folder / "logits_llamacpp.npy", theirs.astype(np.float32))
        record = {"tokens": prompt, "greedy_hf": ours_next, "greedy_llamacpp": theirs_next}
        (folder / "tokens.json").write_text(json.dumps(record) + "\n")
        error = np.sum((ours - theirs) ** 2) / np.sum(ours**2)
        print(f"{row.name}: {path.stat().st_size} bytes, NMSE between both {error:.1e}, greedy equal {ours_next == theirs_next}")


if __name__ == "__main__":
    main()
