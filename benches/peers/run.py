#!/usr/bin/env python3
"""Candor, llama.cpp and candle on the same files, in turn, and the ratios of their speeds as a Markdown table.

usage: run.py MODEL.gguf... [--device cpu|gpu|NAME] [--isa native|avx2] [-t THREADS] [-r ROUNDS] [--out FILE]

On the processor (--device cpu, the default) Candor meets llama.cpp and candle; on a GPU (--device gpu, or the name that
`candor devices` gives it) llama.cpp's Vulkan build, with CUDA's beside it where nvcc is at hand, or Metal's on macOS.
All layers lie on the GPU, and a llama.cpp that puts fewer there is not compared with.

Needs Python 3.10, Rust, CMake and a C++ compiler; for Vulkan its headers, SPIR-V's and glslc. Candor is built from this
tree, unless --candor names a binary. The peers lie under $CANDOR_PEERS (a folder candor-peers in the user's cache if
unset) and are built when they are first needed; --llama-bench names a llama-bench that is there already.

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
import time
from pathlib import Path

from llama_cpp import BACKENDS, LlamaBench, build, cache, run, say

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# What a build for AVX2 is allowed to use, in rustc's words.
RUSTFLAGS = {"native": "-C target-cpu=native", "avx2": "-C target-feature=+avx,+avx2,+fma,+f16c,+bmi2"}


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
        self.args, self.facts, self.shares, self.binary = args, {}, {}, args.candor or candor()
        self.environment = dict(os.environ)
        self.environment.pop("CANDOR_ISA", None)
        if args.isa != "native":
            self.environment["CANDOR_ISA"] = args.isa

    def bench(self, model, *tests):
        where = ["-dev", self.args.device, *([] if self.args.device == "cpu" else ["-ngl", "all"])]
        command = [self.binary, "bench", model, *tests, *where, "-r", 1, "-t", self.args.threads, "-o", "json"]
        results = json.loads(run(command, env=self.environment))
        # An encoder has no tests at a depth.
        self.facts = results[0] if results else self.facts
        for test in results:
            shares = [test[share] for share in ("share_of_read", "share_of_peak") if test[share] is not None]
            if shares:
                self.shares.setdefault((str(model), test["test"].replace(" @ d", "@")), []).append(shares[0])
        return {test["test"].replace(" @ d", "@"): test["samples_ns"][0] for test in results}

    def measure(self, model):
        prompts = ",".join(map(str, self.args.prompt))
        times = self.bench(model, "-p", prompts, "-n", self.args.gen)
        depths = ",".join(map(str, self.args.depth))
        deep = depths and self.args.gen > 0
        return times | (self.bench(model, "-p", 0, "-n", self.args.gen, "-d", depths) if deep else {})

    def label(self):
        version = run([self.binary, "--version"]).strip()
        if not shutil.which("git") or not (ROOT / ".git").exists():
            return f"{version} (a binary), {self.what()}"
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
        dirty = subprocess.run(["git", "-C", ROOT, "status", "--porcelain"], capture_output=True, text=True).stdout
        state = ("a binary beside " if self.args.candor else "") + f"commit {commit.stdout.strip()}"
        return f"{version} ({state}{' with changes' if dirty.strip() else ''}), {self.what()}"

    def what(self):
        """What computed, and what it can do at most, as `candor bench` found."""
        facts = self.facts
        what = facts["isa"] if self.args.device == "cpu" else facts["devices"]
        read, peak, limits = facts["read_bytes_per_s"], facts["peak_operations_per_s"], []
        if read is not None:
            limits.append(f"reads {read / 1e9:.0f} GB/s")
        if peak is not None:
            limits.append(f"peak {peak / 1e12:.3g} TOPS")
        return f"{what}: {', '.join(limits)}" if limits else what


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
    flavours = (name for name in rounds[0] if name.rpartition(" ")[0] == peer or name == peer)
    best = max((name for name in flavours if test in rounds[0][name]), key=median, default=None)
    if best is None:
        return ["", ""]
    pairs = zip(speed(rounds, "candor", test), speed(rounds, best, test))
    ratios = sorted(ours / theirs for ours, theirs in pairs)
    flavour = best.removeprefix(peer).strip()
    note = f" (fa {flavour})" if flavour else ""
    return [f"{median(best):.1f}{note}", f"**{statistics.median(ratios):.2f}** ({ratios[0]:.2f} to {ratios[-1]:.2f})"]


def table(models, shares, args):
    """Heading and rows: file, test, Candor's speed, its share of what the device can do, each peer's speed, the ratio."""
    peers = args.peers
    rows = [["file", "test", "Candor, t/s", "share"] + [cell for peer in peers for cell in (f"{peer}, t/s", "ratio")]]
    rows.append(["---"] * 2 + ["---:"] * (2 + 2 * len(peers)))
    for model, rounds in models.items():
        # An encoder has prompts alone.
        for test in (test for test in tests(args) if test in rounds[0]["candor"]):
            ours = statistics.median(speed(rounds, "candor", test))
            theirs = [cell for peer in peers for cell in compared(rounds, peer, test)]
            share = shares.get((str(model), test))
            share = f"{100 * statistics.median(share):.0f} %" if share else ""
            rows.append([model.name, test.replace("@", " @ d"), f"{ours:.1f}", share, *theirs])
    return rows


def driver(candor, device):
    """The lines of `candor devices` that say what a GPU is and with which driver."""
    devices = [found for found in json.loads(run([candor, "devices", "--json"])) if found["name"].startswith("gpu")]
    named = [found for found in devices if found["name"] == device]
    return [f"- {found['name']}: {found['device']}, {found['driver']}" for found in named or devices]


def page(programs, rows, args):
    candor = programs["candor"]
    machine = f"{candor.facts['cpu_info']}, {os.cpu_count()} processors, {platform.system()}"
    # Both flavours of llama.cpp are one program.
    labels = list(dict.fromkeys(program.label() for program in programs.values() if program.facts))
    where = f"--isa {args.isa}" if args.device == "cpu" else f"--device {args.device}, all layers"
    how = f"{args.threads} threads, {args.rounds} rounds in turn, {where}, {time.strftime('%Y-%m-%d')}"
    devices = [] if args.device == "cpu" else driver(candor.binary, args.device)
    share = "The share is of what the device can do: of its read speed in decode, of its peak in prompts."
    lines = [f"Machine: {machine}. {how}. {share}", "", *devices, *(f"- {label}" for label in labels), ""]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, got {number}")
    return number


def counts(text):
    return [positive(word) for word in text.split(",") if word]


def usual_peers(device):
    """Names of what is compared with where nobody says it."""
    if device == "cpu":
        return "llama.cpp,candle"
    if platform.system() == "Darwin":
        return "llama.cpp-metal"
    return "llama.cpp-vulkan" + (",llama.cpp-cuda" if shutil.which("nvcc") else "")


def usual(args):
    """Fills in what depends on the device: tests with which llama.cpp's users compare GPUs, and peers."""
    gpu = args.device != "cpu"
    args.prompt = ([512, 4096] if gpu else [512, 2048]) if args.prompt is None else args.prompt
    args.gen = (128 if gpu else 64) if args.gen is None else args.gen
    args.depth = ([4096] if gpu else [1536]) if args.depth is None else args.depth
    args.peers = (args.peers or usual_peers(args.device)).split(",")


