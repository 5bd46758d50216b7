#!/usr/bin/env python3
"""Writes the values that llama.cpp computes on the way to its logits as a Candor trace.

    python tools/trace/trace_llama_cpp.py MODEL.gguf -p "Once upon a time" -n 4 -o run.safetensors
    python tools/trace/trace_llama_cpp.py MODEL.gguf --ids 1,403,407 --names 'Qcur*' --names 'l_out-*' -o run.safetensors

Needs llama-cpp-python (built against 0.3.36), numpy and safetensors. The prompt is evaluated in one batch, then N
tokens are decoded greedily one by one; every token asks for its logits. It runs on the CPU with one thread, an F32
KV cache, no flash attention (which has no `kq`) and no repacked weights. The evaluation callback makes llama.cpp
compute node by node, so that nothing is fused. Nodes that have no name in Candor are listed on stderr.
"""

import argparse
import ctypes
import fnmatch
import hashlib
import json
import re
import sys
from importlib.metadata import version as package_version
from pathlib import Path

import llama_cpp as lc
import numpy as np
from safetensors.numpy import save_file

GGML_F32, GGML_F16, GGML_I32, GGML_BF16 = 0, 1, 26, 30
MAX_NAME = 64
OBJECT_SIZE = 32  # bytes of struct ggml_object, which ggml_tensor_overhead() counts too
# Nodes that move values and compute none.
MOVES = {"RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE", "CONT", "CPY", "DUP", "SET_ROWS", "NONE"}
# Nodes with one name in every version: llama.cpp's name to ours.
PLAIN = {
    "embd": "inp_embd", "inp_embd": "inp_embd", "attn_norm": "attn_norm", "Qcur_normed": "Qcur_normed",
    "Kcur_normed": "Kcur_normed", "kq": "kq", "kq_soft_max": "kq_soft_max", "kq_soft_max_ext": "kq_soft_max",
    "ffn_inp": "ffn_inp", "ffn_norm": "ffn_norm", "ffn_gate": "ffn_gate", "ffn_gate_b": "ffn_gate",
    "ffn_up": "ffn_up", "ffn_up_b": "ffn_up", "ffn_swiglu": "ffn_swiglu", "ffn_gate_par": "ffn_swiglu",
    "ffn_out": "ffn_out", "l_out": "l_out", "result_norm": "result_norm", "result_output": "result_output",
}
# The same of nodes with a part for each expert of a token, of which some are views. A bias or a scale makes another node,
# which comes last and is the value.
EXPERTS = {
    "ffn_moe_topk": "ffn_moe_topk",
    **{f"ffn_moe_weights{then}": "ffn_moe_weights" for then in ("", "_norm", "_softmax", "_scaled")},
    **{f"ffn_moe_{part}{then}": f"ffn_moe_{part}"
       for part in ("gate", "up", "down") for then in ("", "_biased", "_scaled")},
    "ffn_moe_swiglu": "ffn_moe_swiglu",
    **{f"ffn_moe_{function}": "ffn_moe_act"
       for function in ("geglu", "reglu", "swiglu_oai", "silu", "gelu", "relu", "relu_sqr")},
    "ffn_moe_weighted": "ffn_moe_weighted", "ffn_moe_out": "ffn_moe_out",
}
# Nodes that bear one name several times: the last of a pass has it alone, the ones before it with their operation.
REPEATED = {"Qcur", "Kcur", "Vcur"}
SCORES = {"kq", "kq_soft_max"}


class Tensor(ctypes.Structure):
    """`struct ggml_tensor` of ggml.h."""


Tensor._fields_ = [
    ("type", ctypes.c_int), ("buffer", ctypes.c_void_p), ("ne", ctypes.c_int64 * 4), ("nb", ctypes.c_size_t * 4),
    ("op", ctypes.c_int), ("op_params", ctypes.c_int32 * 16), ("flags", ctypes.c_int32),
    ("src", ctypes.POINTER(Tensor) * 10), ("view_src", ctypes.c_void_p), ("view_offs", ctypes.c_size_t),
    ("data", ctypes.c_void_p), ("name", ctypes.c_char * MAX_NAME), ("extra", ctypes.c_void_p),
    ("padding", ctypes.c_char * 8),
]


def load_ggml():
    folder = Path(lc.__file__).parent / "lib"
    found = [path for stem in ("libggml-base", "ggml-base") for path in sorted(folder.glob(stem + ".*"))]
    if not found:
        sys.exit(f"ggml-base: no such library in {folder}")
    lib = ctypes.CDLL(str(found[0]))
    for name, result, arguments in [
        ("ggml_op_desc", ctypes.c_char_p, [ctypes.c_void_p]),
        ("ggml_get_name", ctypes.c_char_p, [ctypes.c_void_p]),
        ("ggml_get_data", ctypes.c_void_p, [ctypes.c_void_p]),
        ("ggml_nbytes", ctypes.c_size_t, [ctypes.c_void_p]),
        ("ggml_tensor_overhead", ctypes.c_size_t, []),
        ("ggml_backend_buffer_is_host", ctypes.c_bool, [ctypes.c_void_p]),
        ("ggml_version", ctypes.c_char_p, []),
        ("ggml_commit", ctypes.c_char_p, []),
    ]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def check_layout(ggml, address, tensor):
    """Struct fields against the library's own accessors, since a new version may move them."""
    same = (
        ggml.ggml_get_name(address) == tensor.name
        and ggml.ggml_get_data(address) == tensor.data
        and ctypes.sizeof(Tensor) + OBJECT_SIZE == ggml.ggml_tensor_overhead()
    )
    if not same:
        raise ValueError("struct ggml_tensor of this llama.cpp is laid out differently; see ggml.h and class Tensor")


