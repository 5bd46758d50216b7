#!/usr/bin/env python3
"""Makes the sample dumps of this folder. See README.md for what each is.

    python crates/inspect/tests/dumps/generate.py MODEL.gguf IDS

Needs what tools/trace/trace_llama_cpp.py and trace_transformers.py need. MODEL.gguf is a tiny model of the
architecture llama, IDS the prompt: 1,2,3.
"""

import argparse
import ctypes
import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[3] / "tools" / "trace"))
# What the old log is filtered to: it has no embedding to tell passes apart by.
OLD = {"attn_norm", "Qcur", "Vcur", "kq", "kq_soft_max", "l_out", "result_output"}
KEPT = ["*-0", "inp_embd", "result_*"]
EDGE = 3  # elements llama.cpp prints at either end of a dimension


def edges(size):
    """Indices that are printed, None for the gap."""
    if size <= 2 * EDGE:
        return list(range(size))
    return [*range(EDGE), None, *range(size - EDGE, size)]


def show(data, old):
    """One value `[ne3, ne2, ne1, ne0]` as llama.cpp prints it. The old print summed only what it printed."""
    one, two, three = ("    ", "        ", "            ") if not old else (" " * 37, " " * 38, " " * 39)
    out, printed = [], 0.0
    for block in data:
        out.append(f"{one}[")
        for i2 in edges(len(block)):
            if i2 is None:
                out.append(f"{two}..., ")
                continue
            out.append(f"{two}[")
            for i1 in edges(len(block[i2])):
                if i1 is None:
                    out.append(f"{three}..., ")
                    continue
                row = block[i2][i1]
                parts = []
                for i0 in edges(len(row)):
                    if i0 is None:
                        parts.append("..., " if old else "   ..., ")
                        continue
                    printed += float(row[i0])
                    parts.append("%12.4f" % row[i0] + (", " if i0 < len(row) - 1 else ""))
                out.append(f"{three}[{''.join(parts)}{'],' if old else '  ],'}")
            out.append(f"{two}],")
        out.append(f"{one}]")
        total = printed if old else float(np.sum(block, dtype=np.float32))
        out.append(f"{one}sum = {total:.6f}")
    return out


def llama_cpp(model, ids):
    """The text of llama-eval-callback for a real run, of layer 0 and in both versions, and the same run in full."""
    import trace_llama_cpp as tool

    texts = {"new": [], "old": []}

    class Printing(tool.Recorder):
        def see(self, tensor):
            ne = "{%s}" % ", ".join(map(str, tensor.ne))
            sources = [
                "%s{%s}" % (source.contents.name.decode(), ", ".join(map(str, source.contents.ne)))
                for source in tensor.src[:2]
                if source
            ]
            sources += [""] * (2 - len(sources))
            op = self.ggml.ggml_op_desc(ctypes.addressof(tensor)).decode()
            kind = {0: "f32", 1: "f16", 26: "i32", 27: "i64"}.get(tensor.type, "q")
            head = "%24s = (%s) %10s(%s, %s}) = %s" % (tensor.name.decode(), kind, op, *sources, ne)
            name, layer = tool.split(tensor.name.decode().split(" (")[0])
            wanted = {"new": layer in (0, None) and "cache" not in name, "old": name in OLD and layer in (0, None)}
            for version, prefix in [("new", "common_debug_cb_eval"), ("old", "ggml_debug")]:
                if wanted[version]:
                    texts[version].append(f"{prefix}: {head}")
                    if kind == "f32":
                        texts[version] += show(tool.values(self.ggml, tensor), old=version == "old")
            super().see(tensor)

    tool.Recorder = Printing
    truth = HERE / "truth.safetensors"
    arguments = argparse.Namespace(model=Path(model), prompt=None, ids=ids, n=2, names=KEPT, out=truth)
    tool.run(arguments)
    before = ["build: 0000 (sample)", "llama_model_loader: - kv   0: general.architecture str = llama", ""]
    for version, lines in texts.items():
        (HERE / f"eval_callback_{version}.txt").write_text("\n".join(before + lines) + "\n")


