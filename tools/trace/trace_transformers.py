#!/usr/bin/env python3
"""Writes the values that Hugging Face Transformers computes on the way to its logits as a Candor trace.

    python tools/trace/trace_transformers.py MODEL_DIR --ids 1,403,407 -n 4 -o run.safetensors
    python tools/trace/trace_transformers.py --from-gguf MODEL.gguf --config config.json --ids 1,403 -o run.safetensors

Needs transformers (made with 5.23), torch, numpy and safetensors; with --from-gguf also gguf, and the weights are
those of the GGUF file, dequantized. The model runs in float64 with eager attention and no cache, once over the
prompt and the N tokens that it chooses greedily. Models whose modules are those of Llama: llama, mistral, qwen2,
qwen3.

Transformers keeps Q and K of a head as two halves; a GGUF file of the architecture `llama` has them interleaved.
With --gguf-order (the default for such a model) Q and K are written as the GGUF file would have them; metadata
`qk_order` says which it is. Scores are zero where the cache of an engine that decodes token by token has no
position yet.
"""

import argparse
import hashlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

# Configurations that converters write as the GGUF architecture `llama`, whose Q and K rows are interleaved.
INTERLEAVED = {"llama", "mistral"}
COVERED = INTERLEAVED | {"qwen2", "qwen3"}
HEAD_VALUES = re.compile(r"(Qcur|Kcur)(\.mul_mat|\.add|_normed)?-\d+")
# The GGUF name of a tensor to that of Transformers.
OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
INNER = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}


def interleaved(rows, heads):
    """Rows `[H*E, ...]` of halves to rows of pairs: 0, E/2, 1, E/2+1 and so on in each head."""
    halves = rows.reshape(heads, 2, -1, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def halved(rows, heads):
    """The inverse of `interleaved`."""
    pairs = rows.reshape(heads, -1, 2, *rows.shape[1:])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def gguf_weights(path, config):
    """The tensors of a GGUF file by the names of Transformers, float32, and whether Q and K rows were interleaved."""
    from gguf import GGUFReader
    from gguf.quants import dequantize

    reader = GGUFReader(path)
    arch = reader.fields["general.architecture"].contents()
    pairs = arch == "llama"
    state = {}
    for tensor in reader.tensors:
        stem, kind = tensor.name.rsplit(".", 1)
        block = re.fullmatch(r"blk\.(\d+)\.(\w+)", stem)
        if stem == "rope_freqs":
            continue  # the configuration says the same
        inner = INNER.get(block[2]) if block else None
        name = f"model.layers.{block[1]}.{inner}" if inner else OUTER.get(stem)
        if name is None:
            raise ValueError(f"{path}: {tensor.name}: no such tensor in a model of the llama family")
        data = np.array(dequantize(tensor.data, tensor.tensor_type), np.float32)
        if pairs and inner in ("self_attn.q_proj", "self_attn.k_proj"):
            heads = config.num_attention_heads if inner.endswith("q_proj") else config.num_key_value_heads
            data = halved(data, heads)
        state[f"{name}.{kind}"] = torch.from_numpy(np.ascontiguousarray(data))
    return state, pairs


def covered(config, path):
    if config.model_type not in COVERED:
        raise ValueError(f"{path}: expected a model of {', '.join(sorted(COVERED))}, got {config.model_type}")
    return config


def model_from_gguf(path, config_path):
    config = covered(transformers.AutoConfig.for_model(**json.loads(config_path.read_text())), config_path)
    state, pairs = gguf_weights(path, config)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    state.setdefault("lm_head.weight", state["model.embed_tokens.weight"])
    expected = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
    for name in sorted(set(expected) | set(state)):
        got = tuple(state[name].shape) if name in state else None
        if got != expected.get(name):
            raise ValueError(f"{path}: {name}: {config_path} expects {expected.get(name)}, the file has {got}")
    model.load_state_dict(state)
    return model, pairs


def model_from_folder(path):
    if not (path / "config.json").is_file():
        raise ValueError(f"{path}: expected a folder with a config.json")
    config = covered(transformers.AutoConfig.from_pretrained(path, local_files_only=True), path)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path, config=config, attn_implementation="eager", dtype=torch.float32, local_files_only=True
    )
    return model, config.model_type in INTERLEAVED


