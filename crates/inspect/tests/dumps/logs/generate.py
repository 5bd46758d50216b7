#!/usr/bin/env python3
"""Writes logs as people paste them into issues, with the numbers of the golden traces in tests/goldens/stories.

    python crates/inspect/tests/dumps/logs/generate.py

Needs numpy and safetensors. README.md says which thread each is shaped after; none of their text or numbers is here.
"""

import json
from pathlib import Path

import numpy as np
from safetensors import safe_open

HERE = Path(__file__).parent
STORIES = HERE.parents[1] / "goldens" / "stories"
PROMPT = 5


class Story:
    """A golden trace: `story["l_out", 0]` is its value, `[tokens, width]`."""

    def __init__(self, name):
        with safe_open(STORIES / f"{name}.safetensors", "np") as file:
            self.values = {key: file.get_tensor(key) for key in file.keys()}
            self.tokens = json.loads(file.metadata()["tokens"])

    def __getitem__(self, key):
        name, layer = key if isinstance(key, tuple) else (key, None)
        return self.values[name if layer is None else f"{name}-{layer}"]


def brackets(row, places=6):
    return "[" + ", ".join(f"{x:.{places}f}" for x in row) + "]"


def statistics(row):
    return f"mean={row.mean():.6f}, rms={np.sqrt((row * row).mean()):.6f}, range=[{row.min():.4f}, {row.max():.4f}]"


def best(row, count=5):
    return [(int(index), float(row[index])) for index in np.argsort(-row)[:count]]


def torch_tensor(x, edge=3):
    """`[tokens, width]` as PyTorch prints it with a batch of one."""
    def row(values):
        texts = [f"{v: .4e}" for v in values]
        if len(texts) > 2 * edge:
            texts = texts[:edge] + [" ..."] + texts[-edge:]
        return "[" + ", ".join(texts) + "]"
    rows = ",\n         ".join(row(values) for values in x)
    return f"tensor([[{rows}]],\n       device='cuda:0', grad_fn=<AddBackward0>)"


def numpy_array(x):
    return repr(np.asarray(x, np.float32))


def candle_tensor(x, edge=3):
    """`[tokens, width]` as candle prints it with a batch of one."""
    def row(values):
        texts = [f"{v:7.4f}" for v in values]
        return "[" + ", ".join(texts[:edge]) + ", ..., " + ", ".join(texts[-edge:]) + "]"
    rows = ",\n  ".join(row(values) for values in x)
    return f"[[{rows}]]\nTensor[[1, {x.shape[0]}, {x.shape[1]}], f32]"


def hidden_by_layer(story):
    """A Rust engine that prints a few numbers after each layer, and its best tokens."""
    last = PROMPT - 1
    lines = ["Loading model.gguf ... done in 1.24s", f"Input tokens: {story.tokens[:PROMPT]}"]
    for token in range(2):
        lines.append(f"Token {token} embedding[0..5]: {brackets(story['inp_embd'][token, :5])}")
    for layer in range(2):
        row = story["l_out", layer][last]
        lines.append(f"Layer {layer}: {brackets(row[:8])}")
        lines.append(f"Layer {layer} output stats: {statistics(row)}")
    logits = story["result_output"][last]
    lines.append("Top 5: [" + ", ".join(f'({index}, "{value:.4f}")' for index, value in best(logits)) + "]")
    return lines + ["Generated: <garbage>", "0.43 tokens/s"]