def backend(name, device):
    """The backend that a peer is built for; `None` if it is no llama.cpp for that device."""
    program, _, backend = name.partition("-")
    backend = backend or "cpu"
    builds = program == "llama.cpp" and backend in BACKENDS and (backend == "cpu") == (device == "cpu")
    return backend if builds else None


def known(name, args):
    """Whether there is such a peer on the device."""
    given, builds = name in dict(args.llama_bench), backend(name, args.device)
    return bool(given or builds or (name == "candle" and args.device == "cpu"))


def peer(name, args):
    """The programs of a known peer, by their names in tables; none, and said, if it cannot be built."""
    try:
        given = dict(args.llama_bench).get(name)
        if not given and name == "candle":
            return {name: Candle(args)}
        binary = given or build(backend(name, args.device), args.isa)
    except (SystemExit, OSError) as error:
        say(f"{name} is left out: {error}")
        return {}
    flashes = ("on", "off") if args.flash == "both" else (args.flash,)
    return {f"{name} {flash}": LlamaBench(binary, args, flash) for flash in flashes}


def program(text):
    """A program's path: never a name that is looked for in the path."""
    path = Path(text).absolute()
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return path


def named(text):
    """`NAME=FILE`, or a FILE that is `llama.cpp`: a path may have a `=`, a name has no separator of paths."""
    name, equals, file = text.partition("=")
    if equals and name and not {os.sep, os.altsep} & set(name):
        return name, program(file)
    return "llama.cpp", program(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL.gguf")
    parser.add_argument("--candor", type=program, help="a binary instead of a build of this tree")
    parser.add_argument("-dev", "--device", default="cpu", help="cpu, gpu, or one of `candor devices`")
    parser.add_argument("--isa", choices=["native", "avx2"], default="native", help="what processors may use")
    parser.add_argument("--llama-bench", type=named, action="append", default=[], metavar="[NAME=]FILE",
                        help="a llama-bench instead of a build for the peer NAME (default: llama.cpp); then the peers "
                        "are these, and on the processor candle")
    parser.add_argument("--llama-device", help="llama.cpp's name for the device (Vulkan1; default: its own choice)")
    parser.add_argument("--peers", help="programs to compare with: llama.cpp and candle; on GPUs llama.cpp-vulkan, "
                        "llama.cpp-cuda, llama.cpp-metal, or names of --llama-bench")
    parser.add_argument("--flash", choices=["on", "off", "both"], default="both", help="llama.cpp's flash attention")
    parser.add_argument("-t", "--threads", type=positive, default=2)
    parser.add_argument("-p", "--prompt", type=counts, help="prompts (default: 512,2048; on GPUs 512,4096)")
    parser.add_argument("-n", "--gen", type=int, help="tokens to decode (default: 64; on GPUs 128), 0 for none")
    parser.add_argument("-d", "--depth", type=counts, help="depths, besides 0 (default: 1536; on GPUs 4096)")
    parser.add_argument("-r", "--rounds", type=positive, default=5)
    parser.add_argument("--out", type=Path, help="write the page to a file, too")
    args = parser.parse_args()
    if args.llama_bench and not args.peers:
        beside = ["candle"] if args.device == "cpu" else []
        args.peers = ",".join([*(name for name, _ in args.llama_bench), *beside])
    usual(args)
    for name in args.peers:
        if not known(name, args):
            parser.error(f"--peers: there is no {name} on {args.device}")
    programs = {"candor": Candor(args)}
    for name in args.peers:
        programs |= peer(name, args)
    if len(programs) == 1:
        raise SystemExit("no peer is there: there is nothing to compare with")
    models = {model: measure(model, programs, args) for model in args.models}
    text = page(programs, table(models, programs["candor"].shares, args), args)
    print(text, end="")
    if args.out:
        args.out.write_text(text)
    if all(not program.facts for name, program in programs.items() if name != "candor"):
        raise SystemExit("no peer ran: there is nothing to compare with")


if __name__ == "__main__":
    main()