def values(ggml, tensor):
    """All elements as float32, `[ne3, ne2, ne1, ne0]`, contiguous."""
    name = tensor.name.decode()
    if not ggml.ggml_backend_buffer_is_host(tensor.buffer):
        raise ValueError(f"{name}: is not in the memory of the CPU")
    kinds = {GGML_F32: np.float32, GGML_F16: np.float16, GGML_I32: np.int32, GGML_BF16: np.uint16}
    if tensor.type not in kinds:
        raise ValueError(f"{name}: expected type F32, F16, BF16 or I32, got ggml type {tensor.type}")
    size = ggml.ggml_nbytes(ctypes.addressof(tensor))
    memory = (ctypes.c_uint8 * size).from_address(tensor.data)
    shape, strides = tuple(tensor.ne)[::-1], tuple(tensor.nb)[::-1]
    view = np.ndarray(shape, kinds[tensor.type], memory, strides=strides)
    if tensor.type == GGML_BF16:
        return (np.array(view, np.uint32, order="C") << 16).view(np.float32)
    return np.array(view, np.float32, order="C")


class Recorder:
    """Collects the nodes of a pass in the evaluation callback, and the rows of all passes."""

    def __init__(self, globs):
        self.ggml = load_ggml()
        self.globs = globs
        self.nodes = []
        self.skipped = {}
        self.rows = {}
        self.error = None
        self.checked = False
        self.callback = lc.llama_cpp.ggml_backend_sched_eval_callback(self.node)

    def node(self, address, ask, _):
        if ask or self.error:
            return self.error is None
        try:
            tensor = Tensor.from_address(address)
            if not self.checked:
                check_layout(self.ggml, address, tensor)
                self.checked = True
            self.see(tensor)
        except Exception as error:  # an exception can't cross C; the pass ends and `run` raises it
            self.error = error
        return self.error is None

    def see(self, tensor):
        op = self.ggml.ggml_op_desc(ctypes.addressof(tensor)).decode()
        name, layer = split(tensor.name.decode())
        sources = [source.contents for source in tensor.src if source]
        for source in sources:
            of = re.fullmatch(r"blk\.(\d+)\.attn_output\.(weight|bias)", source.name.decode())
            if of:  # the node's own name has changed between versions, that of the weight has not
                layer = int(of[1])
                if of[2] == "weight":
                    self.nodes.append(("kqv_out", layer, op, values(self.ggml, sources[1])))
                self.nodes.append(("attn_out", layer, op, values(self.ggml, tensor)))
                return
        if name in EXPERTS:
            self.nodes.append((EXPERTS[name], layer, op, values(self.ggml, tensor)))
            return
        if op in MOVES:
            return
        if op == "GET_ROWS" and layer is not None:
            return  # the rows whose outputs are wanted, by the name of what comes next
        if name in PLAIN:
            self.nodes.append((PLAIN[name], layer, op, values(self.ggml, tensor)))
        elif name in REPEATED:
            self.nodes.append((name, layer, op, values(self.ggml, tensor)))
        else:
            self.skipped.setdefault(f"{name} {op}", 0)
            self.skipped[f"{name} {op}"] += 1

    def finish_pass(self, tokens):
        """Names the nodes of the pass and appends their rows."""
        last = {(name, layer): index for index, (name, layer, _, _) in enumerate(self.nodes)}
        for index, (name, layer, op, data) in enumerate(self.nodes):
            if last[name, layer] != index:
                if name not in REPEATED:
                    continue  # before its bias
                name = f"{name}.{op.lower()}"
            key = name if layer is None else f"{name}-{layer}"
            if self.globs and not any(fnmatch.fnmatchcase(text, glob) for text in (key, name) for glob in self.globs):
                continue
            if name in SCORES:
                shape = (data.shape[1], tokens, data.shape[3])
            else:
                shape = (tokens, data.size // tokens)
            self.rows.setdefault(key, []).append(data.reshape(shape))
        self.nodes = []

    def tensors(self, positions):
        """Rows of all passes together. Scores reach over the whole cache: cut, or filled with zeros, to `positions`."""
        out = {}
        for key, parts in self.rows.items():
            if split(key)[0] in SCORES:
                fitted = [np.zeros(part.shape[:2] + (positions,), np.float32) for part in parts]
                for whole, part in zip(fitted, parts):
                    width = min(positions, part.shape[2])
                    whole[:, :, :width] = part[:, :, :width]
                out[key] = np.concatenate(fitted, axis=1)
            else:
                out[key] = np.concatenate(parts)
            rows = out[key].shape[-2]
            if rows != positions:
                raise ValueError(f"{key}: expected rows for {positions} tokens, got {rows}: not every pass has it")
        return out


def split(name):
    found = re.fullmatch(r"(.+)-(\d+)", name)
    return (found[1], int(found[2])) if found else (name, None)


def id_list(text):
    return [int(part) for part in text.split(",")]


def tokenize(vocab, text):
    data = text.encode()
    out = (lc.llama_token * (len(data) + 8))()
    count = lc.llama_tokenize(vocab, data, len(data), out, len(out), True, True)
    if count < 0:
        raise ValueError(f"prompt: expected at most {len(out)} tokens, got {-count}")
    return list(out[:count])


def evaluate(context, recorder, ids, start):
    """One pass over `ids` at the positions from `start` on: the logits of the last token."""
    batch = lc.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, start + i, 1, 1
        batch.seq_id[i][0] = 0
    code = lc.llama_decode(context, batch)
    lc.llama_batch_free(batch)
    if recorder.error:
        raise recorder.error
    if code:
        raise ValueError(f"llama_decode: expected 0, got {code}")
    recorder.finish_pass(len(ids))
    size = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(lc.llama_get_model(context)))
    return np.ctypeslib.as_array(lc.llama_get_logits_ith(context, len(ids) - 1), (size,)).copy()


