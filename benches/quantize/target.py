#!/usr/bin/env python3
"""Compare `candor quantize --target-size` with every standard mix, and print Markdown tables.

usage: target.py MODEL.gguf TEXT --candor FILE [--chunks 8] [--ctx 256] [--held-out N] [--runs N] [--folder DIR] [--kl FILE]

The model has F32, F16 or BF16 weights. The sizes are those of the files that SIZES makes. Formats are chosen on the first windows of the
text. Then each file's divergence from MODEL is measured there, and on N windows behind them, by `candor perplexity --kl-divergence`,
or by --kl FILE, a llama-perplexity. Nothing but Python's library is needed.

A row holds if no mix of the target's size or below has a lower divergence on the text that was chosen on.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path

SIZES = ["Q3_K_S", "Q3_K_L", "Q4_K_M", "Q5_K_M", "Q6_K"]
MIXES = ["Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L", "IQ4_XS", "IQ4_NL", "Q4_0", "Q4_1", "Q4_K_S", "Q4_K_M", "Q5_0", "Q5_1", "Q5_K_S",
         "Q5_K_M", "Q6_K", "Q8_0", "MXFP4_MOE", "Q1_0", "Q2_0", "TQ1_0", "TQ2_0", "F16", "BF16"]


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr}")
    return done.stdout + done.stderr


class Measure:
    """Divergence of files from a model, on two texts."""

    def __init__(self, args):
        self.args = args
        words = args.text.read_text()
        # Cut by characters: `--chunks` cuts by tokens, and the second text begins behind what the first can hold.
        cut = int(len(words) * args.cut)
        self.texts = [args.folder / "chosen.txt", args.folder / "held-out.txt"]
        for path, part in zip(self.texts, (words[:cut], words[cut:])):
            path.write_text(part)
        self.chunks = [args.chunks, args.held_out]
        if args.kl:
            for number in (0, 1):
                run(args.kl, "-m", args.model, *self.flags(number), "--kl-divergence-base", args.folder / f"base{number}")

    def flags(self, number):
        return ["-f", self.texts[number], "-c", self.args.ctx, "--chunks", self.chunks[number], "-t", self.args.threads]

    def of(self, path):
        found = []
        for number in (0, 1):
            if self.args.kl:
                base = self.args.folder / f"base{number}"
                out = run(self.args.kl, "-m", path, *self.flags(number)[2:], "--kl-divergence-base", base, "--kl-divergence")
                found.append(float(re.search(r"Mean +KLD: +([-0-9.e]+)", out)[1]))
            else:
                words = ["--kl-divergence", "--kl-divergence-base", self.args.model, "--json", "--device", "cpu"]
                out = run(self.args.candor, "perplexity", path, *words, *self.flags(number))
                found.append(json.loads(out[out.index("{") : out.rindex("}") + 1])["divergence"]["mean"]["value"])
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--candor", type=lambda path: Path(path).resolve(), required=True)
    parser.add_argument("--ctx", type=int, default=256)
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--held-out", type=int, default=16)
    parser.add_argument("--cut", type=float, default=0.5, help="share of the text to choose on")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--kl", type=Path, help="a llama-perplexity to measure with")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    measure = Measure(args)
    mixes = {}
    for name in MIXES:
        path = args.folder / f"{name}.gguf"
        # Not every type fits every model's rows.
        if subprocess.run([args.candor, "quantize", args.model, path, name], capture_output=True).returncode != 0:
            continue
        mixes[name] = (path.stat().st_size, *measure.of(path))
    print("| mix | bytes | divergence | held out |\n| --- | --- | --- | --- |")
    for name, (size, chosen, held) in sorted(mixes.items(), key=lambda mix: mix[1][0]):
        print(f"| {name} | {size} | {chosen:.6f} | {held:.6f} |")
    print("\n| size of | bytes | target: bytes | divergence | best mix of at most that size | smallest mix that is better | held out | that mix | s | holds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    failed = False
    for name in SIZES:
        limit = mixes[name][0]
        path, begun = args.folder / f"target-{name}.gguf", time.time()
        words = ["--runs", args.runs] if args.runs else []
        table = run(args.candor, "quantize", "--target-size", limit, "-f", measure.texts[0], "-c", args.ctx, "--chunks", args.chunks,
                    "--device", "cpu", "-t", args.threads, *words, args.model, path)
        (args.folder / f"target-{name}.txt").write_text(table)
        seconds, size, (chosen, held) = time.time() - begun, path.stat().st_size, measure.of(path)
        best = min((of[1], other) for other, of in mixes.items() if of[0] <= limit)
        better = min(((of[0], other) for other, of in mixes.items() if of[1] <= chosen), default=None)
        holds = size <= limit and chosen < best[0]
        failed |= not holds
        beyond = f"{better[1]}, {better[0] / limit - 1:+.0%}" if better else "-"
        print(f"| {name} | {limit} | {size} | {chosen:.6f} | {best[1]} {best[0]:.6f} | {beyond} | {held:.6f} | {mixes[best[1]][2]:.6f} "
              f"| {seconds:.0f} | {'yes' if holds else 'NO'} |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
