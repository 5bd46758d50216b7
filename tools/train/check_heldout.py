"""Check that the held-out prompts are new to the model.

    python check_heldout.py --corpus DIR

Fails when a user message of heldout/prompts.json is a user message of
DIR/train.jsonl. Case, spaces and punctuation do not count as a difference.
"""
import argparse
import json
import sys
from pathlib import Path

from make_corpus import held_out_prompts, normal


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--corpus", type=Path, required=True)
    args = ap.parse_args()
    banned = held_out_prompts()
    messages, found = 0, set()
    with open(args.corpus / "train.jsonl") as f:
        for line in f:
            for role, text in json.loads(line).get("messages", ()):
                if role == "user":
                    messages += 1
                    if normal(text) in banned:
                        found.add(text)
    print(f"{len(banned)} held-out user messages, {messages} user messages in the corpus, {len(found)} in both")
    for text in sorted(found):
        print("in both:", text)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
