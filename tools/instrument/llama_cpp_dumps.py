"""Run llama.cpp's llama-eval-callback and llama-debug over models and write their output as `candor diagnose` cases.

    python tools/instrument/llama_cpp_dumps.py BIN FIXTURES OUT [--only 'gemma*'] [--old --tokenizer llama-tokenize]

BIN holds the two programs, FIXTURES has arch/NAME/model.gguf, arch/INDEX.json and models/NAME.gguf. Each case is a
folder of OUT with the text as it came (dump.log) or the binary values, and case.json. Cases are healthy except those in
KNOWN and, with --overrides, all of them; they differ in attention kernel, type of the KV cache, repacking, threads and
size of a batch. A model that does not run is listed.
"""

import argparse
import fnmatch
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

PROMPT = "Once upon a time there was"
LARGEST = 3_000_000  # bytes of a dump; a longer one is made again with a shorter prompt
PROMPTS = [PROMPT, "Once upon", "a"]

# Nothing that a user would have to set: flash attention where possible, an F16 cache, repacked weights.
DEFAULT: list[str] = []
# The nearest to plain float32.
PLAIN = "-fa off -ctk f32 -ctv f32 --no-repack -t 1".split()

# The same for versions of 2024, whose flags are fewer.
OLD_RUNS = {"default": [], "plain": "-ctk f32 -ctv f32 -t 1".split(), "fa-on": ["-fa"]}

CACHES = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]
# Heads of 32 or 64 elements, which block formats need.
CACHE_MODELS = ["qwen3", "llama-wide256", "quant-llama-wide256-Q8_0", "gemma2"]
# Where llama.cpp does not compute what the model's authors define, although it is consistent: id of the fault, first
# value, in words. The tiny gpt-oss models say nothing about truncation, as no GGUF file does.
KNOWN = {
    "gpt-oss*": (["llama-cpp-yarn-ramp-rounded"], "Qcur-0", "the ends of YaRN's ramp are rounded, not as defined"),
    "phimoe": (["llama-cpp-phimoe-rms-norm", "llama-cpp-phimoe-softmax-router"], "attn_norm-0",
               "RMS norm for LayerNorm, and softmax of the best two for sparsemixer"),
    "phi3-longrope": (["llama-cpp-longrope-by-context"], None, "long factors for a short prompt in a long context"),
}
KNOWN_OLD = {
    "minicpm": (["llama-cpp-2024-minicpm-constants"], "inp_embd", "scales of MiniCPM 2B, whatever the file says"),
}
ENCODERS = ["bert", "distilbert", "roberta", "eurobert", "modernbert", "jina-bert-v2", "nomic-bert", "gemma-embedding"]

