#!/usr/bin/env python3
"""Builds Hugging Face Transformers models with the weights of GGUF files, and checks them against known logits.

    python tools/instrument/transformers_models.py FIXTURES [NAME ...]

FIXTURES holds one folder for each architecture with config.json, model.gguf, tokens.json and logits_hf.npy (or
embeddings_hf.npy, of an encoder). Prints one line for each: the error of float64 logits. Needs torch, transformers,
gguf, numpy.
"""

import json
import re
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from gguf.quants import dequantize

# Converters turn rows of Q and K from halves of a head to pairs for these.
PAIRED = {"llama", "mistral", "mixtral", "granite", "granitemoe", "olmo"}
# Converters add 1 to the norm weights of these.
NORM_PLUS_ONE = {"gemma", "gemma2", "gemma3_text", "nemotron", "qwen3_5_text", "qwen3_5_moe_text"}
# Configurations of classes that Transformers lacks, with the class of the same mathematics.
SAME_AS = {"exaone": "llama", "internlm2": "llama", "xverse": "llama", "baichuan": "llama"}
# Names that gguf's own table does not have, or has otherwise.
OUTER = {
    "embeddings.token_type_embeddings": "token_types", "model.embedding_norm": "token_embd_norm",
    "backbone.embeddings": "token_embd", "transformer.word_embeddings_layernorm": "token_embd_norm",
}
INNER = {
    "mixer.A_log": "ssm_a", "mixer.D": "ssm_d", "mixer.dt_bias": "ssm_dt.bias", "self_attn.sinks": "attn_sinks.weight",
    "mlp.gate.e_score_correction_bias": "exp_probs_b.bias", "feed_forward.expert_bias": "exp_probs_b.bias",
    "mlp.router.weight": "ffn_gate_inp.weight", "mlp.router.bias": "ffn_gate_inp.bias",
    "block_sparse_moe.router.weight": "ffn_gate_inp.weight", "feed_forward.gate.weight": "ffn_gate_inp.weight",
    "linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias", "mamba.dt_bias": "ssm_dt.bias",
    "mlp.expert_bias": "exp_probs_b.bias", "mlp.gate.moe_statics.e_score_correction_bias": "exp_probs_b.bias",
    "mlp.e_score_correction_bias": "exp_probs_b.bias",
}
UNUSED = re.compile(r"pooler\.|position_ids")


def plain(value):
    """JSON has no infinity; configurations write it as an object."""
    if isinstance(value, dict) and "__float__" in value:
        return float(value["__float__"])
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


class Weights:
    """The tensors of one GGUF file, dequantized, under their own names."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.arch = reader.fields["general.architecture"].contents()
        blocks = reader.fields[f"{self.arch}.block_count"].contents()
        arch = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == self.arch)
        self.names = gguf.get_tensor_name_map(arch, blocks)
        self.tensors = {
            tensor.name: torch.from_numpy(np.array(dequantize(tensor.data, tensor.tensor_type), np.float32))
            for tensor in reader.tensors
        }

    def name(self, key):
        """The GGUF name of a state's key, or None."""
        block = re.search(r"\.(?:layers|h|layer|blocks)\.(\d+)\.(.+)$", key)
        if block and block[2] in INNER:
            return f"blk.{block[1]}.{INNER[block[2]]}"
        stem, _, kind = key.rpartition(".")
        if stem in OUTER:
            return f"{OUTER[stem]}.{kind}"
        return self.names.get_name(key, try_suffixes=(".weight", ".bias"))


def halves(rows, heads):
    """Rows of pairs, 0, E/2, 1, E/2+1 and so on in each head, to rows of halves."""
    pairs = rows.reshape(heads, -1, 2, *rows.shape[1:])
    return pairs.transpose(1, 2).reshape(rows.shape)


def side_by_side(rows, groups, per_group, size):
    """Rows q of all heads, then k, then v, to rows of one group after the other: its q heads, its k, its v."""
    q, k, v = rows.split([groups * per_group * size, groups * size, groups * size])
    rest = rows.shape[1:]
    parts = [part.reshape(groups, -1, size, *rest) for part in (q, k, v)]
    return torch.cat(parts, 1).reshape(rows.shape)


def experts(weights, block, part, kind):
    """One of Transformers' stacked expert tensors: [experts, out, in], gate above up; or as GPT-OSS has them."""
    def get(stem, suffix):
        return weights.tensors[f"blk.{block}.ffn_{stem}_exps.{suffix}"]

    suffix = "bias" if part.endswith("_bias") else "weight"
    if kind == "llama4_text":
        found = get("down", suffix) if part == "down_proj" else torch.cat([get("gate", suffix), get("up", suffix)], 1)
        return found.transpose(1, 2)
    if kind != "gpt_oss":
        if part == "down_proj":
            return get("down", suffix)
        joined = f"blk.{block}.ffn_gate_up_exps.weight"
        if joined in weights.tensors:
            return weights.tensors[joined]
        return torch.cat([get("gate", suffix), get("up", suffix)], 1)
    if part.startswith("down"):
        found = get("down", suffix)
    else:
        gate, up = get("gate", suffix), get("up", suffix)
        found = torch.stack([gate, up], 2).reshape(gate.shape[0], -1, *gate.shape[2:])
    return found.transpose(1, 2) if suffix == "weight" else found


