#!/usr/bin/env python3
"""Writes crates/candor/tests/goldens/kl.json: how far llama.cpp's next-token distributions lie from the exact ones.

    python tools/goldens/kl.py crates/candor/tests/goldens/kl.json

Needs llama-cpp-python 0.3.36 (llama.cpp 0c1e57098, built for the machine's own CPU), gguf 0.19.0 and numpy 2.4.6; the
file names what it was made with. CANDOR_FIXTURES says where the fixtures are, by default ../shared/fixtures beside the
repository.

For each quantized model of fixtures/models and the first 128 tokens of a text (fewer if its context is smaller), in
nats over the positions: KL(exact || llama.cpp), its mean, median and maximum. Exact is a forward pass here, in float64
over the weights that the gguf package dequantizes. llama.cpp gets the tokens in one batch, with an F32 cache and without
flash attention, so that what differs is its arithmetic with quantized weights. `entropy` is the mean entropy of the
exact distributions: a check for whoever computes them anew.
"""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

import llama_cpp as lc
import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

TEXT = "cs336-tinystories_sample"
TOKENS = 128
FULL = ("f32", "f16", "bf16")  # formats that are no quantization
GGML_TYPE_F32 = 0
LLAMA_CPP = "0.3.36"


def llama_cpp(path, text):
    """The ids of the text's beginning and llama.cpp's logits of each."""
    llm = lc.Llama(str(path), n_ctx=0, n_batch=512, n_ubatch=512, logits_all=True, flash_attn=False,
                   type_k=GGML_TYPE_F32, type_v=GGML_TYPE_F32, verbose=False)
    tokens = llm.tokenize(text.encode(), add_bos=True, special=False)[: min(TOKENS, llm.n_ctx())]
    llm.eval(tokens)
    logits = np.array(llm.scores[: len(tokens)], np.float64)
    llm.close()
    return tokens, logits


def exact(path, tokens):
    """The logits of a llama model without biases and rope scaling, in float64."""
    reader = GGUFReader(path)
    read = lambda key, default=None: reader.fields[key].contents() if key in reader.fields else default
    assert read("general.architecture") == "llama" and read("llama.rope.scaling.type", "none") == "none", path
    w = {t.name: np.array(dequantize(t.data, t.tensor_type), np.float64) for t in reader.tensors}
    used = {"token_embd.weight", "output_norm.weight", "output.weight"}
    heads = read("llama.attention.head_count")
    kv_heads = read("llama.attention.head_count_kv", heads)
    size = read("llama.attention.key_length", read("llama.embedding_length") // heads)
    assert read("llama.rope.dimension_count", size) == size, path
    eps = read("llama.attention.layer_norm_rms_epsilon")
    n = len(tokens)
    speeds = read("llama.rope.freq_base", 10000.0) ** (-np.arange(size // 2) * 2 / size)
    turns = np.exp(1j * np.arange(n)[:, None, None] * speeds)
    hidden = np.triu(np.ones((n, n), bool), 1)

    def weight(name):
        used.add(name)
        return w[name]

    def norm(x, name):
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * weight(name)

    def rope(x):
        """`[T, heads, E]`; elements 2i and 2i + 1 are a complex number."""
        turned = (x[..., 0::2] + 1j * x[..., 1::2]) * turns
        return np.stack([turned.real, turned.imag], -1).reshape(x.shape)

    x = w["token_embd.weight"][tokens]
    for i in range(read("llama.block_count")):
        times = lambda rows, name: rows @ weight(f"blk.{i}.{name}.weight").T
        h = norm(x, f"blk.{i}.attn_norm.weight")
        q = rope(times(h, "attn_q").reshape(n, heads, size))
        k = rope(times(h, "attn_k").reshape(n, kv_heads, size)).repeat(heads // kv_heads, 1)
        v = times(h, "attn_v").reshape(n, kv_heads, size).repeat(heads // kv_heads, 1)
        scores = np.einsum("thd,phd->htp", q, k) / np.sqrt(size)
        scores = np.exp(log_softmax(np.where(hidden, -np.inf, scores)))
        x = x + times(np.einsum("htp,phd->thd", scores, v).reshape(n, -1), "attn_output")
        h = norm(x, f"blk.{i}.ffn_norm.weight")
        gate = times(h, "ffn_gate")
        x = x + times(gate / (1 + np.exp(-gate)) * times(h, "ffn_up"), "ffn_down")
    assert set(w) <= used, f"{path}: unknown tensors {set(w) - used}"
    return norm(x, "output_norm.weight") @ w.get("output.weight", w["token_embd.weight"]).T


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def model(path, text):
    tokens, theirs = llama_cpp(path, text)
    p, q = log_softmax(exact(path, tokens)), log_softmax(theirs)
    kl = (np.exp(p) * (p - q)).sum(-1)
    short = lambda value: float(f"{value:.6e}")
    return {
        "name": path.stem, "mean": short(kl.mean()), "median": short(np.median(kl)), "max": short(kl.max()),
        "entropy": round(float(-(np.exp(p) * p).sum(-1).mean()), 9), "tokens": tokens,
    }


def main():
    assert lc.__version__ == LLAMA_CPP, lc.__version__
    here = Path(__file__).resolve().parents[2]
    fixtures = Path(os.environ.get("CANDOR_FIXTURES", here.parent / "shared" / "fixtures"))
    text = (fixtures / "text" / f"{TEXT}.txt").read_text()
    rows = []
    for path in sorted((fixtures / "models").glob("*.gguf")):
        if path.stem.rsplit("-", 1)[1].lower() not in FULL:
            rows.append(model(path, text))
            print(rows[-1]["name"], len(rows[-1]["tokens"]), *(rows[-1][key] for key in ("mean", "median", "max")))
    head = {
        "command": "python tools/goldens/kl.py crates/candor/tests/goldens/kl.json",
        "versions": f"llama-cpp-python {LLAMA_CPP} (llama.cpp 0c1e57098), gguf {version('gguf')}, numpy {np.__version__}",
        "llama_cpp_features": lc.llama_print_system_info().decode().strip(" |"),
        "text": TEXT,
    }
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    Path(sys.argv[1]).write_text(json.dumps(head, indent=1)[:-2] + ',\n "models": [\n' + lines + "\n]}\n")


main()
