#!/usr/bin/env python3
"""Makes the models and traces of crates/inspect/tests/goldens: other programs' runs for machines that lack them.

    python tools/trace/goldens.py crates/inspect/tests/goldens

Needs what trace_llama_cpp.py, trace_transformers.py and stories.py beside it need, and runs them. The models are random
and tiny, from a seed. They have what made people suspect TinyLlama without a reason: embedding rows near zero with
subnormal scales, small norms in the first layer, and a residual stream that grows.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from safetensors.numpy import load_file

import stories

HERE = Path(__file__).resolve().parent
# Unknown, BOS, EOS, 256 bytes, a space, letters with and without one: 312 tokens.
PIECES = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + ["▁"]
PIECES += [f"▁{chr(97 + i)}" for i in range(26)] + [chr(97 + i) for i in range(26)]
UNKNOWN, CONTROL, BYTE, NORMAL = 2, 3, 6, 1
TYPES = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * (len(PIECES) - 259)
# BOS, words, a byte; the last word lies behind the part of the embedding that the story half-loaded loads.
PROMPT, STEPS = [1, 279, 264, 100, 305], 3
# A mixture among the models of goldens/architectures, and a prompt of its smaller vocabulary.
MIXTURE, MIXTURE_PROMPT = "qwen3vlmoe", [1, 40, 64, 50, 30]
EPS, THETA, CONTEXT = 1e-5, 10000.0, 64


@dataclass
class Shape:
    arch: str
    seed: int
    dim: int
    heads: int
    kv_heads: int
    head: int
    ffn: int
    quantized: bool
    layers: int = 2

    def tensors(self):
        """Name, `[out, in]` and root mean square of the values."""
        d, q, kv, f = self.dim, self.heads * self.head, self.kv_heads * self.head, self.ffn
        yield "token_embd", (len(PIECES), d), None
        for i in range(self.layers):
            first = i == 0
            yield f"blk.{i}.attn_norm", (d,), 0.046 if first else 0.4
            yield f"blk.{i}.attn_q", (q, d), 2 / math.sqrt(d)
            yield f"blk.{i}.attn_k", (kv, d), 2 / math.sqrt(d)
            yield f"blk.{i}.attn_v", (kv, d), 1 / math.sqrt(d)
            yield f"blk.{i}.attn_output", (d, q), 1 / math.sqrt(q)
            if self.arch == "qwen3":
                yield f"blk.{i}.attn_q_norm", (self.head,), 1.0
                yield f"blk.{i}.attn_k_norm", (self.head,), 1.0
            yield f"blk.{i}.ffn_norm", (d,), 0.082 if first else 0.6
            yield f"blk.{i}.ffn_gate", (f, d), 2 / math.sqrt(d)
            yield f"blk.{i}.ffn_up", (f, d), 2 / math.sqrt(d)
            yield f"blk.{i}.ffn_down", (d, f), 1 / math.sqrt(f)
        yield "output_norm", (d,), 1.92
        if self.arch == "llama":
            yield "output", (len(PIECES), d), 1 / math.sqrt(d)

    def values(self, random, shape, rms):
        if rms is None:
            rows = np.full((len(PIECES), 1), 0.012)
            # Rows of bytes that never occur in texts; the prompt has one of a byte that does.
            rows[0], rows[1], rows[3:80] = 9e-6, 2.2e-3, 1.2e-5
            return random.standard_normal(shape) * rows
        if len(shape) == 1:
            return rms * (1 + 0.3 * random.standard_normal(shape))
        return rms * random.standard_normal(shape)

    def write(self, path):
        random = np.random.default_rng(self.seed)
        writer = GGUFWriter(path, self.arch)
        writer.add_name(f"golden {path.stem}")
        writer.add_block_count(self.layers)
        writer.add_context_length(CONTEXT)
        writer.add_embedding_length(self.dim)
        writer.add_feed_forward_length(self.ffn)
        writer.add_head_count(self.heads)
        writer.add_head_count_kv(self.kv_heads)
        writer.add_key_length(self.head)
        writer.add_value_length(self.head)
        writer.add_rope_dimension_count(self.head)
        writer.add_rope_freq_base(THETA)
        writer.add_layer_norm_rms_eps(EPS)
        writer.add_vocab_size(len(PIECES))
        writer.add_tokenizer_model("llama")
        writer.add_token_list(PIECES)
        writer.add_token_scores([0.0] * 259 + [-float(i) for i in range(len(PIECES) - 259)])
        writer.add_token_types(TYPES)
        writer.add_unk_token_id(0)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_add_bos_token(True)
        writer.add_add_eos_token(False)
        for name, shape, rms in self.tensors():
            values = self.values(random, shape, rms).astype(np.float32)
            if self.quantized and len(shape) == 2:
                kind = GGMLQuantizationType.Q8_0
                writer.add_tensor(f"{name}.weight", quantize(values, kind), raw_dtype=kind)
            else:
                writer.add_tensor(f"{name}.weight", values)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def config(self):
        """What Transformers calls all that."""
        return {
            "architectures": [{"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}[self.arch]],
            "model_type": self.arch, "hidden_act": "silu", "attention_bias": False, "dtype": "float32",
            "hidden_size": self.dim, "intermediate_size": self.ffn, "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "head_dim": self.head,
            "rms_norm_eps": EPS, "rope_theta": THETA, "max_position_embeddings": CONTEXT,
            "vocab_size": len(PIECES), "tie_word_embeddings": self.arch == "qwen3",
            "bos_token_id": 1, "eos_token_id": 2,
        }


MODELS = {
    "llama-f32": Shape("llama", 11, dim=32, heads=4, kv_heads=2, head=8, ffn=48, quantized=False),
    "qwen3-f32": Shape("qwen3", 12, dim=32, heads=4, kv_heads=2, head=16, ffn=48, quantized=False),
    "llama-q8_0": Shape("llama", 13, dim=64, heads=4, kv_heads=2, head=16, ffn=96, quantized=True),
}


class FourFaults(stories.Engine):
    """row-major comes with the weights; norm, rope and cache are each wrong in their own way besides."""

    def run(self, *args):
        self.story = "cache-slots"
        return super().run(*args)

    def norm(self, *args):
        self.story = "norm-twice"
        return super().norm(*args)

    def rope(self, *args):
        self.story = "half-split-rope"
        return super().rope(*args)


def tell(story, model, out):
    stories.run(argparse.Namespace(model=model, story=story, ids=PROMPT, n=STEPS, out=out))


def paste(trace, out):
    """What a log of the last prompt token's rotated query would show, and nothing else of the trace."""
    values = load_file(trace)
    row = len(PROMPT) - 1
    numbers = ", ".join(f"{x:.6f}" for x in values["Qcur-0"][row, :10])
    out.write_text(f"Token ids: {PROMPT}\nlayer 0 Q after RoPE pos {row}: [{numbers}, ...]\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    (out / "stories").mkdir(parents=True, exist_ok=True)
    run = ["--ids", ",".join(map(str, PROMPT)), "-n", str(STEPS), "-o"]
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in MODELS.items():
            model, config = out / f"{name}.gguf", Path(folder) / f"{name}.json"
            shape.write(model)
            config.write_text(json.dumps(shape.config()))
            for program, given in [
                ("llama_cpp", [model]), ("transformers", ["--from-gguf", model, "--config", config]),
            ]:
                trace = out / f"{name}.{program.replace('_', '')}.safetensors"
                subprocess.run([sys.executable, HERE / f"trace_{program}.py", *given, *run, trace], check=True)
    subprocess.run([sys.executable, HERE / "trace_llama_cpp.py", out / "architectures" / MIXTURE / "model.gguf", "--ids",
                    ",".join(map(str, MIXTURE_PROMPT)), "-n", str(STEPS), "-o", out / f"{MIXTURE}.llamacpp.safetensors"],
                   check=True)
    model = out / "llama-q8_0.gguf"
    for story in stories.STORIES:
        tell(story, model, out / "stories" / f"{story}.safetensors")
    paste(out / "stories" / "half-split-rope.safetensors", out / "stories" / "pasted.txt")
    stories.Engine = FourFaults
    tell("row-major", model, out / "stories" / "four-faults.safetensors")


if __name__ == "__main__":
    main()
