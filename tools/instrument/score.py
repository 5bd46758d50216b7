"""Judge `candor diagnose` by a corpus: what it calls sick, what it names, and where it is wrong.

    python tools/instrument/score.py --candor target/release/candor --names tools/instrument/names.toml CORPUS...
    python tools/instrument/score.py --candor BIN --names names.toml --list --only gemma2 CORPUS

names.toml says which names of the catalogue are right for a fault's id. A fault that has the name "unknown" there is
judged right too where nothing is named and the first wrong value is found.
"""

import argparse
import json
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SICK = ["named", "half named", "wrong high", "wrong", "unknown, first right", "unknown", "undecided", "called healthy",
        "failed"]
HEALTHY = ["healthy", "undecided", "called sick", "failed"]

# Names that llama.cpp gives to a value in some wirings, and what it is called elsewhere.
ALIASES = {"sa_out": "ffn_inp", "attn_residual": "ffn_inp", "inpL": "inp_embd", "embd": "inp_embd",
           "result_embd": "result_norm", "ffn_moe_swiglu_oai": "ffn_moe_act"}


def plain(name):
    """Return a value's common name."""
    if name is None:
        return None
    base, dash, layer = name.rpartition("-")
    return ALIASES.get(base, base) + dash + layer if dash and layer.isdigit() else ALIASES.get(name, name)


def diagnose(binary, folder, case, timeout):
    """Run candor on a case; return its exit code and report, or what went wrong."""
    command = [binary, "diagnose", str((folder / case["model"]).resolve()), "--trace", str(folder / case["dump"]),
               "--json", *case.get("args", [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        return done.returncode, json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return None, f"no answer in {timeout} s"
    except json.JSONDecodeError:
        return done.returncode, (done.stderr or done.stdout).strip()[:200]


def names_of(finding):
    """Return the names that a finding gives: each twin, and the parts of a pair."""
    names = set()
    for name in [finding["fault"], *finding.get("twins", [])]:
        names.add(name)
        names.update(part.strip() for part in name.split(" + "))
    return names


def judge(case, code, report, accepted):
    """Return the verdict on a case."""
    if not isinstance(report, dict):
        return "failed"
    if not case["faults"]:
        return {0: "healthy", 1: "called sick", 2: "undecided"}.get(code, "failed")
    if code != 1:
        return {0: "called healthy", 2: "undecided"}.get(code, "failed")
    # What cannot change the text, or what the file leaves open, is no accusation.
    findings = [(names_of(f), f["confidence"]) for f in report["findings"] if f["harm"] == "harmful"]
    rights = [set(accepted.get(fault, [])) for fault in case["faults"]]
    everything = set().union(*rights)
    if any(confidence == "high" and not names & everything for names, confidence in findings):
        return "wrong high"
    first_right = plain(report.get("first_wrong")) == plain(case["first"])
    hit = [any(names & right for names, _ in findings) or ("unknown" in right and not findings and first_right)
           for right in rights]
    if all(hit):
        return "named"
    if any(hit):
        return "half named"
    if findings:
        return "wrong"
    return "unknown, first right" if first_right else "unknown"


def line(folder, case, code, report, verdict):
    """Describe a case in a line."""
    if isinstance(report, dict):
        found = "; ".join(" = ".join([f["fault"], *f.get("twins", [])]) + f" ({f['confidence']})"
                          for f in report["findings"]) or report["outcome"]
        found += f", first {report.get('first_wrong')}"
    else:
        found = report
    faults = ", ".join(case["faults"]) or "healthy"
    return f"{verdict}: {case['id']} [{faults}; first {case['first']}] -> {found} (exit {code})"


def print_table(title, columns, rows):
    """Print counts by row and in total."""
    used = [c for c in columns if any(counts[c] for counts in rows.values())]
    print(f"\n| {title} | cases | " + " | ".join(used) + " |\n|" + " --- |" * (len(used) + 2))
    total = Counter()
    for counts in rows.values():
        total += counts
    for name, counts in [*sorted(rows.items()), ("all", total)]:
        print(f"| {name} | {sum(counts.values())} | " + " | ".join(str(counts[c] or "") for c in used) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="+", type=Path)
    parser.add_argument("--candor", required=True)
    parser.add_argument("--names", nargs="+", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[], help="parts of case ids")
    parser.add_argument("--list", action="store_true", help="print each unhappy case")
    parser.add_argument("--json", type=Path, help="write all verdicts with candor's findings to this file")
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    accepted = {}
    for path in args.names:
        for fault, names in tomllib.loads(path.read_text()).items():
            accepted.setdefault(fault, set()).update(names)
    cases = []
    for root in args.corpus:
        for path in sorted(root.rglob("case.json")):
            case = json.loads(path.read_text())
            if not args.only or any(part in case["id"] for part in args.only):
                cases.append((path.parent, case))
    if not cases:
        sys.exit("no case.json there")
    with ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(lambda c: diagnose(args.candor, *c, args.timeout), cases))
    tables = defaultdict(lambda: defaultdict(Counter))
    verdicts = []
    for (folder, case), (code, report) in zip(cases, results):
        verdict = judge(case, code, report, accepted)
        kind = "healthy" if not case["faults"] else "sick" if len(case["faults"]) == 1 else "pairs"
        evidence = "" if case["values"] == "all" else f", {case['values']}"
        tables[kind + ("" if kind == "healthy" else evidence)][f"{case['maker']} {case['wiring']}"][verdict] += 1
        verdicts.append({"id": case["id"], "verdict": verdict, "code": code,
                         "findings": report["findings"] if isinstance(report, dict) else report,
                         "first_wrong": report.get("first_wrong") if isinstance(report, dict) else None})
        if args.list and verdict not in ("named", "healthy"):
            print(line(folder, case, code, report, verdict))
    for kind, rows in sorted(tables.items()):
        print_table(kind, HEALTHY if kind == "healthy" else SICK, rows)
    if args.json:
        args.json.write_text(json.dumps(verdicts, indent=1))


if __name__ == "__main__":
    main()
