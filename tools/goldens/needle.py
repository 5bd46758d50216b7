"""Logits after 32,000 positions on models with scaled rotation, or queries that grow, by llama.cpp.

    python tools/goldens/needle.py FIXTURES > crates/candor/tests/goldens/needle.json

FIXTURES is the folder with `arch/`. Needs llama-cpp-python (made with 0.3.36) and numpy. The tokens are those of the
test: a generator that both have, with the same few tokens, the needle, at position 1,000 and at the end.
"""
import ctypes
import json
import sys

import llama_cpp as lib
import numpy as np

LENGTH = 32_000
NEEDLE = [77, 301, 12, 499, 250]
FIXTURES = ["llama-rope-yarn", "phi3-longrope", "llama4"]


def tokens():
    state, out = 1, []
    for _ in range(LENGTH):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(3 + (state >> 33) % 500)
    out[1000 : 1000 + len(NEEDLE)] = NEEDLE
    out[-3:] = NEEDLE[:3]
    return out


def logits(path, ids):
    model = lib.llama_load_model_from_file(path.encode(), lib.llama_model_default_params())
    params = lib.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = LENGTH, 512, 512
    params.n_threads = params.n_threads_batch = 2
    params.type_k = params.type_v = 0  # F32
    params.flash_attn_type = 0
    context = lib.llama_new_context_with_model(model, params)
    vocab = lib.llama_n_vocab(lib.llama_model_get_vocab(model))
    for first in range(0, LENGTH, 512):
        part = ids[first : first + 512]
        array = (ctypes.c_int32 * len(part))(*part)
        status = lib.llama_decode(context, lib.llama_batch_get_one(array, len(part)))
        assert status == 0, (path, first, status)
    row = np.ctypeslib.as_array(lib.llama_get_logits_ith(context, -1), shape=(vocab,)).astype(float)
    return [float(np.float32(x)) for x in row]


ids = tokens()
out = {"program": "llama-cpp-python 0.3.36", "length": LENGTH, "logits": {}}
quiet = lib.llama_log_callback(lambda *_: None)
lib.llama_log_set(quiet, None)
lib.llama_backend_init()
for name in FIXTURES:
    out["logits"][name] = logits(f"{sys.argv[1]}/arch/{name}/model.gguf", ids)
    print(name, file=sys.stderr)
json.dump(out, sys.stdout)
