"""Check the healthy engine against the logits of Transformers.

    python tools/instrument/engine.py --fixtures FIXTURES --check
    python tools/instrument/engine.py --fixtures FIXTURES --check --only gemma2 mamba
"""

import argparse
import json
from pathlib import Path

import numpy as np

from engine import FIXTURES, build, model_file


# What Transformers does and GGUF has no key for, so that llama.cpp does not: mixer_rms_eps and time_step_min.
UNLIKE_LLAMA_CPP = {"falcon-mamba": {"small_eps": 1e-6}, "nemotron-h": {"smallest_step": 1e-3}}


def check(fixtures, wiring, prompt=10):
    """Return the NMSE of a prompt and of decoding behind it, along the fixture's tokens."""
    folder = fixtures / "arch" / FIXTURES[wiring][0]
    ids = json.loads((folder / "tokens.json").read_text())["tokens"]
    for name in ("logits_hf.npy", "embeddings_hf.npy", "logits_exact.npy"):
        if (folder / name).exists():
            want = np.load(folder / name).astype(np.float64)
    engine = build(wiring, model_file(wiring, fixtures))
    for attribute, value in UNLIKE_LLAMA_CPP.get(wiring, {}).items():
        setattr(engine, attribute, value)
    if engine.causal:
        engine.run(ids[:prompt], forced=ids[prompt:])
    else:
        engine.run(ids)
    values = engine.dump()
    got = values["result_output"] if "result_output" in values else values["result_embd"]
    split = prompt if engine.causal else len(ids)

    def nmse(rows):
        return ((got[rows] - want[rows]) ** 2).mean() / (want[rows] ** 2).mean()

    return nmse(slice(0, split)), nmse(slice(split, None)) if split < len(ids) else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fixtures", type=Path, required=True)
    parser.add_argument("--check", action="store_true", required=True, help="print a table of distances")
    parser.add_argument("--only", nargs="*", help="wirings")
    args = parser.parse_args()
    print("| wiring | fixture | NMSE prompt | NMSE decoding |\n| --- | --- | --- | --- |")
    bad = 0
    for wiring in args.only or FIXTURES:
        prompt, decoding = check(args.fixtures, wiring)
        bad += not (prompt <= 1e-10 and (decoding is None or decoding <= 1e-10))
        print(f"| {wiring} | {FIXTURES[wiring][0]} | {prompt:.1e} | "
              f"{'' if decoding is None else format(decoding, '.1e')} |", flush=True)
    raise SystemExit(bad > 0)


if __name__ == "__main__":
    main()
