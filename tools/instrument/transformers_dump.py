#!/usr/bin/env python3
"""Records what a Transformers model computes, by forward hooks on its modules, over a prompt and decoded tokens.

Used by transformers_faults.py. A value is a module's output under the module's name, as a user of Transformers has it;
the values between modules (Q and K after rope, the input of the output product) are recorded under llama.cpp's names.
"""

import re
import sys

import torch

# Modules whose output is no value of interest, or is called for its side effect.
SILENT = re.compile(r"(^|\.)(rotary_emb|rotary_emb_local|\w*dropout|attn_drop|resid_drop|drop|alpha_drop)$")
# A model of Llama's modules: the end of a module's name, and llama.cpp's name for its output.
CANONICAL = {
    "embed_tokens": "inp_embd", "norm": "result_norm", "lm_head": "result_output", "self_attn.q_norm": "Qcur_normed",
    "self_attn.k_norm": "Kcur_normed", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.o_proj": "attn_out", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp": "ffn_out", "": "l_out",
}
# The modules that the table covers.
LLAMA_LIKE = {"llama", "mistral", "qwen2", "qwen3"}
ENTRIES = {"self_attn.o_proj": "kqv_out", "mlp.down_proj": "ffn_swiglu", "post_attention_layernorm": "ffn_inp"}
BLOCK = re.compile(r"(?:.*\.)?(?:layers|h|layer|blocks)\.(\d+)(?:\.(.+))?$")


def canonical(name, config):
    """llama.cpp's name of a module's output, or None. Q, K and V of a model with biases are after them."""
    if config.model_type not in LLAMA_LIKE:
        return None
    biased = config.model_type == "qwen2" or getattr(config, "attention_bias", False)
    block = BLOCK.match(name)
    if not block:
        return CANONICAL.get(name.rpartition(".")[2])
    inner = block[2] or ""
    found = re.fullmatch(r"self_attn\.([qkv])_proj", inner)
    if found:
        part = found[1].upper()
        kind = "" if part == "V" else ".add" if biased else ".mul_mat"
        return f"{part}cur{kind}-{block[1]}"
    return f"{CANONICAL[inner]}-{block[1]}" if inner in CANONICAL else None


# For case.json only: the end of a module's name in any architecture, and what llama.cpp calls its output.
ROUGHLY = {
    r"embed_tokens|wte|word_embeddings|embed_in|backbone\.embeddings": "inp_embd", r"lm_head|logits": "result_output",
    r"model\.norm|final_layer_?norm|ln_f|norm_f|model\.embedding_norm": "result_norm",
    r"wpe|position_embeddings": "pos_embd",
    r"(self_attn|attn)\.q_(layer)?norm": "Qcur_normed", r"(self_attn|attn)\.k_(layer)?norm": "Kcur_normed",
    r"input_layernorm|ln_1|norm_1|operator_norm|ln_attn|norm": "attn_norm",
    r"post_self_attn_layernorm": "attn_post_norm",
    r"post_feedforward_layernorm|post_mlp_layernorm": "ffn_post_norm",
    r"pre_feedforward_layernorm|ln_2|norm_2|ffn_norm|ln_mlp": "ffn_norm",
    r"(self_attn|attn|attention|self_attention|attention\.output)\.(o_proj|dense|c_proj|out_proj)": "attn_out",
    r"\w+\.(gate_proj|w1)": "ffn_gate", r"\w+\.(up_proj|w3|c_fc|fc1|dense_h_to_4h)|intermediate\.dense": "ffn_up",
    r"mlp|feed_forward|ffn": "ffn_out", r"mlp\.(c_proj|fc2|dense_4h_to_h|down_proj)|feed_forward\.w2": "ffn_out",
    r"\w+\.experts": "ffn_moe_out", r"(mlp|block_sparse_moe)\.(gate|router)": "ffn_moe_logits",
    r".*\.(query_key_value|c_attn|qkv_proj|Wqkv)": "wqkv", "": "l_out",
}
AFTER_ATTENTION = {"gemma2", "gemma3_text", "gemma4_text", "olmo2", "olmo3", "exaone4"}


def llama_cpp_name(name, model):
    """What llama.cpp calls a value of any architecture, where that is plain; else the name itself."""
    if name is None or LLAMA_CPP.fullmatch(name):
        return name
    state = re.fullmatch(r"hidden_states\.(\d+)", name)
    if state:
        return f"l_out-{int(state[1]) - 1}" if int(state[1]) else "inp_embd"
    block = BLOCK.match(name)
    inner = (block[2] or "") if block else name
    layer = f"-{block[1]}" if block else ""
    product = re.fullmatch(r".*(?:([qkv])_proj|attention\.self\.(query|key|value))", inner)
    if product:
        part = (product[1] or product[2])[0].upper()
        added = ".mul_mat" if model.get_submodule(name).bias is None else ".add"
        return f"{part}cur{'' if part == 'V' else added}{layer}"
    if inner == "post_attention_layernorm":
        return ("attn_post_norm" if model.config.model_type in AFTER_ATTENTION else "ffn_norm") + layer
    for pattern, ours in ROUGHLY.items():
        if re.fullmatch(pattern if block else rf"(?:.*\.)?(?:{pattern})" if pattern else "-", inner):
            return ours + layer
    return name


