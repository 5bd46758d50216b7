#!/usr/bin/env python3
"""Makes the dumps of docs/case-studies.md that follow public threads, with the programs that the threads are about.

    python tools/trace/threads.py crates/inspect/tests/goldens --candle candle-dump

router-sums.safetensors   Transformers' Qwen3 MoE as it is without `norm_topk_prob`, which its GGUF files lack
                          (huggingface/transformers#41151, sawfwair/mere-run#136): hidden states alone
nope-rotated.safetensors  Transformers' LlamaForCausalLM with SmolLM3's weights, in bfloat16: what its modules return
                          (pytorch/executorch#22043, airockchip/rknn-llm#501); nope-kept is SmolLM3ForCausalLM
biased-neox.safetensors   candle's quantized_llama on a file of Qwen's kind (huggingface/candle#3410), by
                          tools/instrument/candle, which says how to build `candle-dump`

Needs torch, transformers, gguf, numpy and safetensors. The right class with the same weights must have the logits that
lie beside each model, and the wrong one others, or the script stops. Eight tokens: 1,40,64,50,30,7,99,12, by candle the
first five at once and three one by one, by Transformers all at once.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from gguf.quants import dequantize
from safetensors.torch import save

PROMPT, DECODED = [1, 40, 64, 50, 30], [7, 99, 12]
RIGHT, WRONG = 1e-9, 1e-4


class File:
    """A GGUF file's keys and tensors."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.arch = reader.fields["general.architecture"].contents()
        self.fields = {name: field.contents() for name, field in reader.fields.items() if name.startswith(self.arch)}
        self.tensors = {t.name: torch.tensor(dequantize(t.data, t.tensor_type)) for t in reader.tensors}

    def __getitem__(self, key):
        return self.fields[f"{self.arch}.{key}"]

    def config(self, make, **more):
        return make(
            vocab_size=self["vocab_size"], hidden_size=self["embedding_length"], num_hidden_layers=self["block_count"],
            intermediate_size=self["feed_forward_length"], num_attention_heads=self["attention.head_count"],
            num_key_value_heads=self["attention.head_count_kv"], head_dim=self["attention.key_length"],
            rms_norm_eps=self["attention.layer_norm_rms_epsilon"], max_position_embeddings=self["context_length"],
            tie_word_embeddings="output.weight" not in self.tensors, pad_token_id=None, use_cache=False,
            rope_parameters={"rope_type": "default", "rope_theta": self["rope.freq_base"]},
            attn_implementation="eager", **more,
        )

    def load(self, model):
        """Fill the model; the converter has put rows of Q and K of the Llama family into another order."""
        table = gguf.get_tensor_name_map(
            next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == self.arch), self["block_count"])
        state = {}
        for key in model.state_dict():
            block = re.fullmatch(r"model\.layers\.(\d+)\.mlp\.(experts\.gate_up_proj|experts\.down_proj)", key)
            if block and block[2].endswith("gate_up_proj"):
                halves = (self.tensors[f"blk.{block[1]}.ffn_{part}_exps.weight"] for part in ("gate", "up"))
                state[key] = torch.cat(list(halves), 1)
            elif block:
                state[key] = self.tensors[f"blk.{block[1]}.ffn_down_exps.weight"]
            else:
                name = table.get_name(key, try_suffixes=(".weight", ".bias"))
                state[key] = self.tensors.get(name, self.tensors["token_embd.weight"])
                if self.arch == "smollm3" and re.search(r"[qk]_proj\.weight", key):
                    rows = state[key].reshape(-1, self["attention.key_length"] // 2, 2, self["embedding_length"])
                    state[key] = rows.swapaxes(1, 2).reshape(state[key].shape)
        model.load_state_dict(state)
        return model.eval()


def check(model, folder, name, right):
    """Stop unless the logits are those beside the model, or are not."""
    ids = json.loads((folder / "tokens.json").read_text())["tokens"]
    want = np.load(folder / "logits_hf.npy")
    with torch.no_grad():
        got = model(torch.tensor([ids])).logits[0].numpy()
    off = ((got - want) ** 2).mean() / (want**2).mean()
    if not (off < RIGHT if right else off > WRONG):
        sys.exit(f"{name}: {off:.1e} from the logits beside the model, expected it {'right' if right else 'wrong'}")


def write(path, values):
    """Write a dump as people write one: names and numbers, and nothing about the run."""
    path.write_bytes(save({name: value.contiguous() for name, value in values.items()}))
    print(f"{path}: {len(values)} values, {path.stat().st_size} bytes", file=sys.stderr)


@torch.no_grad()
def router_sums(goldens, out):
    folder = goldens / "architectures/qwen3vlmoe"
    file = File(folder / "model.gguf")
    mixture = {"num_experts": file["expert_count"], "num_experts_per_tok": file["expert_used_count"],
               "moe_intermediate_size": file["expert_feed_forward_length"]}
    for right in (True, False):
        known = {"norm_topk_prob": True} if right else {}
        config = file.config(transformers.Qwen3MoeConfig, **mixture, **known)
        model = file.load(transformers.Qwen3MoeForCausalLM(config))
        check(model, folder, "router-sums", right)
    states = model(torch.tensor([PROMPT + DECODED]), output_hidden_states=True)
    values = {f"hidden_states.{i}": state[0] for i, state in enumerate(states.hidden_states)}
    write(out / "router-sums.safetensors", {**values, "logits": states.logits[0]})


@torch.no_grad()
def nope(goldens, out):
    folder = goldens / "architectures/smollm3"
    file = File(folder / "model.gguf")
    exact = {}
    for name, make, of in [("nope-kept", transformers.SmolLM3ForCausalLM, transformers.SmolLM3Config),
                           ("nope-rotated", transformers.LlamaForCausalLM, transformers.LlamaConfig)]:
        model, values = file.load(make(file.config(of))), {}
        check(model, folder, name, name == "nope-kept")

        def keep(key, result):
            values[key] = (result[0] if isinstance(result, tuple) else result).flatten(2)[0]

        for key, module in model.named_modules():
            if re.search(r"norm$|_proj$|layers\.\d+$|lm_head$|embed_tokens$", key):
                module.register_forward_hook(lambda _, args, result, key=key: keep(key, result))
        if not exact:
            model(torch.tensor([PROMPT + DECODED]))
            exact = dict(values)
        model.bfloat16()(torch.tensor([PROMPT + DECODED]))
        close = sum(torch.allclose(values[key].float(), exact[key], rtol=1e-3, atol=1e-3) for key in exact)
        same = int((values["lm_head"].argmax(-1) == exact["lm_head"].argmax(-1)).sum())
        print(f"{name}: {close} values close to float32, {same} likeliest tokens the same", file=sys.stderr)
        write(out / f"{name}.safetensors", values)


def biased_neox(goldens, out, program):
    ids = ",".join(map(str, PROMPT + DECODED))
    model = goldens / "architectures/qwen2vl/model.gguf"
    command = [program, model, "--as", "llama", "--ids", ids, "--decode", str(len(DECODED)), "--values", "all"]
    subprocess.run([*command, "-o", out / "biased-neox.safetensors"], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("goldens", type=Path)
    parser.add_argument("--candle", type=Path, required=True, help="the program candle-dump")
    args = parser.parse_args()
    out = args.goldens / "stories"
    router_sums(args.goldens, out)
    nope(args.goldens, out)
    biased_neox(args.goldens, out, args.candle)


if __name__ == "__main__":
    main()