def by_operation(story):
    """A WebAssembly engine that marks its lines with the operation."""
    lines = [f"prompt_tokens: {story.tokens[:PROMPT]}", "[EMBED] pos=3 embedding first 8: "
             + brackets(story["inp_embd"][3, :8])]
    for pos in (0, 3):
        lines.append(f"[RMS_NORM] pos={pos} mean=0.0012 rms=0.8841")
        lines.append(f"[RMS_NORM] pos={pos} layer=0 attn_norm={brackets(story['attn_norm', 0][pos, :8])}")
        lines.append(f"[ATTN] pos={pos} layer=0 v={brackets(story['Vcur', 0][pos, :8])}")
        lines.append(f"[FFN] pos={pos} layer=0 gate={brackets(story['ffn_gate', 0][pos, :6])} "
                     f"up={brackets(story['ffn_up', 0][pos, :6])}")
    for rank, (index, value) in enumerate(best(story["result_output"][PROMPT - 1]), 1):
        lines.append(f'#{rank}: token={index} ("t{index}") logit={value:.4f}')
    return lines


def modules_in_torch(story):
    lines = [f"input_ids = {[story.tokens[:PROMPT]]}"]
    for name, key in [("layers.0.input_layernorm", ("attn_norm", 0)), ("layers.0.mlp.gate_proj", ("ffn_gate", 0)),
                      ("layers.0", ("l_out", 0)), ("norm", "result_norm")]:
        x = story[key][:PROMPT]
        lines += [f"model.{name}:", torch_tensor(x), f"torch.Size([1, {x.shape[0]}, {x.shape[1]}])"]
    return lines


def arrays_in_numpy(story):
    lines = ["I compared the first layer, here is what mine gives:", "", f"tokens = {story.tokens[:PROMPT]}"]
    with np.printoptions(precision=6, suppress=False, edgeitems=3, threshold=20):
        for name in ("attn_norm", "ffn_inp", "ffn_norm"):
            lines += [f"{name}_0 =", numpy_array(story[name, 0][:PROMPT])]
    return lines + ["Is this what you see, too?"]


def tensors_in_candle(story):
    lines = [f"tokens: {story.tokens[:PROMPT]}"]
    for name, key in [("layer 0 q before rope", ("Qcur.mul_mat", 0)), ("layer 0 q after rope", ("Qcur", 0)),
                      ("layer 0 k after rope", ("Kcur", 0))]:
        lines += [f"{name}:", candle_tensor(story[key][:PROMPT])]
    return lines


def arrays_in_mlx(story):
    lines = ["=== MLX DEBUG ===", f"Tokens: {story.tokens[:PROMPT]}", "", "Embedding analysis:",
             f"  Raw embeddings mean: {story['inp_embd'][:PROMPT].mean():.6f}"]
    for layer in range(2):
        lines += [f"--- Layer {layer} ---"]
        for name in ("attn_norm", "ffn_inp", "ffn_swiglu"):
            row = story[name, layer][PROMPT - 1]
            lines.append(f"  {name}[0, -1, :6]: array({brackets(row[:6])}, dtype=float32)")
    return lines


def statistics_and_norms(story):
    last = PROMPT - 1
    lines = []
    for layer in range(2):
        for name, key in [("before rms_1", "attn_norm"), ("after rms_1", "attn_norm"), ("after rms_2", "ffn_norm")]:
            row = story[key, layer][last]
            lines.append(f"{name} max_value: {row.max():.6f} min_value: {row.min():.6f}")
        lines.append(f"layer {layer} ffn_norm (last token): {brackets(story['ffn_norm', layer][last, :6])}")
    lines.append(f"layer 1 ffn_inp (last token): {brackets(story['ffn_inp', 1][last, :6])}")
    return lines


def json_lines(story):
    lines = [json.dumps({"event": "start", "tokens": story.tokens})]
    for pos in range(len(story.tokens)):
        for name, key in [("Qcur", "Qcur"), ("Kcur", "Kcur"), ("Vcur", "Vcur"), ("kqv_out", "kqv_out")]:
            values = [round(float(x), 6) for x in story[key, 0][pos]]
            lines.append(json.dumps({"layer": 0, "name": name, "pos": pos, "values": values}))
    return lines


