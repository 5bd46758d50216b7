#!/usr/bin/env python3
"""Candor, llama.cpp and candle on the same files, in turn, and the ratios of their speeds as a Markdown table.

usage: run.py MODEL.gguf... [--isa native|avx2] [-t THREADS] [-r ROUNDS] [--peers llama.cpp,candle] [--out FILE]

Needs Python 3.10, Rust, and a C++ compiler for llama.cpp. Candor is built from this tree, unless --candor names a
binary. The peers lie under $CANDOR_PEERS (a folder candor-peers in the user's cache if unset): llama-cpp-python in a
virtual environment per instruction set, candle's binary likewise. --venv names an environment that has llama-cpp-python
already.

Each round runs every program once on every test, each program in a process of its own: the same number of random tokens
in each, the same threads, nothing sampled. llama.cpp runs with flash attention on and off; the faster of the two (by
its median) is compared. A ratio is the median of the rounds' ratios of tokens per second: above 1 Candor is faster.
"""
import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LLAMA_CPP = "llama-cpp-python==0.3.36"
# What a build for AVX2 is allowed to use, in CMake's and in rustc's words.
AVX2_CMAKE = ["-DGGML_NATIVE=OFF", "-DGGML_AVX512=OFF"]
AVX2_CMAKE += [f"-DGGML_{name}=ON" for name in ("AVX", "AVX2", "FMA", "F16C", "BMI2")]
RUSTFLAGS = {"native": "-C target-cpu=native", "avx2": "-C target-feature=+avx,+avx2,+fma,+f16c,+bmi2"}


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, **options):
    """A command's stdout; what it says on stderr is shown if it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr[-4000:]}")
    return done.stdout


def cache():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("CANDOR_PEERS") or Path(base) / "candor-peers")


def interpreter(folder):
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def environment(isa):
    """The Python of an environment with llama-cpp-python for the instruction set, built if there is none."""
    folder = cache() / f"venv-{isa}"
    python = interpreter(folder)
    has = lambda: subprocess.run([python, "-c", "import llama_cpp"], capture_output=True).returncode == 0
    if python.exists() and has():
        return python
    say(f"building {LLAMA_CPP} for {isa} in {folder}: this takes a while")
    run([sys.executable, "-m", "venv", folder])
    run([python, "-m", "pip", "install", "-q", "--upgrade", "pip"])
    flags = ["-DLLAVA_BUILD=OFF", *(["-DGGML_NATIVE=ON"] if isa == "native" else AVX2_CMAKE)]
    for compiler in ("clang-19", "clang"):
        plus = compiler.replace("clang", "clang++")
        if shutil.which(compiler) and shutil.which(plus):
            flags += [f"-DCMAKE_C_COMPILER={compiler}", f"-DCMAKE_CXX_COMPILER={plus}"]
            break
    # Flags of the caller come last and win.
    flags += os.environ.get("CMAKE_ARGS", "").split()
    variables = dict(os.environ, CMAKE_ARGS=" ".join(flags))
    run([python, "-m", "pip", "install", "--no-cache-dir", "--no-binary", "llama-cpp-python", LLAMA_CPP], env=variables)
    return python


def candle(isa):
    """The candle program for the instruction set."""
    target = cache() / f"candle-{isa}"
    say(f"building candle for {isa} in {target}")
    variables = dict(os.environ, CARGO_TARGET_DIR=str(target), RUSTFLAGS=RUSTFLAGS[isa])
    run(["cargo", "build", "--release", "--locked", "--manifest-path", HERE / "candle" / "Cargo.toml"], env=variables)
    return target / "release" / ("candle-peer" + (".exe" if os.name == "nt" else ""))


def candor():
    """A release build of this tree."""
    say("building candor")
    run(["cargo", "build", "--release", "-p", "candor-cli"], cwd=ROOT)
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    return target / "release" / ("candor.exe" if os.name == "nt" else "candor")


def tests(args):
    """The tests in the peers' words."""
    if args.gen == 0:
        return [f"pp{count}" for count in args.prompt]
    decodes = [f"tg{args.gen}"] + [f"tg{args.gen}@{depth}" for depth in args.depth]
    return [f"pp{count}" for count in args.prompt] + decodes


class Candor:
    def __init__(self, args):
        self.args, self.facts, self.binary = args, {}, args.candor or candor()
        self.environment = dict(os.environ)
        self.environment.pop("CANDOR_ISA", None)
        if args.isa != "native":
            self.environment["CANDOR_ISA"] = args.isa

    def bench(self, model, *tests):
        command = [self.binary, "bench", model, *tests, "-r", 1, "-t", self.args.threads, "-o", "json"]
        results = json.loads(run(command, env=self.environment))
        self.facts = results[0]
        return {test["test"].replace(" @ d", "@"): test["samples_ns"][0] for test in results}

    def measure(self, model):
        prompts = ",".join(map(str, self.args.prompt))
        times = self.bench(model, "-p", prompts, "-n", self.args.gen)
        depths = ",".join(map(str, self.args.depth))
        deep = depths and self.args.gen > 0
        return times | (self.bench(model, "-p", 0, "-n", self.args.gen, "-d", depths) if deep else {})

    def label(self):
        version = run([self.binary, "--version"]).strip()
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
        dirty = subprocess.run(["git", "-C", ROOT, "status", "--porcelain"], capture_output=True, text=True).stdout
        state = ("a binary beside " if self.args.candor else "") + f"commit {commit.stdout.strip()}"
        return f"{version} ({state}{' with changes' if dirty.strip() else ''}), {self.facts['isa']}"


