"""Holds lm-eval's perplexity of a text, by `candor serve`, against that of `candor perplexity`.

usage: scores.py CANDOR

`candor perplexity` cuts the tokens of a text into windows of N, puts BOS in place of each window's first token, and scores the
tokens behind the first N / 2 + 1. lm-eval scores texts behind texts, and makes tokens of both together. So the text is made
of words of which each is a token or more by itself, and filled up with short ones so that a window ends where a word does, and
so does its scored half's beginning. Then both see the same tokens, which is checked. lm-eval's `perplexity` has the sum of a
window as one item: its logarithm divided by the scored tokens of a window is that of `candor perplexity`.
"""

import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib import request

FIXTURES = Path(os.environ["CANDOR_FIXTURES"])
MODEL, TEXT = FIXTURES / "models" / "stories260K-f32.gguf", FIXTURES / "text" / "shakespeare-30k.txt"
WINDOW, WINDOWS, FILLER = 128, 12, "a"


def ask(base, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    asked = request.Request(base + path, data, {"Content-Type": "application/json"})
    with request.urlopen(asked, timeout=60) as reply:
        return json.load(reply)


def started(candor):
    """A server, and its address."""
    line = [candor, "serve", str(MODEL), "--port", "0", "-c", str(4 * 2 * WINDOW), "--gpu-layers", "0"]
    server = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    for said in server.stderr:
        if found := re.search(r"http://\S+:\d+", said):
            base = found[0]
            break
    else:
        sys.exit("the server does not say its address")
    while True:
        try:
            ask(base, "/health")
            return server, base
        except OSError:
            time.sleep(0.1)


def windows(base):
    """The words of each window in two parts, of which the second is scored."""
    words = re.findall("[A-Za-z]+", TEXT.read_text())
    known = {}

    def size(word):
        if word not in known:
            known[word] = len(ask(base, "/tokenize", {"content": f"a {word}"})["tokens"]) - alone
        return known[word]

    alone = len(ask(base, "/tokenize", {"content": "a"})["tokens"])
    assert size(FILLER) == 1, "the filler is several tokens"
    words = iter(words)

    def part(tokens):
        taken = []
        while tokens:
            word = next(words)
            taken.append(word if size(word) <= tokens else FILLER)
            tokens -= size(taken[-1])
        return taken

    scored = WINDOW - WINDOW // 2 - 1
    return [(part(WINDOW // 2), part(scored)) for _ in range(WINDOWS)], scored


def score(base, folder, tokenized):
    task = (Path(__file__).parent / "scores.yaml").read_text().replace("WINDOWS", str(folder / "windows.json"))
    (folder / "task").mkdir(exist_ok=True)
    (folder / "task" / "task.yaml").write_text(task)
    arguments = {
        "model": "stories",
        "base_url": f"{base}/v1/completions",
        "tokenizer_backend": "remote",
        "tokenized_requests": tokenized,
        "num_concurrent": 4,
        "max_length": 2 * WINDOW,
    }
    out = folder / f"out-{tokenized}"
    line = [sys.executable, "-m", "lm_eval", "run", "--model", "local-completions", "--tasks", "candor_windows"]
    line += ["--include_path", str(folder / "task"), "--output_path", str(out), "--log_samples"]
    line += ["--model_args", ",".join(f"{name}={value}" for name, value in arguments.items())]
    quiet = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder), "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(line, env=os.environ | quiet, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    results = json.loads(next(out.rglob("results_*.json")).read_text())
    return results["results"]["candor_windows"]["perplexity,none"]


def main():
    candor = sys.argv[1]
    server, base = started(candor)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            parts, scored = windows(base)
            # Each window but the first has one token more in front, in whose place BOS comes.
            text = f" {FILLER} ".join(" ".join(first + second) for first, second in parts)
            (folder / "text.txt").write_text(text)
            lines = [{"first": "<s>" + " ".join(first), "second": " " + " ".join(second)} for first, second in parts]
            (folder / "windows.json").write_text("\n".join(json.dumps(line) for line in lines))
            tokens = ask(base, "/tokenize", {"content": text, "add_special": True, "parse_special": False})["tokens"]
            assert len(tokens) == WINDOW * WINDOWS, f"{len(tokens)} tokens"
            for n, line in enumerate(lines):
                own = ask(base, "/tokenize", {"content": line["first"] + line["second"]})["tokens"]
                assert own == tokens[:1] + tokens[n * WINDOW + 1 : (n + 1) * WINDOW], f"window {n} has other tokens"
            found = {tokenized: score(base, folder, tokenized) for tokenized in (True, False)}
        finally:
            server.terminate()
            server.wait()
        line = [candor, "perplexity", str(MODEL), "-f", str(folder / "text.txt"), "-c", str(WINDOW), "--gpu-layers", "0"]
        said = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    expected = float(re.search(r"PPL = ([0-9.]+)", said)[1])
    for tokenized, value in found.items():
        value = math.exp(math.log(value) / scored)
        print(f"lm-eval, {'tokens' if tokenized else 'texts'}: {value:.4f}; candor perplexity: {expected:.4f}")
        # The command prints four decimals.
        assert abs(value - expected) <= 6e-5, "another perplexity"


main()
