"""Write the corpus: healthy runs in many ways of computing and storing, and runs with each fault.

    python tools/instrument/corpus.py --fixtures FIXTURES --out CORPUS --holdout HELD_OUT
    python tools/instrument/corpus.py --fixtures FIXTURES --out CORPUS --holdout HELD_OUT --partial

A case is a folder with case.json and a dump. Faults that are held out go to the second folder, with their names.toml.
"""

import argparse
import hashlib
import json
import shutil
import tomllib
from pathlib import Path

import numpy as np

from engine import ENLARGED, FIXTURES, build, enlarge, model_file
from engine.dump import write_log, write_safetensors
from faults import FAULTS, SECOND, THIRD, held_out

PROMPT, DECODE = 12, 4
VISIBLE, SEEN = 5e-3, 1e-3
PAIRS = 20
MAKER = "numpy"

# Ways of computing, and in what their values are stored.
COMPUTED = {"f32": "f32", "q8": "f32", "q8-f32-scale": "f32", "bf16": "bf16", "f16": "f16", "tf32": "f32",
            "kv-f16": "f32"}
SUBSETS = {
    "all": lambda name: True,
    "first-eight": lambda name: True,
    "layer-outputs": lambda name: name.startswith("l_out") or name in ("result_output", "result_embd"),
    "logits": lambda name: name in ("result_output", "result_embd"),
    "layer-outputs-first-eight": lambda name: name.startswith("l_out") or name in ("result_output", "result_embd"),
}
# How little of a run with a fault is known in a corpus of partial evidence.
PARTIAL = ("layer-outputs", "logits", "layer-outputs-first-eight")
# The row that logs print, and how many of its numbers.
LOGGED, EIGHT = 3, 8


# Wirings that are run with all positions one later, too: no score knows the difference.
SHIFTED = "llama qwen3 gemma2 gptneox glm4 phi3 stablelm deepseek2-v2".split()


def shift(e):
    """Rotate q and k by one position more."""
    inner = e.rotate
    e.rotate = lambda il, x, positions, part: inner(il, x, positions + 1, part)