# What a loader gets wrong about a file's keys, done by the program's own --override-kv: id of the fault, the key behind
# the architecture's name, the value in its place, the first value it makes wrong. A run that comes out as without it,
# up to VISIBLE of its size, is no case.
OVERRIDES = [
    ("llama-cpp-rope-base-10k", "rope.freq_base", "float:10000", "Qcur-0"),
    ("llama-cpp-rope-base-500k", "rope.freq_base", "float:500000", "Qcur-0"),
    ("llama-cpp-rope-factor-1", "rope.scaling.factor", "float:1", "Qcur-0"),
    ("llama-cpp-rope-factor-2", "rope.scaling.factor", "float:2", "Qcur-0"),
    ("llama-cpp-rope-original-context", "rope.scaling.original_context_length", "int:64", "Qcur-0"),
    ("llama-cpp-rope-dimensions-half", "rope.dimension_count", "int:8", "Qcur-0"),
    ("llama-cpp-rms-eps-large", "attention.layer_norm_rms_epsilon", "float:0.01", "attn_norm-0"),
    ("llama-cpp-norm-eps-large", "attention.layer_norm_epsilon", "float:0.01", None),
    ("llama-cpp-window-3", "attention.sliding_window", "int:3", None),
    ("llama-cpp-window-unlimited", "attention.sliding_window", "int:4096", None),
    ("llama-cpp-embedding-scale-1", "embedding_scale", "float:1", "inp_embd"),
    ("llama-cpp-residual-scale-1", "residual_scale", "float:1", "ffn_inp-0"),
    ("llama-cpp-attention-scale-1", "attention.scale", "float:1", "kq_soft_max-0"),
    ("llama-cpp-logit-scale-1", "logit_scale", "float:1", "result_output"),
    ("llama-cpp-attention-cap-50", "attn_logit_softcapping", "float:50", "kq_soft_max-0"),
    ("llama-cpp-final-cap-30", "final_logit_softcapping", "float:30", "result_output"),
    ("llama-cpp-clamp-half", "attention.clamp_kqv", "float:0.5", "Qcur-0"),
    ("llama-cpp-alibi-bias-4", "attention.max_alibi_bias", "float:4", "kq_soft_max-0"),
    ("llama-cpp-sequential-residual", "use_parallel_residual", "bool:false", None),
    ("llama-cpp-parallel-residual", "use_parallel_residual", "bool:true", None),
    ("llama-cpp-one-expert-used", "expert_used_count", "int:1", None),
    ("llama-cpp-expert-weights-not-normed", "expert_weights_norm", "bool:false", None),
    ("llama-cpp-expert-weights-scale-1", "expert_weights_scale", "float:1", None),
    ("llama-cpp-gating-softmax", "expert_gating_func", "int:1", None),
    ("llama-cpp-gating-sigmoid", "expert_gating_func", "int:2", None),
]
VISIBLE = 0.05
# Models for these: one per architecture and option, no two of the same.
LEFT_OUT = ["quant-*", "*-long200", "llama-wide256", "llama-eps", "gpt-oss*", "phimoe", "phi3-longrope"]

# One per kind of attention, feed-forward block or state.
VARIED = ["llama", "qwen2", "qwen3", "gemma2", "gemma3", "gpt2", "gptneox", "gpt-oss", "deepseek2-v2", "mixtral",
          "phi3", "cohere", "stablelm", "bloom", "mamba", "lfm2"]


def runs(name: str, is_story: bool, old: bool) -> dict[str, list[str]]:
    """Names the runs of a model and their flags."""
    if old:
        return OLD_RUNS
    found = {"default": DEFAULT, "plain": PLAIN}
    if is_story or name in VARIED or name.startswith("quant-"):
        found |= {
            "fa-on": ["-fa", "on"],
            "fa-off": ["-fa", "off"],
            "no-repack": ["--no-repack", "-t", "1"],
            "chunks": ["-ub", "4", "-t", "2"],
        }
    if name == "phi3-longrope":
        found |= {"short-context": ["-c", "256"]}
    if name in CACHE_MODELS:
        for cache in CACHES:
            found[f"cache-{cache}-fa-on"] = ["-fa", "on", "-ctk", cache, "-ctv", cache]
            # A quantized cache of values needs flash attention.
            values = cache if cache in ("f32", "f16", "bf16") else "f16"
            found[f"cache-{cache}-fa-off"] = ["-fa", "off", "-ctk", cache, "-ctv", values]
    return found


def run(command: list[str], cwd: Path | None = None) -> tuple[int, str]:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
    return done.returncode, done.stdout.decode(errors="replace")


def ids_in(text: str) -> list[int]:
    """Finds the ids that llama-eval-callback lists before it begins."""
    found = re.search(r"number of input tokens = (\d+)\n((?:.*\n)*)", text)
    if not found:
        return []
    lines = found.group(2).splitlines()[: int(found.group(1))]
    return [int(line.split()[-1]) for line in lines]