class LlamaCpp:
    def __init__(self, args, flash):
        self.args, self.flash, self.facts = args, flash, {}
        self.python = interpreter(args.venv) if args.venv else environment(args.isa)

    def measure(self, model):
        script = HERE / "llama_cpp_peer.py"
        times = json.loads(run([self.python, script, model, self.args.threads, self.flash, *tests(self.args)]))
        self.facts = {key: times.pop(key) for key in ("version", "system")}
        return times

    def label(self):
        features = [word.removesuffix(" = 1") for word in self.facts["system"].split(" | ") if word.endswith(" = 1")]
        return f"{self.facts['version']}, {' '.join(features).removeprefix('CPU : ')}"


class Candle:
    def __init__(self, args):
        self.args, self.binary, self.facts = args, candle(args.isa), {}

    def measure(self, model):
        variables = dict(os.environ, RAYON_NUM_THREADS=str(self.args.threads))
        times = json.loads(run([self.binary, model, *tests(self.args)], env=variables))
        self.facts = {"ran": True}
        return times

    def label(self):
        lock = (HERE / "candle" / "Cargo.lock").read_text()
        version = lock.split('name = "candle-core"\nversion = "')[1].split('"')[0]
        return f"candle {version}, {RUSTFLAGS[self.args.isa]}"


def tokens(test):
    return int(test.partition("@")[0][2:])


def speed(rounds, program, test):
    """Tokens per second in each round."""
    return [1e9 * tokens(test) / times[program][test] for times in rounds]


def measure(model, programs, args):
    """Rounds of the times of every program on a file; programs that cannot run it are left out and said."""
    able, rounds = dict(programs), []
    for number in range(args.rounds):
        times = {}
        # The order turns, so that no program always runs on a machine that another has warmed.
        names = list(able)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            try:
                times[name] = able[name].measure(model)
            except SystemExit as error:
                if name == "candor" or number > 0:
                    raise
                say(f"{name} does not run {model.name}: {str(error).strip().splitlines()[-1]}")
                able.pop(name)
        rounds.append(times)
        say(f"{model.name}: round {number + 1} of {args.rounds}")
    return rounds


def compared(rounds, peer, test):
    """A peer's cells: its speed, and the median of the rounds' ratios with their range; empty if it did not run."""
    median = lambda program: statistics.median(speed(rounds, program, test))
    best = max((name for name in rounds[0] if name.startswith(peer)), key=median, default=None)
    if best is None:
        return ["", ""]
    pairs = zip(speed(rounds, "candor", test), speed(rounds, best, test))
    ratios = sorted(ours / theirs for ours, theirs in pairs)
    flavour = best.removeprefix(peer).strip()
    note = f" (fa {flavour})" if flavour else ""
    return [f"{median(best):.1f}{note}", f"**{statistics.median(ratios):.2f}** ({ratios[0]:.2f} to {ratios[-1]:.2f})"]


def table(models, args):
    """Heading and rows: file, test, Candor's speed, and each peer's with the ratio."""
    peers = args.peers.split(",")
    rows = [["file", "test", "Candor, t/s"] + [cell for peer in peers for cell in (f"{peer}, t/s", "ratio")]]
    rows.append(["---"] * 2 + ["---:"] * (1 + 2 * len(peers)))
    for model, rounds in models.items():
        # An encoder has prompts alone.
        for test in (test for test in tests(args) if test in rounds[0]["candor"]):
            ours = statistics.median(speed(rounds, "candor", test))
            theirs = [cell for peer in peers for cell in compared(rounds, peer, test)]
            rows.append([model.name, test.replace("@", " @ d"), f"{ours:.1f}", *theirs])
    return rows


def page(programs, rows, args):
    machine = f"{programs['candor'].facts['cpu_info']}, {os.cpu_count()} processors, {platform.system()}"
    # Both flavours of llama.cpp are one program.
    labels = list(dict.fromkeys(program.label() for program in programs.values() if program.facts))
    how = f"{args.threads} threads, {args.rounds} rounds in turn, --isa {args.isa}, {time.strftime('%Y-%m-%d')}"
    lines = [f"Machine: {machine}. {how}.", "", *(f"- {label}" for label in labels), ""]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, got {number}")
    return number


def counts(text):
    return [positive(word) for word in text.split(",") if word]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL.gguf")
    parser.add_argument("--candor", type=Path, help="a binary instead of a build of this tree")
    parser.add_argument("--isa", choices=["native", "avx2"], default="native", help="what all programs may use")
    parser.add_argument("--venv", type=Path, help="an environment with llama-cpp-python built for that instruction set")
    parser.add_argument("--peers", default="llama.cpp,candle", help="programs to compare with (default: %(default)s)")
    parser.add_argument("-t", "--threads", type=positive, default=2)
    parser.add_argument("-p", "--prompt", type=counts, default=[512, 2048], help="prompts (default: 512,2048)")
    parser.add_argument("-n", "--gen", type=int, default=64, help="tokens to decode (default: %(default)s), 0 for none")
    parser.add_argument("-d", "--depth", type=counts, default=[1536], help="depths, besides 0 (default: 1536)")
    parser.add_argument("-r", "--rounds", type=positive, default=5)
    parser.add_argument("--out", type=Path, help="write the page to a file, too")
    args = parser.parse_args()
    programs = {"candor": Candor(args)}
    for peer in args.peers.split(","):
        if peer == "llama.cpp":
            programs |= {f"llama.cpp {flash}": LlamaCpp(args, flash) for flash in ("on", "off")}
        elif peer == "candle":
            programs["candle"] = Candle(args)
        else:
            parser.error(f"--peers: expected llama.cpp or candle, got {peer}")
    models = {model: measure(model, programs, args) for model in args.models}
    text = page(programs, table(models, args), args)
    print(text, end="")
    if args.out:
        args.out.write_text(text)


if __name__ == "__main__":
    main()
