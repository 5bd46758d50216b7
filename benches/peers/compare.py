#!/usr/bin/env python3
"""Candor and llama.cpp on the same file, in turn, and the ratios of their speeds.

usage: compare.py MODEL.gguf [--candor PATH] [-t THREADS] [-p PROMPT_TOKENS] [-n TOKENS] [-r ROUNDS] [--isa avx2]

Needs llama-cpp-python (whose build decides llama.cpp's instruction set) and a release build of candor. Each round runs
Candor, then llama.cpp, each in a process of its own; the medians over the rounds and the median ratio are printed.
"""
import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import time


def llama_cpp(model, threads, prompt, tokens):
    """Prompt and decode speed of llama.cpp in this process, in tokens per second, and its load time."""
    import llama_cpp as ll

    ll.llama_backend_init()
    quiet = ll.llama_log_callback(lambda level, text, user: None)
    ll.llama_log_set(quiet, None)
    started = time.perf_counter()
    loaded = ll.llama_model_load_from_file(model.encode(), ll.llama_model_default_params())
    load = time.perf_counter() - started
    params = ll.llama_context_default_params()
    params.n_ctx = prompt + tokens + 8
    params.n_batch = params.n_ubatch = 512
    params.n_threads = params.n_threads_batch = threads
    context = ll.llama_init_from_model(loaded, params)
    vocab = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(loaded))
    ids = [1 + (i * 7919) % (vocab - 1) for i in range(prompt)]

    def decode(batch_ids):
        array = (ll.llama_token * len(batch_ids))(*batch_ids)
        if ll.llama_decode(context, ll.llama_batch_get_one(array, len(batch_ids))) != 0:
            raise SystemExit("llama_decode failed")
        ll.llama_synchronize(context)

    decode(ids[:8])  # warm
    ll.llama_memory_clear(ll.llama_get_memory(context), True)
    started = time.perf_counter()
    for first in range(0, prompt, 512):
        decode(ids[first : first + 512])
    prompt_speed = prompt / (time.perf_counter() - started)
    started = time.perf_counter()
    for i in range(tokens):
        decode([ids[i % prompt]])
    return prompt_speed, tokens / (time.perf_counter() - started), load


def candor(binary, model, threads, prompt, tokens, isa):
    """The same of Candor, as its `run --verbose` reports them."""
    # Every letter of this alphabet is one token or more in any vocabulary; the report says how many there were.
    text = " ".join("abcdefghijklmnopqrstuvwxyz"[(i * 7) % 26] for i in range(prompt // 2))
    command = [binary, "run", model, "--raw", "-p", text, "-n", str(tokens), "-t", str(threads), "--temp", "0"]
    command += ["--ignore-eos", "--verbose", "-c", str(prompt * 2 + tokens + 8)]
    environment = dict(os.environ, CANDOR_ISA=isa) if isa else os.environ
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    number = lambda pattern: float(re.search(pattern, done.stderr, re.MULTILINE)[1])
    speeds = [number(rf"^{label}: .* ([\d.]+) tok/s") for label in ("prompt", "decode")]
    return *speeds, number(r"^load: ([\d.]+) s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--candor", default="target/release/candor")
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("-p", "--prompt", type=int, default=512)
    parser.add_argument("-n", "--tokens", type=int, default=48)
    parser.add_argument("-r", "--rounds", type=int, default=5)
    parser.add_argument("--isa")
    parser.add_argument("--only-llama-cpp", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only_llama_cpp:
        print(json.dumps(llama_cpp(args.model, args.threads, args.prompt, args.tokens)))
        return
    rows = []
    for number in range(args.rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        ours = candor(args.candor, args.model, args.threads, args.prompt, args.tokens, args.isa)
        memory = max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) if number == 0 else None
        again = [sys.executable, __file__, args.model, "-t", str(args.threads), "-p", str(args.prompt)]
        again += ["-n", str(args.tokens), "--only-llama-cpp"]
        theirs = json.loads(subprocess.run(again, capture_output=True, text=True, check=True).stdout)
        rows.append((ours, theirs))
        if memory:
            print(f"peak memory of candor: {memory / 1024:.0f} MiB (file {os.path.getsize(args.model) / 2**20:.0f} MiB)")
        print(f"round {number + 1}: candor {ours[0]:.1f} / {ours[1]:.2f}, llama.cpp {theirs[0]:.1f} / {theirs[1]:.2f}")
    for index, name in enumerate(["prompt tok/s", "decode tok/s"]):
        a, b = (statistics.median(row[side][index] for row in rows) for side in (0, 1))
        ratio = statistics.median(row[0][index] / row[1][index] for row in rows)
        print(f"{name}: candor {a:.2f}, llama.cpp {b:.2f}, ratio {ratio:.2f}")
    print(f"load: candor {statistics.median(row[0][2] for row in rows) * 1000:.0f} ms")


if __name__ == "__main__":
    main()
