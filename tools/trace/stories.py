#!/usr/bin/env python3
"""A small engine for llama models that can be wrong on purpose, and writes what it computes as a Candor trace.

    python tools/trace/stories.py MODEL.gguf --story norm-twice --ids 1,403,407,261 -n 4 -o suspect.safetensors

Needs gguf, numpy and safetensors. MODEL is a GGUF file of the architecture `llama` without biases, with no rope
scaling but Llama 3's, such as crates/candor/assets/candor-tiny.gguf or what `cargo xtask synth` writes. Weights are
dequantized and everything is computed in float32; the prompt goes in one pass, then N tokens chosen greedily follow
one by one through a KV cache.

The stories are the faults of the engines whose bug hunts began Candor:

  healthy          none
  row-major        the quantized matrices of the layers are multiplied as if they lay in memory as [in, out]
  half-loaded      a quantized tensor's size is guessed as half a byte per element; what lies behind stays zero
  norm-twice       the weight of every norm is applied twice
  half-split-rope  rope turns elements i and i + E/2 of a head, where the file has pairs 2i and 2i + 1
  cache-slots      decoding writes the KV cache from slot 0 on again, over the prompt, and attends over all slots up to
                   its position, of which the newest were never written

It shares nothing with Candor and takes nothing from it: its purpose is to be another program.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize
from safetensors.numpy import save_file

F32 = np.float32
STORIES = ["healthy", "row-major", "half-loaded", "norm-twice", "half-split-rope", "cache-slots"]
FLOATS = {GGMLQuantizationType.F32, GGMLQuantizationType.F16, GGMLQuantizationType.BF16}
IN_LAYER = ["attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"]


def load(path, story):
    """Hyperparameters and weights of the file; a matrix is `[out, in]`, so that `y = x @ w.T`."""
    reader = GGUFReader(path)
    read = lambda key, default=None: reader.fields[key].contents() if key in reader.fields else default
    arch = read("general.architecture")
    if arch != "llama":
        raise ValueError(f"{path}: expected the architecture llama, got {arch}")
    scaling = read("llama.rope.scaling.type", "none")
    if scaling != "none":
        raise ValueError(f"{path}: rope scaling is {scaling}, which this engine lacks")
    layers, heads = read("llama.block_count"), read("llama.attention.head_count")
    width = read("llama.embedding_length")
    hyper = {
        "name": read("general.name", path.stem), "layers": layers, "heads": heads,
        "kv_heads": read("llama.attention.head_count_kv", heads),
        "head": read("llama.attention.key_length", width // heads),
        "eps": F32(read("llama.attention.layer_norm_rms_epsilon")),
        "theta": read("llama.rope.freq_base", 10000.0),
    }
    if read("llama.rope.dimension_count", hyper["head"]) != hyper["head"]:
        raise ValueError(f"{path}: only a part of each head is rotated, which this engine lacks")

    known = {f"blk.{i}.{name}.weight" for i in range(layers) for name in IN_LAYER}
    known |= {"token_embd.weight", "output_norm.weight"}
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    strange = (set(tensors) ^ known) - {"output.weight", "rope_freqs.weight"}
    if strange:
        raise ValueError(f"{path}: missing or unknown tensors: {', '.join(sorted(strange)[:4])}")
    if story in ("row-major", "half-loaded") and all(t.tensor_type in FLOATS for t in reader.tensors):
        raise ValueError(f"{path}: the story {story} needs quantized tensors, and this file has none")

    weights = {}
    for name, tensor in tensors.items():
        quantized = tensor.tensor_type not in FLOATS
        data = tensor.data
        if quantized and story == "half-loaded":
            data = np.array(data)
            data.reshape(-1)[tensor.n_elements // 2 :] = 0
        weight = np.array(dequantize(data, tensor.tensor_type), F32)
        if quantized and story == "row-major" and name.startswith("blk."):
            weight = weight.reshape(weight.shape[::-1]).T
        weights[name] = weight
    weights.setdefault("output.weight", weights["token_embd.weight"])
    return hyper, weights


class Engine:
    def __init__(self, hyper, weights, story, room):
        self.hyper, self.weights, self.story = hyper, weights, story
        shape = (hyper["layers"], room, hyper["kv_heads"], hyper["head"])
        self.keys, self.values = np.zeros(shape, F32), np.zeros(shape, F32)
        self.trace = {}

    def put(self, name, rows, layer=None):
        key = name if layer is None else f"{name}-{layer}"
        self.trace.setdefault(key, []).append(rows.reshape(rows.shape[0], -1).copy())
        return rows

    def norm(self, x, name):
        weight = self.weights[name]
        mean = np.mean(np.square(x, dtype=np.float64), axis=-1, keepdims=True)
        out = x / np.sqrt(mean + self.hyper["eps"]).astype(F32) * weight
        return out * weight if self.story == "norm-twice" else out

    def rope(self, x, positions):
        """`x` is `[T, heads, E]`."""
        half = x.shape[-1] // 2
        speeds = self.hyper["theta"] ** (-np.arange(half) / half) / self.weights.get("rope_freqs.weight", 1)
        angles = positions[:, None] * speeds
        cos, sin = np.cos(angles).astype(F32)[:, None], np.sin(angles).astype(F32)[:, None]
        if self.story == "half-split-rope":
            first, second = slice(None, half), slice(half, None)
        else:
            first, second = slice(0, None, 2), slice(1, None, 2)
        out = np.empty_like(x)
        out[..., first] = x[..., first] * cos - x[..., second] * sin
        out[..., second] = x[..., first] * sin + x[..., second] * cos
        return out

    def attend(self, q, layer, positions):
        """`q` is `[T, heads, E]`; the cache holds what was written to it. Returns `[T, heads, E]`."""
        reach = positions[-1] + 1
        group = self.hyper["heads"] // self.hyper["kv_heads"]
        k = np.repeat(self.keys[layer, :reach], group, axis=1)
        v = np.repeat(self.values[layer, :reach], group, axis=1)
        scores = np.einsum("thd,phd->htp", q, k) / F32(np.sqrt(self.hyper["head"]))
        scores = np.where(np.arange(reach) <= positions[:, None], scores, F32(-np.inf))
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        return np.einsum("htp,phd->thd", scores, v)

    def run(self, tokens, start, prompt):
        """One pass over `tokens` at the positions from `start` on; the prompt had `prompt` tokens. The last logits."""
        put, layers, w = self.put, self.hyper["layers"], self.weights
        positions = np.arange(start, start + len(tokens))
        slots = positions - prompt if self.story == "cache-slots" and start >= prompt else positions
        heads = lambda rows, count: rows.reshape(len(tokens), count, self.hyper["head"])

        x = put("inp_embd", w["token_embd.weight"][tokens])
        for i in range(layers):
            times = lambda rows, name: rows @ w[f"blk.{i}.{name}.weight"].T
            h = put("attn_norm", self.norm(x, f"blk.{i}.attn_norm.weight"), i)
            q = put("Qcur.mul_mat", times(h, "attn_q"), i)
            k = put("Kcur.mul_mat", times(h, "attn_k"), i)
            v = put("Vcur", times(h, "attn_v"), i)
            q = put("Qcur", self.rope(heads(q, self.hyper["heads"]), positions), i)
            k = put("Kcur", self.rope(heads(k, self.hyper["kv_heads"]), positions), i)
            self.keys[i, slots], self.values[i, slots] = k, heads(v, self.hyper["kv_heads"])
            h = put("kqv_out", self.attend(q, i, positions).reshape(len(tokens), -1), i)
            x = put("ffn_inp", x + times(h, "attn_output"), i)
            h = put("ffn_norm", self.norm(x, f"blk.{i}.ffn_norm.weight"), i)
            gate, up = put("ffn_gate", times(h, "ffn_gate"), i), put("ffn_up", times(h, "ffn_up"), i)
            h = put("ffn_swiglu", gate / (1 + np.exp(-gate)) * up, i)
            x = put("l_out", x + times(h, "ffn_down"), i)
        h = put("result_norm", self.norm(x, "output_norm.weight"))
        return put("result_output", h @ w["output.weight"].T)[-1]


def id_list(text):
    return [int(part) for part in text.split(",")]


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def run(args):
    hyper, weights = load(args.model, args.story)
    vocabulary = len(weights["token_embd.weight"])
    if not all(0 <= token < vocabulary for token in args.ids):
        raise ValueError(f"token ids: expected some below {vocabulary}, got {args.ids}")
    prompt = len(args.ids)
    engine = Engine(hyper, weights, args.story, prompt + args.n)
    tokens = list(args.ids)
    logits = engine.run(tokens, 0, prompt)
    for _ in range(args.n):
        tokens.append(int(logits.argmax()))
        logits = engine.run(tokens[-1:], len(tokens) - 1, prompt)
    meta = {
        "candor.trace": "1",
        "engine": "stories.py",
        "backend": f"numpy {np.__version__}, float32",
        "model": hyper["name"],
        "model_sha256": sha256(args.model),
        "tokens": json.dumps(tokens),
        "prompt_tokens": str(prompt),
    }
    save_file({key: np.concatenate(parts) for key, parts in engine.trace.items()}, args.out, meta)
    print(f"{args.out}: {args.story}, {len(engine.trace)} values of {len(tokens)} tokens", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--story", choices=STORIES, required=True)
    parser.add_argument("--ids", type=id_list, required=True, help="token ids: 1,2,3")
    parser.add_argument("-n", type=int, default=0, metavar="STEPS", help="tokens to decode greedily after the prompt")
    parser.add_argument("-o", "--out", type=Path, required=True)
    args = parser.parse_args()
    if args.n < 0:
        parser.error(f"-n: expected 0 or more, got {args.n}")
    try:
        run(args)
    except (ValueError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