def transformers():
    """A debugger tree of the first layer of a tiny random model, and the same values from hooks."""
    import torch
    from safetensors.torch import save_file
    from transformers import LlamaConfig, LlamaForCausalLM, model_addition_debugger_context

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=24, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, attn_implementation="eager",
    )
    model = LlamaForCausalLM(config).eval()
    ids = torch.tensor([[1, 5, 9]])
    kept = {}

    def keep(name):
        def hook(_module, inputs, output):
            output = output[0] if isinstance(output, tuple) else output
            if torch.is_tensor(output):
                kept[name] = output.detach().contiguous().clone()
            if name.endswith(("o_proj", "down_proj")):
                kept[name + ".input"] = inputs[0].detach().contiguous().clone()
        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in model.named_modules()
               if name and "rotary" not in name and "act_fn" not in name and name != "model"]
    with torch.no_grad():
        out = model(ids, output_hidden_states=True)
    for handle in handles:
        handle.remove()
    save_file(kept, HERE / "hooks.safetensors")
    states = {f"hidden_states.{i}": state.contiguous().clone() for i, state in enumerate(out.hidden_states)}
    save_file({**states, "logits": out.logits.contiguous(), "input_ids": ids}, HERE / "hidden_states.safetensors")
    model.model.layers = model.model.layers[:1]  # the tree of one layer is long enough
    with model_addition_debugger_context(model, debug_path=str(HERE / "debugger"), do_prune_layers=False):
        model.forward(input_ids=ids)


def numpy_files():
    """Arrays whose element in row r, column c is r + c / 16."""
    from safetensors.numpy import save_file

    def grid(rows, width):
        return (np.arange(rows)[:, None] + np.arange(width)[None] / 16).astype(np.float32)

    np.save(HERE / "Qcur-0.npy", grid(3, 8))
    np.save(HERE / "l_out-1.npy", np.asfortranarray(grid(3, 8).astype(">f8")))
    np.savez_compressed(HERE / "values.npz", **{
        "model.layers.0.input_layernorm": grid(3, 8)[None],
        "layer_1_ffn_out": grid(3, 8).astype(np.float16),
        "input_ids": np.array([4, 5, 6]),
        "something_else": grid(3, 8),
    })
    grid(3, 8).tofile(HERE / "Kcur-0_3x8.bin")
    grid(1, 16).tofile(HERE / "llamacpp-tiny.bin")
    np.array([1, 5, 9], np.int32).tofile(HERE / "llamacpp-tiny-tokens.bin")
    heads = grid(3, 8).reshape(3, 2, 4)
    scores = np.arange(2 * 3 * 3, dtype=np.float32).reshape(1, 2, 3, 3)
    save_file({
        "blocks.0.hook_resid_pre": grid(3, 8)[None],
        "blocks.0.attn.hook_q": heads[None].copy(),
        "blocks.0.attn.hook_rot_q": heads[None].copy(),
        "blocks.0.attn.hook_attn_scores": scores,
        "blocks.0.attn.hook_pattern": scores,
        "blocks.0.attn.hook_z": heads[None].copy(),
        "blocks.0.hook_resid_mid": grid(3, 8)[None].astype(np.float64),
        "blocks.0.hook_resid_post": grid(3, 8)[None].astype(np.float16),
        "ln_final.hook_normalized": grid(3, 8)[None],
        "blocks.0.self_attn.q_embed": heads.transpose(1, 0, 2)[None].copy(),
    }, HERE / "transformer_lens.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("ids", type=lambda text: [int(part) for part in text.split(",")])
    args = parser.parse_args()
    numpy_files()
    transformers()
    llama_cpp(args.model, args.ids)
    print(json.dumps(sorted(path.name for path in HERE.iterdir())))


if __name__ == "__main__":
    main()
