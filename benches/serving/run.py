#!/usr/bin/env python3
"""Time `candor serve` and llama-server in turn, with the same requests, and print a Markdown page.

usage: run.py MODEL --candor FILE [--llama-server FILE] [--threads N] [--clients 1,4,16,64] [--rounds 5] [--out PAGE]

All prompts are random ids, all answers as long as asked for, and chosen greedily. Nothing but Python's library is needed.

- Throughput: as many clients at once, each with a prompt of its own; tokens of all answers by the time from the first request to
  the last token; and of the time in which all of them write.
- Gaps: four streams are written, a long prompt arrives, and soon after it a short one. The gaps between tokens of the four, while the
  long prompt is read; and when the short one has its first token.
- Prefix: the long prompt's first token, cold, and of a prompt that goes on from it.
"""

import argparse
import asyncio
import json
import random
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field

LONG = 2000
STREAMS = 4


@dataclass
class Figures:
    """Of one program: a list of rounds for each figure."""

    rounds: dict = field(default_factory=dict)

    def add(self, name, value):
        self.rounds.setdefault(name, []).append(value)


class Server:
    """A program that serves, on a port of its own."""

    def __init__(self, command, model, threads, parallel, context):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        flags = ["-m", model, "--port", str(self.port), "-t", str(threads), "-np", str(parallel), "-c", str(parallel * context)]
        self.process = subprocess.Popen(command + flags, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    async def ready(self):
        while True:
            try:
                reader, _ = await self.send("GET", "/health")
                if b" 200 " in await reader.readline():
                    return
            except ConnectionError:
                pass
            if self.process.poll() is not None:
                sys.exit(f"{self.process.args[0]} ended")
            await asyncio.sleep(0.1)

    async def send(self, method, path, body=b""):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return reader, writer

    async def answer(self, prompt, tokens, arrived=None):
        """The times at which tokens arrived."""
        # A piece of a character is kept back by llama-server until the rest comes: none is chosen.
        bytes_alone = [[token, False] for token in range(3, 259)]
        body = {"prompt": prompt, "n_predict": tokens, "ignore_eos": True, "temperature": 0}
        body.update({"stream": True, "logit_bias": bytes_alone})
        reader, writer = await self.send("POST", "/completion", json.dumps(body).encode())
        times = arrived if arrived is not None else []
        written = 0
        async for line in reader:
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                written = max(written, event.get("tokens_predicted", 0))
                times.append(time.perf_counter())
        writer.close()
        if written != tokens:
            sys.exit(f"{self.process.args[0]}: {written} tokens of {tokens}, {reader}")
        return times

    def end(self):
        self.process.terminate()
        self.process.wait()


def prompt(rng, length):
    return [rng.randrange(300, 30_000) for _ in range(length)]


async def throughput(server, clients, rng, args):
    """Tokens by the time from the first request to the last token; and by the time in which all write."""
    prompts = [prompt(rng, args.prompt) for _ in range(clients)]
    begun = time.perf_counter()
    times = await asyncio.gather(*(server.answer(ids, args.tokens) for ids in prompts))
    first, last = max(one[0] for one in times), min(one[args.tokens - 1] for one in times)
    # Each stream between two of its own tokens: a step's tokens, counted up to the first of them, would lack the others.
    inside = [[at for at in one[: args.tokens] if first <= at <= last] for one in times]
    writing = sum((len(one) - 1) / (one[-1] - one[0]) for one in inside) if all(len(one) > 1 for one in inside) else None
    whole = clients * args.tokens / (max(max(one) for one in times) - begun)
    return whole, writing


def bench(clients, args):
    """What `candor bench -B` says of as many sequences, as deep in their texts."""
    depth = args.prompt + args.tokens // 2
    flags = ["-t", args.threads, "-p", 0, "-n", args.tokens, "-d", depth, "-B", clients, "-r", 1, "-o", "json"]
    out = subprocess.run([args.candor, "bench", args.model, *map(str, flags)], check=True, capture_output=True).stdout
    return next(test["avg_ts"] for test in json.loads(out) if test["n_gen"])


async def company(server, rng, figures):
    first = lambda times, begun: times[0] - begun
    long = prompt(rng, LONG)
    begun = time.perf_counter()
    cold = first(await server.answer(long, 1), begun)
    begun = time.perf_counter()
    warm = first(await server.answer(long + prompt(rng, 8), 1), begun)
    figures.add("a prompt of 2,000 tokens, first token, s", cold)
    figures.add("the same prefix once more, share of cold", warm / cold)
    streams = [[] for _ in range(STREAMS)]
    tasks = [asyncio.create_task(server.answer(prompt(rng, 16), 300, times)) for times in streams]
    while any(len(times) < 4 for times in streams):
        await asyncio.sleep(0.01)
    begun = time.perf_counter()
    reading = asyncio.create_task(server.answer(prompt(rng, LONG), 1))
    await asyncio.sleep(0.5)
    asked = time.perf_counter()
    short = first(await server.answer(prompt(rng, 8), 1), asked)
    read = (await reading)[0]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    # The gap that lasts at either end counts as far as it does.
    gaps = []
    for times in streams:
        inside = [begun] + [at for at in times if begun < at < read] + [read]
        gaps += [after - before for before, after in zip(inside, inside[1:])]
    gaps.sort()
    figures.add("gap of running streams while a prompt of 2,000 is read, p99, s", gaps[min(len(gaps) - 1, int(0.99 * len(gaps)))])
    figures.add("first token of a prompt of 8 behind it, s", short)
    figures.add("first token of the prompt of 2,000 beside four streams, s", read - begun)


async def measure(args):
    programs = {"Candor": [args.candor, "serve", "--no-verify"]}
    if args.llama_server:
        programs["llama.cpp"] = [args.llama_server]
    found = {name: Figures() for name in programs}
    for number in range(args.rounds):
        for clients in args.clients:
            for name, command in programs.items():
                server = Server(command, args.model, args.threads, clients, args.prompt + args.tokens + 64)
                await server.ready()
                rng = random.Random(number)
                await server.answer(prompt(rng, 4), 2)
                label = f"{clients} clients" if clients > 1 else "1 client"
                whole, writing = await throughput(server, clients, rng, args)
                server.end()
                found[name].add(f"{label}, t/s", whole)
                if writing:
                    found[name].add(f"{label}, while all write, t/s", writing)
                if writing and args.bench and name == "Candor":
                    found[name].add(f"{label}, share of `candor bench -B {clients}`", writing / bench(clients, args))
        if args.company:
            for name, command in programs.items():
                server = Server(command, args.model, args.threads, STREAMS + 2, LONG + 400)
                await server.ready()
                await company(server, random.Random(number), found[name])
                server.end()
        # What there is if the rest is cut off.
        if args.out:
            with open(args.out, "w") as out:
                out.write(page(found))
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
    return found


def page(found):
    ours, theirs = found["Candor"].rounds, found.get("llama.cpp", Figures()).rounds
    lines = ["| | Candor | llama.cpp | median ratio |", "| --- | --- | --- | --- |"]
    for name in ours:
        shown = [", ".join(f"{value:.3g}" for value in side.get(name, [])) for side in (ours, theirs)]
        ratios = [a / b for a, b in zip(ours[name], theirs.get(name, []))]
        # Of what Candor alone has, the figure itself.
        median = statistics.median(ratios or ours[name])
        lines.append(f"| {name} | {shown[0]} | {shown[1]} | {median:.2f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--candor", default="target/release/candor")
    parser.add_argument("--llama-server", help="without it, Candor alone is measured")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clients", type=lambda text: [int(part) for part in text.split(",") if part], default=[1, 4, 16, 64])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=16, help="tokens of a client's prompt")
    parser.add_argument("--tokens", type=int, default=32, help="tokens of an answer")
    parser.add_argument("--bench", action="store_true", help="hold decoding against `candor bench -B` at the same depth, too")
    parser.add_argument("--no-company", dest="company", action="store_false", help="throughput alone")
    parser.add_argument("--out")
    args = parser.parse_args()
    text = page(asyncio.run(measure(args)))
    print(text, end="")


if __name__ == "__main__":
    main()
