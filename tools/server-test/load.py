#!/usr/bin/env python3
"""Load a server with clients of every manner, and hold each answer against what `candor run` says alone.

usage: load.py CANDOR [REQUESTS] [CLIENTS]

Clients leave in the middle, read slowly, send bodies that are too large or no JSON. At the end the server is asked to stop under
load: what runs is answered first. Nothing but Python's library is needed.
"""

import asyncio
import json
import random
import re
import signal
import subprocess
import sys
import time

PROMPTS = ["Once upon a time", "The little dog", "What is the sky", "One day, a girl named", "Hello", "A", "In the garden there was a"]
# Memory is looked at after each fifth of the requests: what the first brings is not growth.
PARTS = 5
MOST_GROWTH = 0.05


def cases():
    """Requests with what is said to them alone."""
    made = []
    for number, prompt in enumerate(PROMPTS):
        for temperature in (0, 0.9):
            tokens = 8 + 11 * number % 40
            made.append({"prompt": prompt, "max_tokens": tokens, "temperature": temperature, "seed": 100 + number})
    return made


def alone(candor, case):
    flags = ["--raw", "-p", case["prompt"], "-n", str(case["max_tokens"]), "--temp", str(case["temperature"])]
    command = [candor, "run", *flags, "--seed", str(case["seed"])]
    # What ends on a terminal's line gets one end of line more.
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.rstrip("\n")


class Server:
    def __init__(self, candor, parallel):
        command = [candor, "serve", "--port", "0", "-np", str(parallel), "-c", str(256 * parallel)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"http://([\d.]+):(\d+)", line):
                self.host, self.port = found[1], int(found[2])
            if line.startswith("ready"):
                break

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    async def ask(self, body, length=None):
        reader, writer = await asyncio.open_connection(self.host, self.port)
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {self.host}\r\nConnection: close\r\nContent-Length: {length or len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        return reader, writer


def text_of(reply):
    """The text of an answer, and whether it has its end."""
    head, _, body = reply.partition(b"\r\n\r\n")
    if b"text/event-stream" not in head:
        return json.loads(body)["choices"][0]["text"], True
    events = [line[6:] for line in body.split(b"\n") if line.startswith(b"data: ")]
    pieces = [json.loads(event)["choices"][0]["text"] for event in events if event.strip() != b"[DONE]"]
    return "".join(pieces), events[-1].strip() == b"[DONE]"


def status_of(reply):
    return int(reply.split(b" ", 2)[1])


async def client(server, known, left, counts, rng):
    while left:
        left.pop()
        case, expected = rng.choice(known)
        kind = rng.choices(["whole", "stream", "leaves", "slow", "large", "broken"], [40, 40, 8, 5, 4, 3])[0]
        counts[kind] = counts.get(kind, 0) + 1
        body = json.dumps({**case, "stream": kind not in ("whole", "broken")}).encode()
        if kind == "large":
            reader, writer = await server.ask(body, 1 << 30)
            assert status_of(await reader.read()) == 413
        elif kind == "broken":
            reader, writer = await server.ask(body[: rng.randrange(len(body))])
            assert status_of(await reader.read()) == 400
        elif kind == "leaves":
            reader, writer = await server.ask(body)
            await reader.read(rng.randrange(1, 2000))
        else:
            reader, writer = await server.ask(body)
            reply = b""
            while piece := await reader.read(256 if kind == "slow" else 1 << 16):
                reply += piece
                if kind == "slow":
                    await asyncio.sleep(0.01)
            assert status_of(reply) == 200, reply
            text, ended = text_of(reply)
            assert ended and text.rstrip("\n") == expected, f"{case}: expected {expected!r}, got {text!r}"
        writer.close()


async def stopped(server, known):
    """Asks the server to stop while it answers: every answer comes to its end."""
    asked = [await server.ask(json.dumps({**case, "stream": True}).encode()) for case, _ in known]
    first = await asyncio.gather(*(reader.readuntil(b"data: ") for reader, _ in asked[:2]))
    server.process.send_signal(signal.SIGTERM)
    rest = await asyncio.gather(*(reader.read() for reader, _ in asked))
    replies = [first[n] + reply if n < len(first) else reply for n, reply in enumerate(rest)]
    answered = 0
    for (case, expected), reply in zip(known, replies):
        # One that came after the signal is refused.
        if status_of(reply) == 200:
            text, ended = text_of(reply)
            assert ended and text.rstrip("\n") == expected, f"{case}: expected {expected!r}, got {text!r}"
            answered += 1
    assert server.process.wait(30) == 0, server.process.returncode
    return answered


async def main():
    candor = sys.argv[1]
    requests, clients = [int(value) for value in (sys.argv[2:4] + ["10000", "64"][len(sys.argv[2:4]):])]
    known = [(case, alone(candor, case)) for case in cases()]
    server = Server(candor, 8)
    counts, started = {}, time.time()
    try:
        # The cache is touched as a whole once, which would else come little by little.
        long = json.dumps({"prompt": "Once", "max_tokens": 250, "ignore_eos": True}).encode()
        filled = await asyncio.gather(*[server.ask(long) for _ in range(16)])
        await asyncio.gather(*(reader.read() for reader, _ in filled))
        sizes = []
        for part in range(PARTS):
            left = [None] * (requests // PARTS)
            await asyncio.gather(*(client(server, known, left, counts, random.Random(64 * part + n)) for n in range(clients)))
            sizes.append(server.memory())
        grown = sizes[-1] / sizes[0] - 1
        seconds = time.time() - started
        print(f"{sum(counts.values())} requests of {clients} clients in {seconds:.0f} s, each answer as it is alone: {counts}")
        print(f"memory after each fifth: {', '.join(f'{size / 1024:.1f}' for size in sizes)} MiB, {grown:+.1%} since the first")
        assert grown < MOST_GROWTH, grown
        answered = await stopped(server, known)
        print(f"SIGTERM under load: {answered} of {len(known)} answered to their end, the rest refused; the server ended with 0")
    finally:
        server.process.kill()


asyncio.run(main())