class Bench:
    """Runs wirings and writes cases."""

    def __init__(self, fixtures, out, holdout, open_to_all):
        self.fixtures, self.roots = fixtures, (out, holdout)
        self.out, self.holdout = (root.with_name(root.name + ".new") for root in self.roots)
        self.models = {w: model_file(w, fixtures) for w in FIXTURES}
        (out / "models").mkdir(parents=True, exist_ok=True)
        for wiring in ENLARGED:
            self.models[wiring] = out / "models" / f"{wiring}.gguf"
            enlarge(wiring, fixtures, self.models[wiring])
        self.open_to_all = open_to_all
        self.counts = {"healthy": 0, "sick": 0, "held out": 0, "pairs": 0}
        self.dropped = []

    def hides(self, id):
        """Say whether a fault is held out."""
        return not self.open_to_all and held_out(id)

    def publish(self, wirings):
        """Put the new cases in the place of the old ones."""
        for root, new in zip(self.roots, (self.out, self.holdout)):
            (root / MAKER).mkdir(parents=True, exist_ok=True)
            for wiring in wirings:
                shutil.rmtree(root / MAKER / wiring, ignore_errors=True)
                if (new / MAKER / wiring).exists():
                    (new / MAKER / wiring).rename(root / MAKER / wiring)
            shutil.rmtree(new, ignore_errors=True)

    def prompt(self, wiring):
        """Return the tokens of a prompt."""
        folder = FIXTURES[ENLARGED[wiring][0] if wiring in ENLARGED else wiring][0]
        return json.loads((self.fixtures / "arch" / folder / "tokens.json").read_text())["tokens"][:PROMPT]

    def run(self, wiring, arithmetic="f32", plants=(), ids=None):
        """Run a wiring with faults, along `ids` where they are given; return the tokens and the values."""
        engine = build(wiring, self.models[wiring], arithmetic)
        for plant in plants:
            plant(engine)
        prompt = self.prompt(wiring)
        decode = DECODE if engine.causal else 0
        with np.errstate(all="ignore"):
            tokens = engine.run(prompt, decode, forced=ids[len(prompt):] if ids else ())
        values = engine.dump()
        torn = [name for name, x in values.items() if len(x) != len(tokens)]
        assert not torn, f"{wiring}: not a row for each token: {torn}"
        return tokens, values

    def write(self, root, case, wiring, tokens, values, storage, subset="all"):
        """Write one case."""
        folder = root / case["id"]
        folder.mkdir(parents=True, exist_ok=True)
        prompt = len(self.prompt(wiring))
        metadata = {"tokens": json.dumps(tokens), "prompt_tokens": str(prompt)}
        case = {"id": case["id"], "maker": MAKER, "wiring": wiring, "model": str(self.models[wiring]),
                "dump": "dump.safetensors",
                "args": ["--ids", ",".join(map(str, tokens)), "--prompt-tokens", str(prompt)], **case,
                "storage": storage, "values": subset}
        kept = {name: x for name, x in values.items() if SUBSETS[subset](name)}
        if subset.endswith("first-eight"):
            case["dump"] = "dump.log"
            write_log(folder / "dump.log", kept, LOGGED, EIGHT)
        else:
            write_safetensors(folder / "dump.safetensors", kept, storage, metadata)
        (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")

    def healthy(self, wiring):
        """Write the healthy cases of one wiring."""
        def case(name, says):
            self.counts["healthy"] += 1
            return {"id": f"{MAKER}/{wiring}/healthy/{name}", "faults": [], "says": says, "first": None,
                    "holdout": False}
        plain = self.run(wiring)
        # What half precision cannot hold is not healthy there.
        narrow = all(np.abs(x).max() < np.finfo(np.float16).max for x in plain[1].values())
        for kind, storage in COMPUTED.items():
            if kind == "f16" and not narrow:
                continue
            tokens, values = self.run(wiring, kind)
            self.write(self.out, case(f"computed-{kind}", f"nothing is wrong; computed in {kind}"),
                       wiring, tokens, values, storage)
        for storage in ("f16", "bf16") if narrow else ("bf16",):
            self.write(self.out, case(f"stored-{storage}", f"nothing is wrong; computed in f32, stored in {storage}"),
                       wiring, *plain, storage)
        if wiring in SHIFTED:
            self.write(self.out, case("positions-from-1", "counts all positions from 1, which changes no score"),
                       wiring, *self.run(wiring, plants=[shift]), "f32")
        for subset in ("layer-outputs", "logits", "first-eight"):
            self.write(self.out, case(f"only-{subset}", f"nothing is wrong; {subset} are known"),
                       wiring, *plain, "f32", subset)

    def first_wrong(self, wiring, tokens, values, plants=(), subset="all"):
        """Return the first value that differs from a run with `plants` alone along the same tokens, and by how much."""
        _, right = self.run(wiring, plants=plants, ids=tokens)
        return self.compare(right, values, subset)

    def compare(self, right, values, subset):
        """Return the first value of `right` that is otherwise in `values`, and by how much."""
        for name, want in right.items():
            if name not in values or not SUBSETS[subset](name):
                continue
            got = values[name]
            if subset.endswith("first-eight"):
                want, got = (x[LOGGED:LOGGED + 1, :EIGHT] for x in (want, got))
            if got.shape != want.shape:
                return name, np.inf
            with np.errstate(all="ignore"):
                size = np.linalg.norm(want, axis=1) + 1e-30
                change = np.nan_to_num(np.linalg.norm(got - want, axis=1) / size, nan=np.inf).max()
            if change > SEEN:
                return name, float(change)
        return None, 0.0

    def sick(self, fault, wiring, index):
        """Write the cases of one fault in one wiring."""
        tokens, values = self.run(wiring, plants=[fault.plant])
        first, size = self.first_wrong(wiring, tokens, values)
        if size < VISIBLE:
            self.dropped.append((wiring, fault.id, size))
            return False
        self.store([fault], wiring, tokens, values, first, "all", ("f32", "bf16") if index % 3 == 0 else ("f32",))
        if index % 3 == 1:
            first, size = self.first_wrong(wiring, tokens, values, subset="layer-outputs")
            if size >= VISIBLE:
                self.store([fault], wiring, tokens, values, first, "layer-outputs", ("f32",))
        return True

    def partial(self, fault, wiring, index):
        """Write the cases of partial evidence of one fault in one wiring, of every fourth."""
        if index % 4:
            return False
        tokens, values = self.run(wiring, plants=[fault.plant])
        _, right = self.run(wiring, ids=tokens)
        for subset in PARTIAL:
            first, size = self.compare(right, values, subset)
            if size >= VISIBLE:
                self.store([fault], wiring, tokens, values, first, subset, ("f32",))
        return True

    def store(self, faults, wiring, tokens, values, first, subset, storages):
        """Write cases of one or two faults."""
        hidden = any(self.hides(f.id) for f in faults)
        name = "+".join(f.id for f in faults)
        for storage in storages:
            case = {"id": f"{MAKER}/{wiring}/{name}/{storage}" + ("" if subset == "all" else "-" + subset),
                    "faults": [f.id for f in faults], "says": "; ".join(f.says for f in faults), "first": first,
                    "holdout": hidden}
            self.write(self.holdout if hidden else self.out, case, wiring, tokens, values, storage, subset)
            self.counts["pairs" if len(faults) == 2 else "sick"] += 1
            self.counts["held out"] += hidden

    def pairs(self, planted):
        """Write pairs of faults that a seeded draw brings together; each must show beside the other."""
        planted = sorted(planted, key=lambda p: (p[0].id, p[1]))
        draw = np.random.default_rng(2022)
        done = set()
        while len(done) < PAIRS:
            fault, wiring = planted[draw.integers(len(planted))]
            others = [f for f, w in planted if w == wiring and f.id != fault.id]
            if not others:
                continue
            pair = [fault, others[draw.integers(len(others))]]
            key = wiring, *sorted(f.id for f in pair)
            if key in done:
                continue
            try:
                tokens, values = self.run(wiring, plants=[f.plant for f in pair])
                alone = [self.first_wrong(wiring, tokens, values, [f.plant]) for f in pair]
            except (LookupError, ValueError, KeyError, AttributeError):
                continue
            if min(size for _, size in alone) < 2e-2 or not all(np.isfinite(v).all() for v in values.values()):
                continue
            done.add(key)
            self.store(pair, wiring, tokens, values, self.first_wrong(wiring, tokens, values)[0], "all", ("f32",))


def add_names(path, ids):
    """Add the faults' ids, with no names yet, to a file of names; leave what it has as it is."""
    text = path.read_text() if path.exists() else \
        "# Which names of the catalogue are right for a fault: filled in by those who keep the catalogue.\n"
    known = tomllib.loads(text)
    lines = [f"{json.dumps(id)} = []\n" for id in sorted(ids) if id not in known]
    if lines:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + f"\n# {MAKER}\n" + "".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fixtures", type=lambda path: Path(path).resolve(), required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--holdout", type=Path, required=True)
    later = parser.add_mutually_exclusive_group()
    later.add_argument("--second", action="store_true", help="the second set of faults, none of them held out")
    later.add_argument("--third", action="store_true", help="the third set of faults, none of them held out")
    parser.add_argument("--partial", action="store_true",
                        help="every fourth fault, of which layer outputs, logits, or eight numbers of a log are known")
    parser.add_argument("--only", nargs="*", help="wirings; no pairs are made then, and names are left alone")
    args = parser.parse_args()
    whole = not (args.second or args.third or args.partial)
    bench = Bench(args.fixtures, args.out, args.holdout, not whole)
    wirings = args.only or [*FIXTURES, *ENLARGED]
    if not args.partial:
        for wiring in wirings:
            bench.healthy(wiring)
    write = bench.partial if args.partial else bench.sick
    planted = []
    for fault in (SECOND if args.second else THIRD if args.third else FAULTS).values():
        for wiring in fault.wirings:
            if wiring not in wirings:
                continue
            index = int(hashlib.sha256(f"{fault.id} {wiring}".encode()).hexdigest(), 16)
            if write(fault, wiring, index):
                planted.append((fault, wiring))
    if not args.only and not args.partial:
        bench.pairs(planted)
    if not args.only and whole:
        ids = {f.id for f, _ in planted}
        add_names(Path(__file__).parent / "names.toml", {i for i in ids if not held_out(i)})
        add_names(args.holdout / "names.toml", {i for i in ids if held_out(i)})
    bench.publish(wirings)
    shown = {f.id for f, _ in planted}
    print(", ".join(f"{n} {what}" for what, n in bench.counts.items()))
    print(f"{len(planted)} of fault and wiring, {len(shown)} faults, {sum(map(bench.hides, shown))} held out")
    for wiring, id, size in bench.dropped:
        print(f"not visible: {wiring} {'(held out)' if bench.hides(id) else id} {size:.1e}")


if __name__ == "__main__":
    main()