def metadata_of(model, key):
    buffer = ctypes.create_string_buffer(256)
    length = lc.llama_model_meta_val_str(model, key.encode(), buffer, len(buffer))
    return buffer.value.decode(errors="replace") if length >= 0 else None


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lc.llama_log_callback
def quiet(level, text, _):
    if level == 4:  # GGML_LOG_LEVEL_ERROR
        sys.stderr.write(text.decode(errors="replace"))


def run(args):
    lc.llama_log_set(quiet, None)
    lc.llama_backend_init()
    params = lc.llama_model_default_params()
    params.n_gpu_layers = 0
    params.use_extra_bufts = False
    model = lc.llama_model_load_from_file(str(args.model).encode(), params)
    if not model:
        raise ValueError(f"{args.model}: llama.cpp can't load it")
    vocab = lc.llama_model_get_vocab(model)
    prompt = args.ids if args.ids is not None else tokenize(vocab, args.prompt)
    size = lc.llama_vocab_n_tokens(vocab)
    if not prompt or not all(0 <= token < size for token in prompt):
        raise ValueError(f"token ids: expected some below {size}, got {prompt}")

    total = len(prompt) + args.n
    recorder = Recorder(args.names)
    params = lc.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = total
    params.n_seq_max = params.n_threads = params.n_threads_batch = 1
    params.flash_attn_type = lc.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.type_k = params.type_v = GGML_F32
    params.offload_kqv = params.op_offload = False
    params.swa_full = params.no_perf = True
    params.cb_eval = recorder.callback
    context = lc.llama_init_from_model(model, params)
    if not context:
        raise ValueError(f"{args.model}: llama.cpp can't make a context of {total} tokens")

    tokens = list(prompt)
    logits = evaluate(context, recorder, prompt, 0)
    for _ in range(args.n):
        tokens.append(int(logits.argmax()))
        logits = evaluate(context, recorder, tokens[-1:], len(tokens) - 1)
    tensors = recorder.tensors(total)
    if not tensors:
        raise ValueError("no value was recorded; is --names right?")
    package = package_version("llama-cpp-python")
    commit = recorder.ggml.ggml_commit().decode()
    meta = {
        "candor.trace": "1",
        "engine": f"llama.cpp (llama-cpp-python {package})",
        "version": f"llama.cpp {commit}, ggml {recorder.ggml.ggml_version().decode()}",
        "backend": "CPU, 1 thread, F32 KV cache, no flash attention, no repacking",
        "isa": lc.llama_print_system_info().decode().strip(),
        "model": metadata_of(model, "general.name") or args.model.stem,
        "model_sha256": sha256(args.model),
        "tokens": json.dumps(tokens),
        "prompt_tokens": str(len(prompt)),
    }
    if args.prompt is not None:
        meta["prompt"] = args.prompt
    save_file(tensors, args.out, meta)
    lc.llama_free(context)
    lc.llama_model_free(model)
    if recorder.skipped:
        listed = ", ".join(f"{name} x{count}" for name, count in sorted(recorder.skipped.items()))
        print(f"not written, no name for them: {listed}", file=sys.stderr)
    print(f"{args.out}: {len(tensors)} values of {total} tokens", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("-p", "--prompt", help="text, tokenized with BOS if the model wants one")
    source.add_argument("--ids", type=id_list, help="token ids: 1,2,3")
    parser.add_argument("-n", type=int, default=0, metavar="STEPS", help="tokens to decode greedily after the prompt")
    parser.add_argument("--names", action="append", default=[], metavar="GLOB",
                        help="only these names or keys; repeatable")
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
