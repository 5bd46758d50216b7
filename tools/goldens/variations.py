"""Logits of the architecture fixtures with other metadata than they have, by llama.cpp.

    python tools/goldens/variations.py FIXTURES > crates/candor/tests/goldens/variations.json

FIXTURES is the folder with `arch/`. Needs llama-cpp-python (made with 0.3.36), gguf (0.19.0) and numpy. Each variation
says which keys are set (under the architecture's name) and which, or which tensors, are left out; where there are more
experts than before, they are the same ones again. A tensor may be there once more, as another (`copied`). `last`
is the last token's logits, of which every eighth is kept, or the last token's vector where the model is an encoder.
`needed` says of each fixture which tensors llama.cpp does not load it without, of layers the last that has one of that name.
"""
import json
import os
import pathlib
import re
import sys
import tempfile

import gguf
import llama_cpp as lib
import numpy as np

TOKENS = 40
YARN = {"rope.scaling.type": "yarn", "rope.scaling.original_context_length": 16}
# Keys of other architectures, each of which llama.cpp does not look at in Llama's files.
IGNORED = [
    {"attention.scale": 0.5},
    {"attention.clamp_kqv": 0.05},
    {"attention.max_alibi_bias": 4.0},
    {"attention.temperature_scale": 0.5, "attention.temperature_length": 8},
    {"attn_logit_softcapping": 0.4},
    {"final_logit_softcapping": 0.3},
    {"logit_scale": 0.25},
    {"embedding_scale": 3.0},
    {"residual_scale": 0.5},
    {"use_parallel_residual": True},
    {"rescale_every_n_layers": 2},
]
VARIATIONS = [
    ("modernbert", {"hidden_activation": "silu"}, []),
    ("modernbert", {}, ["rope.freq_base_swa"]),
    ("gemma2", {}, ["attn_logit_softcapping", "final_logit_softcapping"]),
    ("gemma4", {}, ["final_logit_softcapping"]),
    ("granite", {"rope.scaling.finetuned": False}, []),
    ("deepseek2-v3", {"attention.temperature_scale": 0.5, "attention.temperature_length": 8}, []),
    ("deepseek2-lite", YARN | {"rope.scaling.factor": 4.0, "rope.scaling.yarn_log_multiplier": 0.1}, []),
    ("lfm2", {"attention.sliding_window": 8}, []),
    ("nomic-bert", {}, ["attention.causal"]),
    ("phi3-longrope", {"rope.scaling.type": "longrope", "rope.scaling.factor": 4.0}, []),
    ("llama", YARN | {"rope.scaling.factor": 0.5}, []),
    ("dots1", {}, ["expert_weights_norm"]),
    ("glm4moe", {}, ["expert_weights_norm"]),
    ("llama4", {"expert_count": 128}, []),
    ("glm4", {"rope.dimension_sections": [2, 1, 1, 0]}, []),
    ("stablelm", {}, ["blk.0.ffn_norm", "blk.1.ffn_norm", "blk.2.ffn_norm"]),
    ("jina-bert-v2", {}, []),
    ("granite", {"attention.scale": 0.5}, []),
    ("granite", {"logit_scale": 0.25}, []),
    ("granite", {"embedding_scale": 6.0}, []),
    ("granite", {"residual_scale": 0.5}, []),
    ("minicpm", {"residual_scale": 0.5}, []),
    ("cohere", {"logit_scale": 0.5}, []),
    ("gemma2", {"attn_logit_softcapping": 0.4}, []),
    ("gemma3", {"final_logit_softcapping": 0.3}, []),
    ("gemma4", {"final_logit_softcapping": 0.3}, []),
    ("dbrx", {"attention.clamp_kqv": 0.05}, []),
    ("olmo", {"attention.clamp_kqv": 0.05}, []),
    ("mpt", {"attention.clamp_kqv": 0.05}, []),
    ("mpt", {"attention.max_alibi_bias": 4.0}, []),
    ("bloom", {"attention.max_alibi_bias": 4.0}, []),
    ("gptneox", {"use_parallel_residual": False}, []),
    ("rwkv6", {"rescale_every_n_layers": 2}, []),
    ("qwen3moe", {"expert_weights_norm": False}, []),
    ("qwen3moe", {"expert_weights_scale": 2.5}, []),
    ("qwen3moe", {"expert_gating_func": 2}, []),
    ("dots1", {"expert_weights_scale": 1.5}, []),
    ("dots1", {"expert_gating_func": 1}, []),
    ("lfm2moe", {"expert_gating_func": 1}, []),
    ("lfm2moe", {"expert_weights_scale": 2.5}, []),
    ("llama", YARN | {"rope.scaling.factor": 4.0, "rope.scaling.yarn_beta_fast": 4.0}, []),
    ("llama", YARN | {"rope.scaling.factor": 4.0, "rope.scaling.yarn_beta_slow": 0.05}, []),
    ("llama", YARN | {"rope.scaling.factor": 4.0, "rope.scaling.yarn_log_multiplier": 0.5}, []),
    ("qwen3", YARN | {"rope.scaling.factor": 4.0, "rope.scaling.yarn_truncate": False}, []),
    ("minicpm3", YARN | {"rope.scaling.factor": 4.0}, ["rope.scaling.attn_factor"]),
    ("deepseek2-lite", {"rope.scaling.attn_factor": 1.2}, []),
    ("deepseek2-lite", {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, []),
    ("deepseek2-lite", {"rope.scaling.type": "none", "rope.scaling.factor": 4.0, "rope.scaling.attn_factor": 1.2}, []),
    (
        "deepseek2-lite",
        YARN
        | {"rope.scaling.factor": 4.0, "rope.scaling.yarn_log_multiplier": 0.1, "rope.scaling.attn_factor": 1.2},
        [],
    ),
    ("gemma3", {"rope.scaling.attn_factor": 1.2}, []),
    ("gemma4", {"rope.scaling.attn_factor": 1.2}, []),
    ("gemma-embedding", {"rope.scaling.attn_factor": 1.2}, []),
    ("modernbert", {"rope.scaling.attn_factor": 1.2}, []),
    ("olmo3-swa8", {"rope.scaling.attn_factor": 1.2}, []),
] + [("llama", changed, []) for changed in IGNORED]
COPIED = {"jina-bert-v2": ("attn_output_norm", "attn_norm_2")}
ENCODERS = ["modernbert", "nomic-bert", "jina-bert-v2", "gemma-embedding"]


def varied(fixture, path, changed, left_out):
    reader = gguf.GGUFReader(f"{sys.argv[1]}/arch/{fixture}/model.gguf")
    arch = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(path, arch)
    changed = {f"{arch}.{key}": value for key, value in changed.items()}
    names = [f"{arch}.{key}" for key in left_out] + list(changed)
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture" and name not in names:
            kinds = field.types
            writer.add_key_value(name, field.contents(), kinds[0], sub_type=kinds[-1] if len(kinds) > 1 else None)
    add = {
        bool: writer.add_bool,
        int: writer.add_uint32,
        float: writer.add_float32,
        str: writer.add_string,
        list: writer.add_array,
    }
    for name, value in changed.items():
        add[type(value)](name, value)
    experts = changed.get(f"{arch}.expert_count")
    for tensor in reader.tensors:
        data = tensor.data
        if tensor.name.rpartition(".")[0] in left_out:
            continue
        if experts and ("_exps." in tensor.name or "ffn_gate_inp." in tensor.name):
            data = np.tile(data, (experts // len(data),) + (1,) * (data.ndim - 1))
        old, new = COPIED.get(fixture, ("", ""))
        for name in [tensor.name] + [tensor.name.replace(f".{old}.", f".{new}.")] * (f".{old}." in tensor.name):
            writer.add_tensor(name, data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def last(path, ids, encodes):
    model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
    params = lib.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = 256
    params.n_threads = params.n_threads_batch = 1
    params.type_k = params.type_v = 0  # F32
    params.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
    if encodes:
        params.embeddings, params.pooling_type = True, lib.LLAMA_POOLING_TYPE_NONE
    context = lib.llama_init_from_model(model, params)
    batch = lib.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = token, i, 1, 0, 1
    assert lib.llama_decode(context, batch) == 0
    get = lib.llama_get_embeddings_ith if encodes else lib.llama_get_logits_ith
    width = lib.llama_model_n_embd(model) if encodes else lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    row = np.ctypeslib.as_array(get(context, len(ids) - 1), (width,)).copy()
    return row if encodes else row[::8]


def without(reader, path, tensor):
    """Whether llama.cpp misses a tensor that the file lacks."""
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            kinds = field.types
            writer.add_key_value(name, field.contents(), kinds[0], sub_type=kinds[-1] if len(kinds) > 1 else None)
    for other in reader.tensors:
        if other.name != tensor:
            writer.add_tensor(other.name, other.data, raw_dtype=other.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    # Some files make it abort.
    child = os.fork()
    if child == 0:
        lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
        os._exit(any(f"'{tensor}' not found" in line for line in said))
    return os.waitpid(child, 0)[1] == 256


def needed(fixture):
    reader = gguf.GGUFReader(f"{sys.argv[1]}/arch/{fixture}/model.gguf")
    kinds = {re.sub(r"blk\.\d+\.", "", tensor.name): tensor.name for tensor in reader.tensors}
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        return sorted(name for name in kinds.values() if without(reader, file.name, name))


said = []
quiet = lib.llama_log_callback(lambda _level, text, _data: said.append(text.decode(errors="replace")))
lib.llama_log_set(quiet, None)
lib.llama_backend_init()
ids = [1] + [3 + 37 * i % 500 for i in range(1, TOKENS)]
out = {"program": "llama-cpp-python 0.3.36", "tokens": ids, "variations": []}
for fixture, changed, left_out in VARIATIONS:
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        varied(fixture, file.name, changed, left_out)
        row = [float(f"{x:.9g}") for x in last(file.name, ids, fixture in ENCODERS)]
    case = {"fixture": fixture, "set": changed, "left_out": left_out, "copied": COPIED.get(fixture), "last": row}
    out["variations"].append(case)
fixtures = sorted(path.parent.name for path in pathlib.Path(sys.argv[1], "arch").glob("*/model.gguf"))
out["needed"] = {fixture: needed(fixture) for fixture in fixtures if not fixture.startswith("quant-")}
json.dump(out, sys.stdout)
