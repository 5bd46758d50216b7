#!/usr/bin/env python3
"""Time `candor quantize` and llama-quantize in turn on one file, and print a Markdown table.

usage: run.py MODEL --candor FILE --llama-quantize FILE [--types Q4_K_M,Q8_0] [--threads N] [--rounds 5] [--folder DIR]

Each round reads the file once before, so that both find it in the system's cache. Outputs go to DIR (by default beside the model) and are
removed. Times are wall seconds, memory the most that lay in it. Nothing but Python's library is needed.
"""

import argparse
import os
import statistics
import subprocess
import time
from pathlib import Path


def run(command, output):
    """Seconds, processor seconds and bytes of memory."""
    begun = time.perf_counter()
    child = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - begun
    if status != 0:
        raise SystemExit(f"{command}: status {status}")
    output.unlink()
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--candor", type=Path, required=True)
    parser.add_argument("--llama-quantize", type=Path, required=True)
    parser.add_argument("--types", type=lambda text: text.split(","), default=["Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "IQ4_XS"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    output = (args.folder or args.model.parent) / "quantized.partial.gguf"
    print("| type | llama-quantize, s | candor, s | times as fast | processor time | memory, MB |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    for kind in args.types:
        rounds = []
        for _ in range(args.rounds):
            with open(args.model, "rb") as file:
                while file.read(1 << 24):
                    pass
            theirs = run([args.llama_quantize, args.model, output, kind, args.threads], output)
            ours = run([args.candor, "quantize", args.model, output, kind, args.threads], output)
            rounds.append((theirs, ours))
        seconds = lambda who: ", ".join(f"{one[who][0]:.1f}" for one in rounds)
        ratio = lambda of: statistics.median(theirs[of] / ours[of] for theirs, ours in rounds)
        memory = [max(one[who][2] for one in rounds) / 1e6 for who in (0, 1)]
        print(f"| {kind} | {seconds(0)} | {seconds(1)} | {ratio(0):.2f} | {ratio(1):.2f} | {memory[0]:.0f}, {memory[1]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