class Recorder:
    """Hooks on all modules of a model; `values` has each value of the last run, `[1, T, ...]`, in order."""

    def __init__(self, model, late=()):
        self.model, self.kind = model, model.config.model_type
        self.step, self.first = {}, []
        for name, module in model.named_modules():
            if not name or isinstance(module, torch.nn.ModuleList) or SILENT.search(name):
                continue
            module.register_forward_hook(lambda _, args, out, name=name: self.put(name, out))
            block = BLOCK.match(name)
            if block and block[2] in ENTRIES and self.kind in LLAMA_LIKE:
                key = f"{ENTRIES[block[2]]}-{block[1]}"
                module.register_forward_pre_hook(lambda _, args, key=key: self.put(key, args[0]))
        for module, hook in late:
            module.register_forward_hook(hook)
        self.code = sys.modules[type(model).__module__]
        self.inner = getattr(self.code, "eager_attention_forward", None)

    def put(self, name, out):
        out = out[0] if isinstance(out, tuple) else out
        if not isinstance(out, torch.Tensor) or not out.is_floating_point():
            return
        if out.dim() == 2 and out.shape[0] == self.tokens:
            out = out[None]
        if out.dim() < 3 or out.shape[:2] != (1, self.tokens):
            return
        self.step[name] = None if name in self.step else out.detach().clone()
        if name not in self.first:
            self.first.append(name)

    def attention(self, module, query, key, value, *args, **kwargs):
        layer = getattr(module, "layer_idx", None)
        for name, heads in (("Qcur", query), ("Kcur", key), ("Vcur", value)):
            self.put(f"{name}-{layer}", heads[:, :, -self.tokens :].transpose(1, 2))
        return self.inner(module, query, key, value, *args, **kwargs)

    @torch.no_grad()
    def run(self, prompt, steps, forced=None):
        """Evaluates the prompt at once, then `steps` tokens one by one: the likeliest, or those of `forced`.

        Returns all ids."""
        ids, cache, parts = list(prompt), {}, []
        decodes = hasattr(self.model, "lm_head")
        steps = steps if decodes else 0
        if self.inner:
            self.code.eager_attention_forward = self.attention
        try:
            for step in range(steps + 1):
                new = ids if step == 0 else ids[-1:]
                self.tokens, self.step = len(new), {}
                decoder = {"use_cache": True, **cache} if decodes else {}
                out = self.model(input_ids=torch.tensor([new]), output_hidden_states=True, **decoder)
                for i, state in enumerate(out.hidden_states or ()):
                    self.put(f"hidden_states.{i}", state)
                if "logits" in out:
                    self.put("logits", out.logits)
                parts.append(self.step)
                if step == steps:
                    break
                cache = next({key: out[key]} for key in ("cache", "past_key_values", "cache_params") if key in out)
                ids.append(forced[len(ids)] if forced else int(out.logits[0, -1].argmax()))
        finally:
            if self.inner:
                self.code.eager_attention_forward = self.inner
        complete = [name for name in self.first if all(part.get(name) is not None for part in parts)]
        self.values = {name: torch.cat([part[name] for part in parts], 1) for name in complete}
        return ids


STATES = re.compile(r"hidden_states\.\d+|logits")
LLAMA_CPP = re.compile(r"[A-Za-z_]+(\.\w+)?-\d+")


def chosen(values, style, config):
    """The values that a dump of this style has, by the name that it gives them."""
    if style == "logits":
        return {name: value for name, value in values.items() if name == "logits"}
    if style == "hidden_states":
        return {name: value for name, value in values.items() if STATES.fullmatch(name)}
    if style == "modules":
        return {name: v for name, v in values.items() if not STATES.fullmatch(name) and not LLAMA_CPP.fullmatch(name)}
    named = {}
    for name, value in values.items():
        key = name if LLAMA_CPP.fullmatch(name) else canonical(name, config)
        if key and key not in named:
            named[key] = value.flatten(2)[0]
    return named


def first_wrong(sick, healthy, names, limit=2e-6):
    """The first of `names` whose value differs between two runs over the same ids, in order of computation."""
    for name in names:
        if name not in healthy or name not in sick:
            continue
        want, got = healthy[name].double(), sick[name].double()
        if want.shape != got.shape:
            return name
        if not bool(((got - want).pow(2).mean() <= limit**2 * want.pow(2).mean()).item()):
            return name
    return None
