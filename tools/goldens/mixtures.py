#!/usr/bin/env python3
"""Makes crates/convert/tests/goldens/mixtures.txt of llama.cpp's tests/snapshots/*.schema: the format of every tensor.

    python tools/goldens/mixtures.py FOLDER [OUT]

A snapshot lists, for each kind of file, the tensors that differ from the kind's main format. Here layers are ranges. What shapes
matter is taken from two kinds: MXFP4_MOE lists all that is no stack of experts, Q6_K all whose rows are no whole blocks of 256.
"""

import re
import sys
from pathlib import Path


def ranges(layers: list[int]) -> str:
    """0-3,7"""
    runs: list[list[int]] = []
    for layer in sorted(layers):
        if runs and runs[-1][1] == layer - 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def grouped(pairs: list[tuple[str, str]]) -> list[str]:
    """Names with what is said of them, layers together."""
    groups: dict[tuple[str, str], list[int]] = {}
    for name, said in pairs:
        match = re.match(r"blk\.(\d+)\.(.*)", name)
        key = ("blk.#." + match[2] if match else name, said)
        groups.setdefault(key, []).extend([int(match[1])] if match else [])
    return [f"{name} {ranges(layers) or '-'} {said}\n" for (name, said), layers in groups.items()]


def model(path: Path) -> str:
    text = path.read_text()
    sections = dict[str, dict[str, str]]()
    mains = {}
    for line in text.splitlines():
        if line.startswith("["):
            name, main = re.match(r"\[(\w+)\] (\w+)", line).groups()
            sections[name], mains[name] = {}, main
        elif line and not line.startswith("#"):
            name, said = line.rsplit(" ", 1)
            sections[list(sections)[-1]][name] = said
    numbers = dict(re.findall(r"(n_\w+)=(\d+)", text))
    out = f"model {path.stem} " + " ".join(numbers.get(key, "0") for key in ("n_layer", "n_head", "n_head_kv", "n_expert")) + "\n"
    names = sorted({name for section in sections.values() for name in section})
    columns = {"q8_0": 32, "f16": 8}
    shape = lambda name: f"{columns.get(sections['Q6_K'].get(name), 256)}x{1 if name in sections['MXFP4_MOE'] else 2}"
    out += "".join(grouped([(name, shape(name)) for name in names]))
    for kind, section in sections.items():
        out += f"kind {kind} {mains[kind]}\n" + "".join(grouped(list(section.items())))
    return out


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    here = Path(__file__).resolve().parents[2] / "crates" / "convert" / "tests" / "goldens" / "mixtures.txt"
    text = "".join(model(path) for path in sorted(Path(sys.argv[1]).glob("*.schema")))
    (Path(sys.argv[2]) if len(sys.argv) == 3 else here).write_text(text)


if __name__ == "__main__":
    main()
