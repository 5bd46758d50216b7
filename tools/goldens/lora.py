"""Logits of models with LoRA adapters, by llama.cpp, which are held against those of weights that they are merged into.

    python tools/goldens/lora.py FIXTURES FOLDER > crates/candor/tests/goldens/lora.json

FIXTURES is the folder with `arch/`, FOLDER a new one for adapters and merged models, which may be removed afterwards.
Needs llama-cpp-python (made with 0.3.36), gguf and numpy. The adapters' numbers are those that `candor_testing::Lora`
makes of the same seed, so that they need not be kept; merging is done in float64 and rounded once.
"""
import ctypes
import json
import os
import sys

import gguf
import llama_cpp as lib
import numpy as np

MODELS = ["llama", "qwen2", "gemma2", "mixtral"]
# Rank, alpha and seed, as in the test.
ADAPTERS = [(4, 8.0, 11), (3, 0.0, 12)]
SCALES = [[0.25, 0.0], [0.0, -0.5], [0.25, -0.5]]


def signed(seed, start, count):
    """Numbers of splitmix64, from -1 to 1."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(start + 1, start + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float32) / np.float32(2**23) - np.float32(1)


def is_embedding(name):
    return name.endswith("token_embd.weight")


def wanted(tensors):
    """What is changed: matrices, but no embedding that is the output, too."""
    tied = all(tensor.name != "output.weight" for tensor in tensors)
    return [t for t in tensors if len(t.shape) > 1 and not (tied and t.name == "token_embd.weight")]


def adapter(tensors, rank, seed):
    """The halves of every change, in memory's order."""
    halves, done = {}, 0
    for tensor in tensors:
        into, out, *deep = (int(n) for n in tensor.shape)
        shapes = [(rank, out), (rank, into)] if is_embedding(tensor.name) else [(into, rank), (rank, out)]
        for half, shape in zip("ab", shapes):
            ne = [*shape, *deep]
            count = int(np.prod(ne))
            spread = np.sqrt(np.float32(0.25) / np.float32(ne[0]))
            halves[f"{tensor.name}.lora_{half}"] = (spread * signed(seed, done, count)).reshape(ne[::-1])
            done += count
    return halves


def merged(tensor, changes):
    """A weight with all that is added to it, in float64, rounded once."""
    weight = np.array(tensor.data, dtype=np.float64)
    for halves, factor in changes:
        a, b = (halves[f"{tensor.name}.lora_{half}"].astype(np.float64) for half in "ab")
        weight += factor * (a @ b.T if is_embedding(tensor.name) else b @ a)
    return weight.astype(np.float32)


def write(path, reader, architecture, metadata, tensors):
    writer = gguf.GGUFWriter(path, architecture)
    for name, field in reader.fields.items() if reader else []:
        if name == "general.architecture" or name.startswith("GGUF."):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=sub)
    for name, value in metadata.items():
        (writer.add_string if isinstance(value, str) else writer.add_float32)(name, value)
    for name, data in tensors:
        writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama_cpp_logits(path, tokens, adapters, scales):
    model = lib.llama_load_model_from_file(path.encode(), lib.llama_model_default_params())
    params = lib.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = 64
    params.n_threads = params.n_threads_batch = 2
    params.type_k = params.type_v = 0  # F32
    params.flash_attn_type = 0
    context = lib.llama_new_context_with_model(model, params)
    if adapters:
        loaded = [lib.llama_adapter_lora_init(model, path.encode()) for path in adapters]
        assert all(loaded), adapters
        pointers = (ctypes.c_void_p * len(loaded))(*(ctypes.cast(a, ctypes.c_void_p) for a in loaded))
        array = ctypes.cast(pointers, ctypes.POINTER(lib.llama_adapter_lora_p_ctypes))
        status = lib.llama_set_adapters_lora(context, array, len(loaded), (ctypes.c_float * len(scales))(*scales))
        assert status == 0, status
    array = (ctypes.c_int32 * len(tokens))(*tokens)
    assert lib.llama_decode(context, lib.llama_batch_get_one(array, len(tokens))) == 0
    vocab = lib.llama_n_vocab(lib.llama_model_get_vocab(model))
    row = np.ctypeslib.as_array(lib.llama_get_logits_ith(context, -1), shape=(vocab,)).astype(np.float64)
    lib.llama_free(context)
    lib.llama_model_free(model)
    return row


def nmse(got, expected):
    return float(((got - expected) ** 2).sum() / (expected**2).sum())


def rounded(row):
    return [float(str(np.float32(x))) for x in row]


def main(fixtures, folder):
    quiet = lib.llama_log_callback(lambda *_: None)
    lib.llama_log_set(quiet, None)
    lib.llama_backend_init()
    os.makedirs(folder)
    cases = []
    for name in MODELS:
        source = f"{fixtures}/arch/{name}"
        tokens = json.load(open(f"{source}/tokens.json"))["tokens"]
        reader = gguf.GGUFReader(f"{source}/model.gguf")
        architecture = reader.fields["general.architecture"].contents()
        changed = wanted(reader.tensors)
        names = {tensor.name for tensor in changed}
        halves, files = [], []
        for number, (rank, alpha, seed) in enumerate(ADAPTERS):
            halves.append(adapter(changed, rank, seed))
            files.append(f"{folder}/{name}-{number}.gguf")
            metadata = {"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": alpha}
            write(files[-1], None, architecture, metadata, halves[-1].items())
        plain = llama_cpp_logits(f"{source}/model.gguf", tokens, [], [])
        for scales in SCALES:
            factors = [scale * (alpha / rank if alpha else 1) for scale, (rank, alpha, _) in zip(scales, ADAPTERS)]
            changes = list(zip(halves, factors))
            tensors = [(t.name, merged(t, changes) if t.name in names else np.array(t.data)) for t in reader.tensors]
            file = f"{folder}/{name}-merged-{len(cases)}.gguf"
            write(file, reader, architecture, {}, tensors)
            ours = llama_cpp_logits(f"{source}/model.gguf", tokens, files, scales)
            whole = llama_cpp_logits(file, tokens, [], [])
            print(f"{name:8} {scales} adapters against merged: NMSE {nmse(ours, whole):.1e} (without: "
                  f"{nmse(plain, whole):.1e})", file=sys.stderr)
            # Its GELU is a table of halves.
            assert nmse(ours, whole) < (1e-7 if name == "gemma2" else 1e-9), name
            cases.append({"model": name, "scales": scales, "logits": rounded(ours)})
    adapters = [dict(zip(("rank", "alpha", "seed"), adapter)) for adapter in ADAPTERS]
    json.dump({"program": "llama-cpp-python 0.3.36", "adapters": adapters, "cases": cases}, sys.stdout)


main(sys.argv[1], sys.argv[2])
