"""Train small models of four wirings on a text, as checkpoints of Hugging Face: what mutants.py converts.

    python tools/goldens/mutants/train.py NAME TEXT OUT --candor FILE --vocabulary MODEL.gguf [--steps 400]

NAME is a key of MODELS. The vocabulary is that of MODEL.gguf (stories260K-f32.gguf of the fixtures: 512 tokens), and `candor tokenize` reads
the text with it. The first nine tenths of the text are learnt; the loss on the rest is printed. About 200,000 weights each, if nothing else
is said. Needs torch and transformers (made with torch 2.15.0, transformers 5.24.0).
"""

import argparse
import json
import math
import subprocess
from pathlib import Path

import torch
import transformers as hf

VOCAB, WINDOW, BATCH, RATE = 512, 256, 8, 4e-3
COMMON = dict(
    vocab_size=VOCAB, hidden_size=64, num_attention_heads=4, max_position_embeddings=WINDOW, bos_token_id=1, eos_token_id=2
)
GROUPED = dict(COMMON, num_key_value_heads=2, head_dim=16, intermediate_size=128)
# What a model's conversion has that the others' have not is in the comment.
MODELS = {
    # Permuted rows of queries and keys, a head of its own.
    "llama": (hf.LlamaConfig, dict(GROUPED, num_hidden_layers=4, rope_theta=500_000.0, rms_norm_eps=1e-5, tie_word_embeddings=False)),
    # Norms around 0, scaled and tied embeddings, windows with a base of their own, norms of queries and keys.
    "gemma3": (
        hf.Gemma3TextConfig,
        dict(
            GROUPED,
            intermediate_size=96,
            num_hidden_layers=6,
            query_pre_attn_scalar=16,
            sliding_window=32,
            layer_types=["sliding_attention"] * 5 + ["full_attention"],
            rope_parameters={
                "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
                "full_attention": {"rope_type": "default", "rope_theta": 1_000_000.0},
            },
        ),
    ),
    # Biases of queries, keys and values; halves paired; tied embeddings.
    "qwen2": (hf.Qwen2Config, dict(GROUPED, num_hidden_layers=4, rope_theta=1_000_000.0, rms_norm_eps=1e-6, tie_word_embeddings=True)),
    # Queries, keys and values in one matrix, head by head; a quarter of a head turns; layer norms; halves beside each other.
    "gptneox": (
        hf.GPTNeoXConfig,
        dict(COMMON, intermediate_size=192, num_hidden_layers=4, rotary_pct=0.25, use_parallel_residual=True, tie_word_embeddings=False),
    ),
    # Rows of 256, which take every format: for benches/quantize/target.py, no mutants. Two million weights.
    "wide": (
        hf.LlamaConfig,
        dict(
            COMMON,
            hidden_size=256,
            num_key_value_heads=2,
            head_dim=64,
            intermediate_size=512,
            num_hidden_layers=3,
            rope_theta=10_000.0,
            rms_norm_eps=1e-5,
            tie_word_embeddings=False,
        ),
    ),
}


def tokens(candor, vocabulary, text):
    """Ids of a text."""
    command = [candor, "tokenize", "-m", vocabulary, "--ids", "-f", text, "--no-bos"]
    words = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return torch.tensor([int(word) for word in words.replace(",", " ").strip("[] \n").split()])


def loss_of(model, batch):
    """Mean loss of windows of one token more than they predict, `[windows, WINDOW + 1]`."""
    logits = model(batch[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def held_out(model, ids):
    """Mean loss over the first windows of held-out ids, which begin with BOS as when `candor` measures."""
    with torch.no_grad():
        windows = ids[: len(ids) // (WINDOW + 1) * (WINDOW + 1)].view(-1, WINDOW + 1)[:16].clone()
        windows[:, 0] = 1
        return loss_of(model, windows).item()


def train(name, ids, steps):
    """A trained model."""
    torch.manual_seed(1)
    kind, options = MODELS[name]
    model = hf.AutoModelForCausalLM.from_config(kind(**options), attn_implementation="eager")
    # Norms of trained models differ among each other; those of short training would not.
    with torch.no_grad():
        for label, weight in model.named_parameters():
            if "norm" in label and label.endswith("weight"):
                weight += 0.3 * torch.randn(weight.shape)
    print(f"{name}: {sum(p.numel() for p in model.parameters())} weights, {len(ids)} tokens", flush=True)
    cut = len(ids) * 9 // 10
    learnt, rest = ids[:cut], ids[cut:]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.05)
    for step in range(steps):
        rate = RATE * min(1, (step + 1) / 50) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / steps)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        at = torch.randint(len(learnt) - WINDOW - 1, (BATCH,))
        batch = torch.stack([learnt[i : i + WINDOW + 1] for i in at])
        batch[: BATCH // 2, 0] = 1
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1}: {loss.item():.3f}, held out {held_out(model, rest):.3f}", flush=True)
    print(f"{steps} steps of {BATCH * WINDOW} tokens, held out {held_out(model, rest):.4f} nats per token")
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=MODELS)
    parser.add_argument("text", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--candor", type=Path, required=True)
    parser.add_argument("--vocabulary", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    ids = tokens(args.candor, args.vocabulary, args.text)
    train(args.name, ids, args.steps).save_pretrained(args.out)
    path = args.out / "config.json"
    config = json.loads(path.read_text())
    # Older checkpoints have it beside rope_parameters, and the converter reads it there.
    config |= {key: value for key, value in MODELS[args.name][1].items() if key == "rotary_pct"}
    path.write_text(json.dumps(config, indent=2))


if __name__ == "__main__":
    main()
