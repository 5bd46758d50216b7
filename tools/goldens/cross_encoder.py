#!/usr/bin/env python3
"""Writes crates/candor/tests/goldens/cross-encoder.gguf and .json: a tiny random reranker and its exact scores.

    python tools/goldens/cross_encoder.py crates/candor/tests/goldens

Needs transformers 5.23.0, torch 2.15.0, gguf 0.19.0 and numpy. The model is a BertForSequenceClassification with two
labels; `cls` is its pooler and `cls.output` its classifier. Scores are computed in float64 from the float32 weights of the
file. All tokens are of the first type, as in llama.cpp, which knows no other: the golden asks Transformers for that.
"""

import json
import string
import sys
from pathlib import Path

import gguf
import numpy as np

import bert_gguf

sys.path.pop(0)  # this folder has a tokenizers.py that is not Hugging Face's

import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

WORDS = "what is the capital of france paris berlin a city in germany cats sleep all day ##ing"
PAIRS = [
    ("what is the capital of france", "Paris is the capital of France."),
    ("what is the capital of france", "Berlin, a city in Germany"),
    ("what is the capital of france", "cats sleep all day"),
    ("cats", "The cats are sleeping."),
    ("", "a"),
    ("a", "paris"),
]


def main(goldens):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = string.ascii_lowercase + ".,?"
    tokens += [*letters, *("##" + letter for letter in letters), *(word for word in WORDS.split() if word not in letters)]
    config = BertConfig(vocab_size=len(tokens), hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
                        intermediate_size=40, max_position_embeddings=64, num_labels=2, initializer_range=0.3,
                        attn_implementation="eager")
    torch.manual_seed(1)
    model = BertForSequenceClassification(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):  # they would all be zero
                parameter.normal_(0, 0.1)
    state = {name: values.numpy() for name, values in model.state_dict().items()}
    tensors = {name.removeprefix("bert."): values for name, values in state.items() if name.startswith("bert.")}
    head = {f"cls.{end}": state[f"bert.pooler.dense.{end}"] for end in ("weight", "bias")}
    head |= {f"cls.output.{end}": state[f"classifier.{end}"] for end in ("weight", "bias")}
    bert_gguf.write(goldens / "cross-encoder.gguf", config.to_dict(), tokens, tensors, gguf.PoolingType.RANK, extra=head)

    vocab = goldens / "vocab.txt"
    vocab.write_text("\n".join(tokens) + "\n", encoding="utf-8")
    tokenizer = BertTokenizer(str(vocab))
    vocab.unlink()
    model = model.double()
    rows = []
    for query, document in PAIRS:
        ids = tokenizer(query, document)["input_ids"]
        with torch.no_grad():
            batch = torch.tensor([ids])
            scores = model(input_ids=batch, token_type_ids=torch.zeros_like(batch)).logits[0]
        rows.append({"query": query, "document": document, "ids": ids, "scores": scores.tolist()})
    golden = {"transformers": "5.23.0", "pairs": rows}
    (goldens / "cross-encoder.json").write_text(json.dumps(golden, indent=1) + "\n")


main(Path(sys.argv[1]))