def undone(weights, key, config):
    """The tensor for one key of the state, with what the converter did to it undone; None where the file has none."""
    kind = config.model_type
    block = re.search(r"\.(?:layers|h|layer|blocks)\.(\d+)\.(.+)$", key)
    found = re.search(r"experts\.((?:gate_up|down)_proj(?:_bias)?)$", key)
    if found:
        return experts(weights, block[1], found[1], kind)
    if key.endswith("kv_b_proj.weight") and f"blk.{block[1]}.attn_k_b.weight" in weights.tensors:
        k, v = (weights.tensors[f"blk.{block[1]}.attn_{part}_b.weight"] for part in "kv")
        return torch.cat([k.transpose(1, 2), v], 1).flatten(0, 1)
    name = weights.name(key)
    if kind == "bloom" and "post_attention_layernorm" in key:
        name = f"blk.{block[1]}.ffn_norm.{key.rpartition('.')[2]}"
    if kind == "phi3" and key.endswith("gate_up_proj.weight") or kind in ("glm", "glm4") and "gate_up_proj" in key:
        name = f"blk.{block[1]}.ffn_up.weight"
    tensor = weights.tensors.get(name)
    if tensor is None and name and name + ".weight" in weights.tensors:
        tensor = weights.tensors[name + ".weight"]
    if tensor is None:
        if key == "lm_head.weight":
            return weights.tensors["token_embd.weight"]
        fused = re.fullmatch(r"self_attn\.(qkv)_proj\.(\w+)", block[2]) if block else None
        if fused:
            return torch.cat([weights.tensors[f"blk.{block[1]}.attn_{part}.{fused[2]}"] for part in "qkv"])
        return None
    if kind in PAIRED and (found := re.search(r"self_attn\.([qk])_proj\.", key)):
        heads = config.num_attention_heads if found[1] == "q" else config.num_key_value_heads
        return halves(tensor, heads)
    if kind in NORM_PLUS_ONE and "norm" in key and key.endswith("weight") and "linear_attn.norm" not in key:
        return tensor - 1
    if kind == "gpt2" and re.search(r"\.(c_attn|c_proj|c_fc)\.weight", key):
        return tensor.T
    if "query_key_value" in key:
        heads = config.num_attention_heads
        size = config.hidden_size // heads
        groups = heads
        if kind == "falcon":
            groups = config.num_kv_heads if config.new_decoder_architecture else 1 if config.multi_query else heads
        return side_by_side(tensor, groups, heads // groups, size)
    if key.endswith("A_log"):
        return torch.log(-tensor)
    return tensor


def state_of(model, path):
    weights = Weights(path)
    state, lacking = {}, []
    for key, old in model.state_dict().items():
        tensor = undone(weights, key, model.config)
        if tensor is None and UNUSED.search(key):
            tensor = old
        if key.endswith("position_embeddings.weight") and tensor is not None and len(tensor) < len(old):
            tensor = torch.cat([old[: len(old) - len(tensor)], tensor])  # RoBERTa's first rows are not in the file
        if tensor is None:
            lacking.append(key)
            continue
        if tensor.numel() != old.numel():
            raise ValueError(f"{path}: {key}: expected {list(old.shape)}, got {list(tensor.shape)}")
        state[key] = tensor.reshape(old.shape).contiguous()
    if lacking:
        raise ValueError(f"{path}: no tensor for {', '.join(lacking[:8])} (and {max(0, len(lacking) - 8)} more)")
    return state


def as_llama(config, base):
    """Fields of another class under the names of Llama's configuration."""
    keep = {key: value for key, value in config.items() if key not in ("architectures", "model_type", "auto_map")}
    return {**keep, "model_type": base, "architectures": ["LlamaForCausalLM"]}


def build(folder, dtype=torch.float32):
    """The model of a fixture folder, in `dtype`, with eager attention. Rotary frequencies stay in float32."""
    config = plain(json.loads((folder / "config.json").read_text()))
    config.pop("transformers_version", None)
    if config["model_type"] in SAME_AS:
        config = as_llama(config, SAME_AS[config["model_type"]])
    name = config["architectures"][0]
    cls = getattr(transformers, name)
    made = cls.config_class(**{key: value for key, value in config.items() if key != "architectures"})
    made._experts_implementation = "eager"
    model = cls._from_config(made, attn_implementation="eager", dtype=torch.float32)
    model.load_state_dict(state_of(model, folder / "model.gguf"))
    buffers = {key: value.clone() for key, value in model.named_buffers() if "inv_freq" in key}
    model = model.to(dtype).eval()
    for key, value in buffers.items():
        module, _, leaf = key.rpartition(".")
        setattr(model.get_submodule(module), leaf, value)
    return model


def error(got, want):
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    return float(((got - want) ** 2).mean() / (want**2).mean())


@torch.no_grad()
def check(folder):
    """The error of float64 logits, or of an encoder's last states, over the fixture's tokens."""
    model = build(folder, torch.float64)
    ids = json.loads((folder / "tokens.json").read_text())["tokens"]
    wanted = folder / "logits_hf.npy"
    cache = {"use_cache": False} if wanted.exists() else {}
    out = model(input_ids=torch.tensor([ids]), **cache)
    if wanted.exists():
        return error(out.logits[0], np.load(wanted))
    return error(out.last_hidden_state[0], np.load(folder / "embeddings_hf.npy"))


def main():
    transformers.logging.set_verbosity_error()
    root = Path(sys.argv[1])
    names = sys.argv[2:] or sorted(folder.name for folder in root.iterdir() if (folder / "config.json").exists())
    for name in names:
        try:
            print(f"{name:20} {check(root / name):.1e}", flush=True)
        except Exception as problem:  # every class fails in its own way; the line says how
            print(f"{name:20} {type(problem).__name__}: {str(problem)[:200]}", flush=True)


if __name__ == "__main__":
    main()
