"""Train the vocabulary on the corpus and pack the corpus into tokens.

    python prepare.py --corpus DIR --out DIR

Writes tokenizer.model (sentencepiece BPE with byte fallback), and for train and
held a file of uint16 tokens and a file of uint8 loss weights in percent: 100
for what the model says itself, 10 for what is said to it.
"""
import argparse
import json
from pathlib import Path

import numpy as np
import sentencepiece as spm

import vocabulary
from chat_format import CONTROL, encode_chat, encode_text


def texts(path, limit=None):
    with open(path) as f:
        for i, line in enumerate(f):
            if limit and i >= limit:
                return
            doc = json.loads(line)
            yield from [doc["text"]] if "text" in doc else [text for _, text in doc["messages"]]


def train_tokenizer(corpus, out, vocab, documents):
    spm.SentencePieceTrainer.train(
        sentence_iterator=(t.replace("\n", " ") for t in texts(corpus / "train.jsonl", documents)),
        model_prefix=str(out / "tokenizer"), model_type="bpe", vocab_size=vocab,
        byte_fallback=True, add_dummy_prefix=False, remove_extra_whitespaces=False,
        normalization_rule_name="identity", split_digits=True, character_coverage=1.0,
        unk_id=0, bos_id=1, eos_id=2, pad_id=-1, control_symbols=CONTROL,
        num_threads=1, minloglevel=2)
    return spm.SentencePieceProcessor(model_file=str(out / "tokenizer.model"))


def pack(sp, source, out, name, context):
    ids, weights = [], []
    with open(source) as f:
        for line in f:
            doc = json.loads(line)
            i, flags = encode_text(sp, doc["text"]) if "text" in doc else encode_chat(sp, doc["messages"])
            ids.extend(i[:context])
            weights.extend(100 if x else 10 for x in flags[:context])
    np.asarray(ids, dtype=np.uint16).tofile(out / f"{name}.tokens")
    np.asarray(weights, dtype=np.uint8).tofile(out / f"{name}.weights")
    return len(ids)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--corpus", type=Path, required=True)
    ap.add_argument("--out", type=Path, required=True)
    ap.add_argument("--vocab", type=int, default=2048)
    ap.add_argument("--context", type=int, default=512)
    ap.add_argument("--tokenizer-documents", type=int, default=40000)
    ap.add_argument("--tokenizer", type=Path, help="keep this vocabulary, a tokenizer.model or a .gguf, instead of training one")
    args = ap.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.tokenizer:
        sp = vocabulary.load(args.tokenizer)
    else:
        sp = train_tokenizer(args.corpus, args.out, args.vocab, args.tokenizer_documents)
    counts = {name: pack(sp, args.corpus / f"{name}.jsonl", args.out, name, args.context) for name in ("train", "held")}
    (args.out / "meta.json").write_text(json.dumps(dict(vocab=sp.vocab_size(), tokens=counts), indent=1) + "\n")
    print(f"vocabulary {sp.vocab_size()}, tokens {counts}")


if __name__ == "__main__":
    main()
