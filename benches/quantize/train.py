#!/usr/bin/env python3
"""Train a small llama on a text, and write it with F32 weights: a model for target.py whose rows take every format.

usage: train.py TEXT OUT.gguf --candor FILE --vocabulary MODEL.gguf [--steps 500] [--threads 2]

The vocabulary is that of MODEL.gguf, such as stories260K-f32.gguf of the fixtures; `candor tokenize` reads the text with it. 2.5 million
weights: 4 layers of width 256, 8 heads that share 4 keys and values, tied embeddings. The first nine tenths of the text are learnt; the
loss on the rest is printed. Needs torch and gguf (made with torch 2.9, gguf 0.19).
"""

import argparse
import math
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "train"))
from model import Config, Model  # noqa: E402

WINDOW, BATCH, RATE = 256, 8, 2e-3


def tokens(candor, vocabulary, text):
    """Ids of a text."""
    command = [candor, "tokenize", "-m", vocabulary, "--ids", "-f", text, "--no-bos"]
    words = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return torch.tensor([int(word) for word in words.replace(",", " ").strip("[] \n").split()])


def loss_of(model, ids):
    """Mean loss over windows of held-out ids."""
    with torch.no_grad():
        windows = ids[: len(ids) // (WINDOW + 1) * (WINDOW + 1)].view(-1, WINDOW + 1)[:32]
        return F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten()).item()


def train(ids, config, steps):
    torch.manual_seed(1)
    model = Model(config)
    cut = len(ids) * 9 // 10
    learnt, rest = ids[:cut], ids[cut:]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.05)
    for step in range(steps):
        rate = RATE * min(1, (step + 1) / 30) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / steps)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        at = torch.randint(len(learnt) - WINDOW - 1, (BATCH,))
        batch = torch.stack([learnt[i : i + WINDOW + 1] for i in at])
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: {loss.item():.3f}, held out {loss_of(model, rest):.3f}", flush=True)
    print(f"{steps} steps of {BATCH * WINDOW} tokens, held out {loss_of(model, rest):.4f} nats per token")
    return model


def write(model, config, vocabulary, out):
    source = gguf.GGUFReader(vocabulary)
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_name("Target bench")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_vocab_size(config.vocab)
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.dim)
    writer.add_block_count(config.layers)
    writer.add_feed_forward_length(config.ffn)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.kv_heads)
    writer.add_layer_norm_rms_eps(config.eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_base)
    for name, field in source.fields.items():
        if name.startswith("tokenizer."):
            kind = field.types[0]
            sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), kind, sub_type=sub)
    for name, tensor in model.state_dict().items():
        writer.add_tensor(name, tensor.float().numpy().astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--candor", type=Path, required=True)
    parser.add_argument("--vocabulary", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    ids = tokens(args.candor, args.vocabulary, args.text)
    config = Config(vocab=512, context=512, dim=256, layers=4, heads=8, kv_heads=4, ffn=512)
    print(f"{len(ids)} tokens", flush=True)
    write(train(ids, config, args.steps), config, args.vocabulary, args.out)


if __name__ == "__main__":
    main()
