"""Whether two files of answers say the same: all but names, times and what was reused. Usage: check.py ANSWERS ANSWERS"""

import json
import sys

# What differs from run to run.
OTHER = {"id", "created", "created_at", "completed_at", "timings", "prompt_tokens_details", "request_id", "tokens_cached"}


def same(value):
    """A value without those."""
    if isinstance(value, dict):
        return {name: same(inner) for name, inner in value.items() if name not in OTHER}
    return [same(inner) for inner in value] if isinstance(value, list) else value


def read(path):
    with open(path, encoding="utf-8") as lines:
        return {line["custom_id"]: same(line["response"]) for line in map(json.loads, lines)}


def main():
    first, second = map(read, sys.argv[1:])
    wrong = [name for name in first.keys() | second.keys() if first.get(name) != second.get(name)]
    for name in sorted(wrong)[:5]:
        print(f"{name}:\n  {first.get(name)}\n  {second.get(name)}")
    print(f"{len(first.keys() | second.keys()) - len(wrong)} passed, {len(wrong)} failed")
    sys.exit(1 if wrong or not first else 0)


main()
