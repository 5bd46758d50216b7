#!/usr/bin/env python3
"""Estimates cycles of the innermost loops of functions in AArch64 assembly with llvm-mca's models of processors.

    benches/arm-mca.py FILE.s PATTERN [--cpu apple-m1,neoverse-n1] [--least 12] [--show]

A line per loop of at least `--least` instructions in the functions whose demangled names match PATTERN: instructions, loads and
stores of vectors, those of them relative to the stack pointer, calls (which take no time here: a loop with one is not estimated),
multiplications of integers and of floats, and cycles per turn. The models know no caches, no mispredicted branches and no memory:
every load hits the first-level cache. Needs LLVM 19's llvm-mc and llvm-mca, and c++filt.
"""
import argparse
import re
import subprocess

MC, MCA = "llvm-mc-19", "llvm-mca-19"
FEATURES = "+dotprod,+i8mm,+fullfp16,+bf16"
LABEL = re.compile(r"^(\.?\w[\w.$]*):")
BRANCH = re.compile(r"^\s*(?:b|b\.\w+|cbn?z|tbn?z)\s.*?(\.L\w+)\s*$")


def decoded(words):
    """The instructions that little-endian words are."""
    words = sorted(words)
    text = "\n".join(" ".join(f"0x{byte:02x}" for byte in int(word, 16).to_bytes(4, "little")) for word in words)
    command = [MC, "--disassemble", "-triple=aarch64", f"-mattr={FEATURES}"]
    out = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return dict(zip(words, [line for line in out.split("\n") if line.strip() and ".text" not in line]))


def functions(path):
    """Names and lines of functions, directives and comments left out but for instructions that are spelled as numbers."""
    name, lines = None, []
    spelled = decoded(set(re.findall(r"\.inst\s+(0x[0-9a-f]{8})", open(path).read())))
    for line in open(path):
        line = line.split("//")[0].rstrip()
        inst = re.match(r"\s*\.inst\s+(0x[0-9a-f]{8})", line)
        line = spelled[inst[1]] if inst else line
        label = LABEL.match(line)
        if label and not label[1].startswith(".L"):
            if name:
                yield name, lines
            name, lines = label[1], []
        elif name and line.strip() and (label or not line.strip().startswith((".", "#"))):
            lines.append(line)
    if name:
        yield name, lines


def loops(lines):
    """Innermost loops: from the target of a branch backwards to the branch."""
    at = {LABEL.match(line)[1]: i for i, line in enumerate(lines) if LABEL.match(line)}
    found = []
    for i, line in enumerate(lines):
        branch = BRANCH.match(line)
        if branch and at.get(branch[1], len(lines)) <= i:
            found.append((at[branch[1]], i))
    inner = [(a, b) for a, b in found if not any((c, d) != (a, b) and a <= c and d <= b for c, d in found)]
    return [(lines[a].rstrip(":"), [line for line in lines[a : b + 1] if not LABEL.match(line)]) for a, b in inner]


def cycles(body, cpu, turns=200):
    text = "\n".join(re.sub(r"\.L\w+$", "end", line) for line in body) + "\nend:\n"
    command = [MCA, "-mtriple=aarch64", f"-mcpu={cpu}", f"-mattr={FEATURES}", f"-iterations={turns}", "-"]
    out = subprocess.run(command, input=text, capture_output=True, text=True)
    total = re.search(r"Total Cycles:\s+(\d+)", out.stdout)
    return int(total[1]) / turns if total else float("nan")


def count(body, pattern):
    return sum(bool(re.match(r"\s*(?:" + pattern + ")", line)) for line in body)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("pattern")
    parser.add_argument("--cpu", default="apple-m1,neoverse-n1,neoverse-v2,cortex-a72")
    parser.add_argument("--least", type=int, default=12)
    parser.add_argument("--show", action="store_true", help="print the loops themselves")
    options = parser.parse_args()
    everything = list(functions(options.file))
    names = subprocess.run(["c++filt"], input="\n".join(n for n, _ in everything), capture_output=True, text=True)
    cpus = options.cpu.split(",")
    print(f"{'loop':12} {'instr':>5} {'ld':>4} {'st':>4} {'stack':>5} {'call':>4} {'int':>4} {'float':>5}", *(f"{c:>11}" for c in cpus))
    for name, (_, lines) in zip(names.stdout.split("\n"), everything):
        if not re.search(options.pattern, name):
            continue
        print(re.sub(r"\[[0-9a-f]+\]|candor_kernels::aarch64::|\{[^}]*\}", "", name))
        for label, body in loops(lines):
            if len(body) < options.least:
                continue
            stack = count(body, r"(ld|st)[rpu]+\s+[qdsx].*\[sp")
            multiplied = count(body, r"[su]dot|smmla|[su]mull|[su]mlal|bfmmla"), count(body, r"fml[as]|fmul|fmadd")
            figures = [cycles(body, cpu) for cpu in cpus]
            calls = count(body, r"blr?\s")
            loads, stores = count(body, r"ld[rpu1]\w*\s+[{qds]"), count(body, r"st[rpu1]\w*\s+[{qds]")
            print(f"{label:12} {len(body):5} {loads:4} {stores:4} {stack:5} {calls:4} {multiplied[0]:4} {multiplied[1]:5}", end=" ")
            print(*(f"{figure:11.1f}" for figure in figures))
            if options.show:
                print("\n".join(body))


main()
