r"""Put noise in place of values of a right run, and count what `candor diagnose` says of it.

    candor trace MODEL --ids 1,15043,3186,310 -o WHOLE.safetensors
    python tools/instrument/noise.py --candor target/release/candor --model MODEL --trace WHOLE.safetensors --tries 1000 \
        --no-faults

A try has one to four values. The first, and half of the others, are numbers of a normal distribution, as large as the
values were or around 1; the rest are right. No such dump may be called healthy, and nothing in it named with high
confidence. The run stops with exit code 1 at the first that is; the dump of that try is kept. With --no-faults no
names are looked for, which takes seconds a try where a model is large.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from engine.dump import read_safetensors, write_safetensors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candor", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--tries", type=int, default=1000)
    parser.add_argument("--no-faults", action="store_true")
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()
    values, metadata = read_safetensors(args.trace)
    names = sorted(values)
    random = np.random.default_rng(args.seed)
    said, slowest = Counter(), 0.0
    dump = Path(tempfile.mkdtemp()) / "noise.safetensors"
    for done in range(args.tries):
        chosen = {}
        for place in range(1 + random.integers(4)):
            name = names[random.integers(len(names))]
            right = values[name]
            if place == 0 or random.integers(2):
                size = np.sqrt(np.mean(right**2)) if random.integers(2) else 1.0
                chosen[name] = size * random.standard_normal(right.shape)
            else:
                chosen.setdefault(name, right)
        write_safetensors(dump, chosen, "f32", metadata)
        begun = time.monotonic()
        command = [args.candor, "diagnose", args.model, "--trace", str(dump), "--json"]
        run = subprocess.run(command + ["--no-faults"] * args.no_faults, capture_output=True, text=True)
        slowest = max(slowest, time.monotonic() - begun)
        report = json.loads(run.stdout)
        said[report["outcome"]] += 1
        sure = [f["fault"] for f in report["findings"] if f["confidence"] == "high"]
        if run.returncode == 0 or sure:
            print(f"try {done}, {', '.join(chosen)}: {report['outcome']} {sure}, see {dump}")
            sys.exit(1)
        if (done + 1) % 25 == 0:
            print(f"{done + 1} of {args.tries}: {dict(said)}, slowest {slowest:.1f} s", flush=True)
    dump.unlink()
    dump.parent.rmdir()


if __name__ == "__main__":
    main()
