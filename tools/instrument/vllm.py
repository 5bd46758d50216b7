"""Rewrite cases of the corpus as hooks on vLLM's modules would have kept them.

    python tools/instrument/vllm.py CORPUS OUT

vLLM's norms add to the stream first and give both, its layers give what is still to be added and the stream, queries,
keys and values are one product, as are gate and up, and its activation multiplies (vllm/model_executor/models/llama.py,
qwen2.py, qwen3.py, gemma2.py, phi3.py, mixtral.py, and layers/layernorm.py). The numbers are the engine's in numpy.
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np

from engine.dump import read_safetensors, write_safetensors

WIRINGS = ("llama", "qwen2", "qwen3", "gemma2", "phi3", "mixtral")
# Files of these have rotated pairs side by side; vLLM has the halves of a head.
PAIRED = ("llama", "mixtral")
# Undone by the other order of rows: what is left is a fault of the keys.
UNDONE = ("only-q-rows-paired",)
MAKER = "vllm"


def halves(x, heads):
    """Put the first of all pairs of a head before the second of all pairs."""
    rows = x.reshape(len(x), heads, -1, 2)
    return rows.swapaxes(2, 3).reshape(len(x), -1)


def hooked(wiring, values, heads, kv_heads):
    """Return what hooks keep, by module."""
    out = {}
    first = lambda *names: next((values[n] for n in names if n in values), None)
    turned = (lambda x, n: halves(x, n)) if wiring in PAIRED else (lambda x, n: x)
    out["model.embed_tokens.output"] = values["inp_embd"]
    layers = sum(name.startswith("l_out-") for name in values)
    for i in range(layers):
        at, module = lambda name: f"{name}-{i}", f"model.layers.{i}."
        stream = values["inp_scaled" if wiring == "gemma2" else "inp_embd"] if i == 0 else values[f"l_out-{i - 1}"]
        middle = first(at("ffn_inp"), at("sa_out"))
        fed = first(at("ffn_post_norm"), at("ffn_out"), at("ffn_moe_out"))
        if i == 0:
            out[module + "input_layernorm.output"] = values[at("attn_norm")]
        else:
            out[module + "input_layernorm.output[0]"] = values[at("attn_norm")]
            out[module + "input_layernorm.output[1]"] = stream
        if at("wqkv") in values:
            qkv = values[at("wqkv")]
        else:
            q, k = (first(at(f"{n}.add"), at(f"{n}.mul_mat")) for n in ("Qcur", "Kcur"))
            qkv = np.hstack([turned(q, heads), turned(k, kv_heads), values[at("Vcur")]])
        out[module + "self_attn.qkv_proj.output[0]"] = qkv
        out[module + "self_attn.rotary_emb.output[0]"] = turned(values[at("Qcur")], heads)
        out[module + "self_attn.rotary_emb.output[1]"] = turned(values[at("Kcur")], kv_heads)
        out[module + "self_attn.attn.output"] = values[at("kqv_out")]
        out[module + "self_attn.o_proj.output[0]"] = values[at("attn_out")]
        before = "pre_feedforward_layernorm" if wiring == "gemma2" else "post_attention_layernorm"
        if wiring == "gemma2":
            out[module + "post_attention_layernorm.output"] = values[at("attn_post_norm")]
        out[module + before + ".output[0]"] = values[at("ffn_norm")]
        out[module + before + ".output[1]"] = middle
        if wiring == "mixtral":
            out[module + "block_sparse_moe.gate.output[0]"] = values[at("ffn_moe_logits")]
            out[module + "block_sparse_moe.output"] = values[at("ffn_moe_out")]
        else:
            fused = values[at("ffn_up")] if wiring == "phi3" else np.hstack([values[at("ffn_gate")], values[at("ffn_up")]])
            out[module + "mlp.gate_up_proj.output[0]"] = fused
            out[module + "mlp.act_fn.output"] = first(at("ffn_swiglu"), at("ffn_geglu"))
            out[module + "mlp.down_proj.output[0]"] = values[at("ffn_out")]
        if wiring == "gemma2":
            out[module + "post_feedforward_layernorm.output"] = fed
        out[module + "output[0]"] = fed
        out[module + "output[1]"] = middle
    out["model.norm.output[0]"] = values["result_norm"]
    out["model.norm.output[1]"] = values[f"l_out-{layers - 1}"]
    out["logits_processor.output"] = values["result_output"]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    shutil.rmtree(args.out / MAKER, ignore_errors=True)
    made = left = 0
    for wiring in WIRINGS:
        for path in sorted((args.corpus / "numpy" / wiring).glob("*/*/case.json")):
            case = json.loads(path.read_text())
            if case["storage"] != "f32" or case["values"] != "all" or set(case["faults"]) & set(UNDONE):
                continue
            values, metadata = read_safetensors(path.with_name(case["dump"]))
            config = json.loads((Path(case["model"]).parent / "config.json").read_text())
            config = config.get("text_config", config)
            try:
                values = hooked(wiring, values, config["num_attention_heads"], config["num_key_value_heads"])
            except (KeyError, ValueError):
                left += 1  # A fault that leaves one of the values out, or makes one of another width.
                continue
            case |= {"id": case["id"].replace("numpy", MAKER, 1), "maker": MAKER, "dump": "dump.safetensors"}
            folder = args.out / case["id"]
            folder.mkdir(parents=True)
            write_safetensors(folder / "dump.safetensors", values, "f32", metadata)
            (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
            made += 1
    print(f"{made} cases; {left} left out")


if __name__ == "__main__":
    main()
