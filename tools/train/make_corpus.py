"""Write the training corpus.

    python make_corpus.py --out DIR [--documents 100000] [--seed 1]

Writes DIR/train.jsonl and DIR/held.jsonl, one document per line: either
{"messages": [[role, text], ...]} or {"text": ...}. A document in which a user
message is one of the prompts of heldout/prompts.json (compared without case,
spaces and punctuation) is dropped, so these prompts stay unseen; the held part
has only documents that do not occur in the training part.
"""
import argparse
import json
import re
from pathlib import Path

from corpus.dialogue import chat, plain
from corpus.grammar import Grammar

HELD_OUT = Path(__file__).parent / "heldout" / "prompts.json"


def normal(text):
    return re.sub(r"[^a-z0-9+*/=-]+", "", text.lower())


def held_out_prompts():
    """The normal form of every user message of the held-out prompts."""
    data = json.loads(HELD_OUT.read_text())
    return {normal(text) for p in data["prompts"] for text in p["turns"]}


def documents(seed, plain_share=0.03):
    g = Grammar(seed)
    while True:
        if g.chance(plain_share):
            yield {"text": plain(g)}
        else:
            yield {"messages": chat(g)}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", type=Path, required=True)
    ap.add_argument("--documents", type=int, default=100000)
    ap.add_argument("--held", type=int, default=2000, help="documents in the held part")
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    banned = held_out_prompts()
    dropped = size = 0
    seen = set()

    def allowed(doc):
        return not any(role == "user" and normal(text) in banned for role, text in doc.get("messages", ()))

    source = documents(args.seed)
    with open(args.out / "train.jsonl", "w") as f:
        n = 0
        while n < args.documents:
            doc = next(source)
            if not allowed(doc):
                dropped += 1
                continue
            line = json.dumps(doc)
            seen.add(hash(line))
            size += f.write(line + "\n")
            n += 1
    source = documents(args.seed + 1_000_000)
    with open(args.out / "held.jsonl", "w") as f:
        n = 0
        while n < args.held:
            doc = next(source)
            line = json.dumps(doc)
            if allowed(doc) and hash(line) not in seen:
                f.write(line + "\n")
                n += 1
    print(f"{args.documents} documents, {size / 1e6:.1f} MB, {len(seen)} different; {dropped} dropped for a held-out prompt")


if __name__ == "__main__":
    main()