def ids_of(tokenizer: Path, model: Path, prompt: str) -> list[int]:
    """Asks llama-tokenize, since older versions do not list the ids."""
    command = [str(tokenizer), "-m", str(model), "-p", prompt, "--ids", "--log-disable"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else []


def known(name: str, label: str, old: bool) -> dict:
    """Says what is wrong with a run: nothing, for most."""
    rows = KNOWN_OLD if old else KNOWN
    found = next((row for pattern, row in rows.items() if fnmatch.fnmatch(name, pattern)), None)
    if found is None or label.startswith("short-context"):
        return {"faults": [], "first": None, "holdout": False}
    faults, first, words = found
    held = any(int(hashlib.sha256(fault.encode()).hexdigest(), 16) % 3 == 0 for fault in faults)
    return {"faults": faults, "first": first, "holdout": held, "says": words}


def write(folder: Path, case: dict) -> None:
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")


def eval_callback(options: argparse.Namespace, model: Path, folder: Path, case: dict, flags: list[str]) -> str | None:
    """Writes a case from llama-eval-callback; the answer says why it could not."""
    for prompt in PROMPTS:
        status, text = run([str(options.bin / "llama-eval-callback"), "-m", str(model), "-p", prompt, *flags])
        if status != 0:
            said = [line for line in text.splitlines() if re.search(r"error|fail|assert|abort", line, re.I)]
            return f"exit {status}: {said[-1][:160] if said else text[-160:]!r}"
        if len(text) <= LARGEST:
            break
    else:
        return f"{len(text)} bytes even for a prompt of one token"
    ids = ids_in(text) or ids_of(options.tokenizer or options.bin / "llama-tokenize", model, prompt)
    if not ids:
        return "no list of ids in its text"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dump.log").write_text(text)
    args = ["--ids", ",".join(map(str, ids)), "--prompt-tokens", str(len(ids))]
    write(folder, case | {"dump": "dump.log", "args": args, "storage": "printed-4", "values": "corners"})
    return None


def debug(options: argparse.Namespace, model: Path, folder: Path, case: dict, flags: list[str]) -> str | None:
    """Writes a case from llama-debug's binary logits of the last token, or an encoder's rows before pooling."""
    folder.mkdir(parents=True, exist_ok=True)
    embeds = model.parent.name in ENCODERS
    command = [str(options.bin / "llama-debug"), "-m", str(model), "-p", PROMPT, "--save-logits", *flags]
    if embeds:
        command += ["--embedding", "--pooling", "none", "--embd-normalize", "-1"]
    status, text = run([*command, "--logits-output-dir", str(folder)])
    dumps = [path for path in folder.glob("*.bin") if not path.stem.endswith("-tokens")]
    tokens = next(iter(folder.glob("*-tokens.bin")), None)
    if status != 0 or len(dumps) != 1 or tokens is None:
        shutil.rmtree(folder)
        return f"exit {status}, {len(dumps)} files of logits: {text[-160:]!r}"
    raw = tokens.read_bytes()
    ids = [int.from_bytes(raw[at : at + 4], "little") for at in range(0, len(raw), 4)]
    args = ["--ids", ",".join(map(str, ids)), "--prompt-tokens", str(len(ids))]
    values = "embeddings" if embeds else "last-logits"
    write(folder, case | {"dump": dumps[0].name, "args": args, "storage": "f32", "values": values})
    return None


def keys_of(model: Path) -> tuple[str, set[str]]:
    """Reads a file's architecture and the names of its keys."""
    from gguf import GGUFReader

    fields = GGUFReader(model).fields
    return fields["general.architecture"].contents(), set(fields)


def overridden(options: argparse.Namespace, name: str, model: Path, wiring: str) -> tuple[int, list[str]]:
    """Writes the cases of a model whose keys are overridden."""
    made, failed = 0, []
    prefix, keys = keys_of(model)
    scratch = options.out / "scratch"
    for label, flags in [("default", DEFAULT), ("plain", PLAIN)]:
        case = {"maker": "llama.cpp", "wiring": wiring, "model": str(model.resolve())}
        eval_callback(options, model, scratch, case, flags)
        healthy = values_in(scratch / "dump.log")
        for fault, suffix, value, first in OVERRIDES:
            key = f"{prefix}.{suffix}"
            if key not in keys:
                continue
            held = int(hashlib.sha256(fault.encode()).hexdigest(), 16) % 3 == 0
            folder = (options.holdout if held else options.out) / name / f"{fault}-{label}"
            case |= {
                "id": f"{options.maker}/{name}/{fault}-{label}", "faults": [fault], "first": first, "holdout": held,
                "says": f"{key} is taken for {value.split(':')[1]}",
            }
            why = eval_callback(options, model, folder, case, [*flags, "--override-kv", f"{key}={value}"])
            if why is not None:
                failed.append(f"{case['id']}: {why}")
            elif not differ(values_in(folder / "dump.log"), healthy):
                shutil.rmtree(folder)
            else:
                made += 1
    shutil.rmtree(scratch, ignore_errors=True)
    return made, failed


def values_in(log: Path) -> list[list[float]]:
    """Lists the printed elements of each node."""
    nodes = re.split(r"^common_debug_cb_eval:.*$", log.read_text(), flags=re.M)[1:] if log.exists() else []
    return [[float(number) for number in re.findall(r"-?\d+\.\d{4}(?=[ ,])", node)] for node in nodes]


def differ(values: list[list[float]], healthy: list[list[float]]) -> bool:
    """Whether some node is off by more than any rounding, in its printed elements."""
    for one, other in zip(values, healthy):
        off = sum((a - b) ** 2 for a, b in zip(one, other))
        if len(one) == len(other) and off > VISIBLE**2 * sum(b * b for b in other):
            return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=Path)
    parser.add_argument("fixtures", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="*", help="models whose name matches")
    parser.add_argument("--maker", default="llama.cpp", help="name in the ids of the cases")
    parser.add_argument("--holdout", type=Path, help="where cases of faults that are held out go; OUT unless said")
    parser.add_argument("--old", action="store_true", help="the programs are of 2024: other flags")
    parser.add_argument("--overrides", action="store_true", help="sick cases: keys of the file overridden; needs gguf")
    parser.add_argument("--tokenizer", type=Path, help="a llama-tokenize, where BIN has none")
    options = parser.parse_args()
    options.holdout = options.holdout or options.out
    models = [(path.parent.name, path, False) for path in sorted(options.fixtures.glob("arch/*/model.gguf"))]
    models += [(path.stem, path, True) for path in sorted(options.fixtures.glob("models/*.gguf"))]
    wirings = {entry["dir"]: entry["arch"] for entry in json.loads((options.fixtures / "arch/INDEX.json").read_text())}
    made, failed = 0, []
    for name, model, is_story in models:
        if not fnmatch.fnmatch(name, options.only) or wirings.get(name) == "t5":
            continue
        if options.overrides:
            if not is_story and not any(fnmatch.fnmatch(name, pattern) for pattern in LEFT_OUT):
                more, why = overridden(options, name, model, wirings[name])
                made, failed = made + more, failed + why
            continue
        for label, flags in runs(name, is_story, options.old).items():
            programs = [("llama-eval-callback", "", eval_callback)]
            if label in ("default", "short-context") and (options.bin / "llama-debug").exists():
                programs.append(("llama-debug", "-logits", debug))
            for program, suffix, write_case in programs:
                case = {
                    "id": f"{options.maker}/{name}/{label}{suffix}", "maker": "llama.cpp",
                    "wiring": wirings.get(name, "llama"), "model": str(model.resolve()),
                    "says": f"healthy: {program} {' '.join(flags) or 'without flags'}",
                } | known(name, label, options.old)
                root = options.holdout if case["holdout"] else options.out
                why = write_case(options, model, root / name / f"{label}{suffix}", case, flags)
                made += why is None
                if why is not None:
                    failed.append(f"{case['id']}: {why}")
    print(f"{made} cases", *failed, sep="\n")
    return 0 if made else 1


if __name__ == "__main__":
    sys.exit(main())
