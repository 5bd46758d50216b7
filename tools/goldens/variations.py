"""Logits of the architecture fixtures with other metadata than they have, by llama.cpp.

    python tools/goldens/variations.py FIXTURES > crates/candor/tests/goldens/variations.json

FIXTURES is the folder with `arch/`. Needs llama-cpp-python (made with 0.3.36), gguf (0.19.0) and numpy. Each variation
says which keys are set (under the architecture's name) and which, or which tensors, are left out; where there are more
experts than before, they are the same ones again. A tensor may be there once more, as another (`copied`). `last`
is the last token's logits, of which every eighth is kept, or the last token's vector where the model is an encoder.
"""
import json
import sys
import tempfile

import gguf
import llama_cpp as lib
import numpy as np

TOKENS = 40
YARN = {"rope.scaling.type": "yarn", "rope.scaling.original_context_length": 16}
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
]
COPIED = {"jina-bert-v2": ("attn_output_norm", "attn_norm_2")}
ENCODERS = ["modernbert", "nomic-bert", "jina-bert-v2"]


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


quiet = lib.llama_log_callback(lambda *_: None)
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
json.dump(out, sys.stdout)
