"""Run candle-dump over models and write what it computes as cases for `candor diagnose`.

    cargo build --release --manifest-path tools/instrument/candle/Cargo.toml
    python tools/instrument/candle/dumps.py tools/instrument/candle/target/release/candle-dump FIXTURES OUT

FIXTURES has arch/NAME/model.gguf, arch/INDEX.json and models/NAME.gguf. The faults are candle 0.9.2's own, seen by
running a module on files that it loads although it leaves out part of what they say. A run without faults must agree
with the logits of Transformers that lie beside a model, a run with faults must not, or the script stops.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

PROMPT = [1, 403, 407, 261, 378, 383, 286]
DECODED = [395, 303]

NEOX = "candle-llama-rope-on-neox"  # huggingface/candle#3410
# Model, module, faults, first wrong value, what the engine did.
SICK = [
    ("exaone", "llama", [NEOX], "Qcur-0", "quantized_llama rotates neighbours in a file that wants halves"),
    ("qwen2", "llama", [NEOX, "candle-llama-bias-ignored"], "Qcur-0", "quantized_llama knows no biases and no halves"),
    ("llama-bias", "llama", ["candle-llama-bias-ignored"], "Qcur-0", "quantized_llama adds none of the biases"),
    ("llama-rope-linear", "llama", ["candle-rope-scaling-ignored"], "Qcur-0", "rope.scaling is not read"),
    ("qwen3-yarn", "qwen3", ["candle-rope-scaling-ignored"], "Qcur-0", "rope.scaling is not read"),
    ("qwen3", "qwen3", ["candle-qwen3-rope-table-f16"], "Qcur-0", "angles of the rotation are computed in F16"),
    ("phi3-longrope", "phi3", ["candle-longrope-factors-ignored"], "Qcur-0", "rope factors are not read"),
    ("minicpm", "llama", ["candle-llama-embedding-scale-ignored", "candle-llama-residual-scale-ignored",
                          "candle-llama-logit-scale-ignored"], "inp_embd", "quantized_llama reads no scales"),
    ("granite", "llama", ["candle-llama-embedding-scale-ignored", "candle-llama-residual-scale-ignored",
                          "candle-llama-attention-scale-ignored", "candle-llama-logit-scale-ignored"], "inp_embd",
     "quantized_llama reads no scales"),
    ("gemma3-long200", "gemma3", ["candle-gemma3-silu-for-gelu"], "ffn_swiglu-0", "SiLU instead of GELU"),
    ("gemma3", "gemma3", ["candle-gemma3-silu-for-gelu", "candle-rope-scaling-ignored"], "Qcur-5",
     "SiLU instead of GELU, and rope.scaling is not read"),
]
HEALTHY = [("llama", "llama"), ("llama-eps", "llama"), ("llama-wide256", "llama"), ("llama-long200", "llama"),
           ("mistral", "llama"), ("baichuan", "llama"), ("xverse", "llama"), ("internlm2", "llama"),
           ("ernie4_5", "llama"), ("qwen2", "qwen2"), ("glm4", "glm4"), ("phi3", "phi3"), ("lfm2", "lfm2")]
TRACED = ["llama", "qwen2", "qwen3"]
# Errors of 8-bit activations stay below the first, faults above the second; an F16 table of angles is in between.
HEALTHY_BELOW, SICK_ABOVE = 1e-2, 1e-7


def run(program: Path, model: Path, module: str, ids: list[int], values: str, decoded: int, out: Path) -> str | None:
    command = [str(program), str(model), "--as", module, "--ids", ",".join(map(str, ids)), "--values", values]
    command += ["--decode", str(decoded), "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else (done.stderr.strip() or "?").splitlines()[0]


def error(program: Path, model: Path, module: str, scratch: Path) -> float | None:
    """Mean squared difference to the logits of Transformers or of exact arithmetic, over their mean square."""
    folder = model.parent
    references = (folder / name for name in ("logits_exact.npy", "logits_hf.npy"))
    reference = next((path for path in references if path.exists()), None)
    if reference is None:
        return None
    ids = json.loads((folder / "tokens.json").read_text())["tokens"]
    why = run(program, model, module, ids, "steps", 0, scratch)
    if why is not None:
        sys.exit(f"{model}: {why}")
    expected, found = np.load(reference), load_file(scratch)["logits"]
    return float(((found - expected) ** 2).mean() / (expected**2).mean())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("fixtures", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--holdout", type=Path, help="where cases of faults that are held out go; OUT unless said")
    options = parser.parse_args()
    wirings = {entry["dir"]: entry["arch"] for entry in json.loads((options.fixtures / "arch/INDEX.json").read_text())}
    runs = [(name, options.fixtures / f"arch/{name}/model.gguf", *rest) for name, *rest in SICK]
    healthy = HEALTHY + [(name, "llama") for name in wirings if name.startswith("quant-")]
    runs += [(name, options.fixtures / f"arch/{name}/model.gguf", module, [], None, "") for name, module in healthy]
    stories = sorted(options.fixtures.glob("models/*.gguf"))
    runs += [(model.stem, model, "llama", [], None, "") for model in stories]
    made, failed = 0, []
    options.out.mkdir(parents=True, exist_ok=True)
    scratch = options.out / "scratch.safetensors"
    for name, model, module, faults, first, says in runs:
        why = run(options.program, model, module, PROMPT, "last", 0, scratch)
        if why is not None:
            failed.append(f"{name} as {module}: {why}")
            continue
        off = error(options.program, model, module, scratch)
        if off is not None and (off < SICK_ABOVE if faults else off > HEALTHY_BELOW):
            sys.exit(f"{name} as {module}: {off:.1e} from the reference, which does not fit {faults}")
        held = any(int(hashlib.sha256(fault.encode()).hexdigest(), 16) % 3 == 0 for fault in faults)
        root = options.holdout if held and options.holdout else options.out
        for values in ["all"] * (module in TRACED) + ["steps", "last"]:
            ids = PROMPT + DECODED if values == "all" else PROMPT
            folder = root / f"{name}-as-{module}" / values
            folder.mkdir(parents=True, exist_ok=True)
            decoded = len(DECODED) if values == "all" else 0
            why = run(options.program, model, module, ids, values, decoded, folder / "dump.safetensors")
            if why is not None:
                sys.exit(f"{name} as {module}, {values}: {why}")
            at_once = 1 if values == "steps" else len(PROMPT)
            case = {
                "id": f"candle/{name}-as-{module}/{values}", "maker": "candle", "wiring": wirings.get(name, "llama"),
                "model": str(model.resolve()), "dump": "dump.safetensors",
                "args": ["--ids", ",".join(map(str, ids)), "--prompt-tokens", str(at_once)], "faults": faults,
                "says": says or f"healthy: candle's quantized {module}", "storage": "f32",
                "values": {"all": "all", "steps": "logits", "last": "last-logits"}[values],
                "first": first if values == "all" or first is None else "result_output", "holdout": held,
            }
            (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
            made += 1
    scratch.unlink()
    print(f"{made} cases", *failed, sep="\n")
    return 0 if made else 1


if __name__ == "__main__":
    sys.exit(main())