def printed_in_c(story):
    lines = ["run.c debug build, temperature 0", f"prompt ids: {story.tokens[:PROMPT]}".replace("[", "[ ")]
    for pos in range(PROMPT):
        lines.append(f"pos {pos}:")
        for layer in range(2):
            for name, key in [("attn_norm", "attn_norm"), ("q", "Qcur.mul_mat"), ("ffn_norm", "ffn_norm"),
                              ("w1", "ffn_gate"), ("w3", "ffn_up")]:
                numbers = " ".join(f"{x:.6f}" for x in story[key, layer][pos, :5])
                lines.append(f"  layer {layer} {name}: {numbers}")
    return lines


def files_of_one_value(story):
    """A port that prints what goes into its norm and comes out of it, one number after the other."""
    lines = []
    for name, key in [("attn_norm-1", ("attn_norm", 1)), ("result_norm", "result_norm")]:
        lines += [f"this is {name} pos 4", f"{name} pos 4 = " + " ".join(f"{x:.6f}" for x in story[key][4])]
    return lines


def kv_by_head(story):
    lines = ["hf kv cache"]
    for name, key in [("k_head", "Kcur"), ("v_head", "Vcur")]:
        for pos in (0, 3):
            for head in range(2):
                row = story[key, 0][pos, head * 16 : head * 16 + 5]
                lines += [f"pos:{pos} layer:0 {name}: {head}", str([float(f"{x:.7g}") for x in row])]
    return lines


def slices_in_python(story):
    lines = [f"token_ids: {story.tokens[:PROMPT]}"]
    for layer in range(2):
        lines.append(f"Hidden state after layer {layer} (first 8): {brackets(story['l_out', layer][PROMPT - 1, :8])}")
    lines.append(f"logits[0, -1, :10] = {brackets(story['result_output'][PROMPT - 1, :10])}")
    lines.append(f"logits[100..105] = {brackets(story['result_output'][PROMPT - 1, 100:105])}")
    return lines


def contradictions(story):
    row = story["Qcur.mul_mat", 0]
    return [
        f"Token ids: {story.tokens[:PROMPT]}",
        f"layer 0 q pos 2: {brackets(row[2, :6])}",
        f"layer 0 q pos 2: {brackets(row[3, :6])}",
        f"layer 0 q pos 9: {brackets(row[3, :6])}",
        f"layer 7 q pos 2: {brackets(row[3, :6])}",
        f"attn_norm-0 pos 1: {brackets(np.concatenate([story['attn_norm', 0][1], [0.5]]))}",
        'top: token=99999 logit=8.1234',
        "Token ids: [1, 2]",
        "token 1 ffn_norm-0 -> " + brackets(story["ffn_norm", 0][1, :6]),
        "mystery_buffer pos 1: [0.125000, 0.250000]",
        "Top 3: [(13, 0.61), (278, 0.22), (29871, 0.05)]",
    ]


LOGS = {
    "rust-layers": (hidden_by_layer, "healthy"),
    "rust-layers-row-major": (hidden_by_layer, "row-major"),
    "wasm-operations": (by_operation, "healthy"),
    "wasm-operations-half-loaded": (by_operation, "half-loaded"),
    "torch-modules": (modules_in_torch, "healthy"),
    "numpy-arrays-norm-twice": (arrays_in_numpy, "norm-twice"),
    "candle-rope-half-split": (tensors_in_candle, "half-split-rope"),
    "mlx-debug": (arrays_in_mlx, "healthy"),
    "mistral-statistics": (statistics_and_norms, "healthy"),
    "json-lines-cache-slots": (json_lines, "cache-slots"),
    "c-port-row-major": (printed_in_c, "row-major"),
    "lisp-port": (files_of_one_value, "healthy"),
    "kv-by-head-half-split": (kv_by_head, "half-split-rope"),
    "python-slices-norm-twice": (slices_in_python, "norm-twice"),
    "python-slices": (slices_in_python, "healthy"),
    "contradictions": (contradictions, "healthy"),
}

if __name__ == "__main__":
    for name, (write, story) in LOGS.items():
        (HERE / f"{name}.txt").write_text("\n".join(write(Story(story))) + "\n")