class Recorder:
    """Hooks on a model's modules; afterwards `values` has every value of the last run, `[T, width]`, by key."""

    def __init__(self, model):
        self.values = {}
        self.scores = {}
        base = model.model
        self.plain(base.embed_tokens, "inp_embd")
        self.plain(base.norm, "result_norm")
        self.plain(model.lm_head, "result_output")
        for i, layer in enumerate(base.layers):
            self.plain(layer, f"l_out-{i}")
            self.plain(layer.input_layernorm, f"attn_norm-{i}")
            self.plain(layer.post_attention_layernorm, f"ffn_norm-{i}")
            self.entry(layer.post_attention_layernorm, f"ffn_inp-{i}")
            attention, mlp = layer.self_attn, layer.mlp
            for part in "QKV":
                self.projection(getattr(attention, f"{part.lower()}_proj"), part, i)
            for part in "QK":
                if hasattr(attention, f"{part.lower()}_norm"):
                    self.plain(getattr(attention, f"{part.lower()}_norm"), f"{part}cur_normed-{i}")
            self.entry(attention.o_proj, f"kqv_out-{i}")
            self.plain(attention.o_proj, f"attn_out-{i}")
            self.plain(mlp.gate_proj, f"ffn_gate-{i}")
            self.plain(mlp.up_proj, f"ffn_up-{i}")
            self.entry(mlp.down_proj, f"ffn_swiglu-{i}")
            self.plain(mlp, f"ffn_out-{i}")
        self.attention(sys.modules[type(model).__module__])

    def put(self, key, tensor):
        self.values[key] = tensor.detach().reshape(tensor.shape[1], -1).numpy()

    def plain(self, module, key):
        first = lambda out: out[0] if isinstance(out, tuple) else out
        module.register_forward_hook(lambda _, args, out: self.put(key, first(out)))

    def entry(self, module, key):
        module.register_forward_pre_hook(lambda _, args: self.put(key, args[0]))

    def projection(self, module, part, layer):
        """The product before its bias, and for Q and K the sum; `Vcur` itself is seen where attention takes it."""

        def hook(module, args, out):
            if module.bias is not None or part != "V":
                self.put(f"{part}cur.mul_mat-{layer}", torch.nn.functional.linear(args[0], module.weight))
            if module.bias is not None and part != "V":
                self.put(f"{part}cur.add-{layer}", out)

        module.register_forward_hook(hook)

    def attention(self, code):
        """Wraps the attention function of the model's source, which gets Q and K after rope, and V."""
        inner = getattr(code, "eager_attention_forward", None)
        if inner is None:
            raise ValueError(f"{code.__name__}: has no eager_attention_forward; this transformers is not supported")

        def outer(module, query, key, value, *args, **kwargs):
            out, weights = inner(module, query, key, value, *args, **kwargs)
            for name, heads in (("Qcur", query), ("Kcur", key), ("Vcur", value)):
                self.put(f"{name}-{module.layer_idx}", heads.transpose(1, 2))
            repeated = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
            self.scores[f"kq-{module.layer_idx}"] = (query @ repeated.transpose(2, 3))[0].numpy()
            self.scores[f"kq_soft_max-{module.layer_idx}"] = weights[0].numpy()
            return out, weights

        code.eager_attention_forward = outer


def logits(model, ids):
    return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


def id_list(text):
    return [int(part) for part in text.split(",")]


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@torch.no_grad()
def run(args):
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if args.from_gguf:
        model, pairs = model_from_gguf(args.from_gguf, args.config)
    else:
        model, pairs = model_from_folder(args.model)
    if args.gguf_order is not None:
        pairs = args.gguf_order
    model = model.double().eval()
    config = model.config
    if not all(0 <= token < config.vocab_size for token in args.ids):
        raise ValueError(f"token ids: expected some below {config.vocab_size}, got {args.ids}")

    tokens = list(args.ids)
    for _ in range(args.n):
        tokens.append(int(logits(model, tokens)[-1].argmax()))
    recorder = Recorder(model)
    logits(model, tokens)

    tensors = {}
    heads = {"Q": config.num_attention_heads, "K": config.num_key_value_heads}
    for key, value in recorder.values.items():
        if pairs and HEAD_VALUES.fullmatch(key):
            value = interleaved(value.T, heads[key[0]]).T
        tensors[key] = np.ascontiguousarray(value, np.float32)
    rows = np.arange(len(tokens))
    seen = np.maximum(rows + 1, len(args.ids))  # positions in the cache when a row is evaluated
    for key, value in recorder.scores.items():
        tensors[key] = np.where(rows[None, None, :] < seen[None, :, None], value, 0).astype(np.float32)

    source = args.from_gguf or args.model
    meta = {
        "candor.trace": "1",
        "engine": f"transformers {transformers.__version__}",
        "version": f"torch {torch.__version__}",
        "backend": "CPU, eager attention, float64 (rope angles, norms and softmax in float32 as the model's code does)",
        "model": source.stem if args.from_gguf else source.resolve().name,
        "tokens": json.dumps(tokens),
        "prompt_tokens": str(len(args.ids)),
        "qk_order": "interleaved" if pairs else "half",
    }
    if args.from_gguf:
        meta["model_sha256"] = sha256(args.from_gguf)
    save_file(tensors, args.out, meta)
    print(f"{args.out}: {len(tensors)} values of {len(tokens)} tokens", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?", help="folder of a model: config.json and safetensors")
    parser.add_argument("--from-gguf", type=Path, help="take the weights of this GGUF file")
    parser.add_argument("--config", type=Path, help="config.json of the GGUF file's model")
    parser.add_argument("--ids", type=id_list, required=True, help="token ids: 1,2,3")
    parser.add_argument("-n", type=int, default=0, metavar="STEPS", help="tokens to decode greedily after the prompt")
    parser.add_argument("--gguf-order", action=argparse.BooleanOptionalAction, default=None,
                        help="Q and K in the order of a GGUF file of the architecture llama")
    parser.add_argument("-o", "--out", type=Path, required=True)
    args = parser.parse_args()
    if (args.model is None) == (args.from_gguf is None) or (args.from_gguf is None) != (args.config is None):
        parser.error("expected a model folder, or --from-gguf and --config")
    if args.n < 0:
        parser.error(f"-n: expected 0 or more, got {args.n}")
    try:
        run(args)
    except (ValueError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
