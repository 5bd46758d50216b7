"""Train the built-in model on the packed corpus.

    python train.py --data DIR --out DIR --minutes 55

The learning rate follows the wall time: a short warm-up, a plateau, and a
linear decay over the last part of the budget, so that a run always ends with a
finished schedule. The budget may be changed while the run goes on, by writing
the new number of minutes to OUT/minutes. The order of the data depends on the
seed alone. The checkpoint holds a running mean of the weights.
"""
import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from gguf import GGUFReader
from gguf.quants import dequantize

from model import Config, Model


class Rows:
    """Packed rows of context + 1 tokens, visited in a seeded order, epoch by epoch."""

    def __init__(self, folder, name, context, seed):
        tokens = np.fromfile(folder / f"{name}.tokens", dtype=np.uint16)
        weights = np.fromfile(folder / f"{name}.weights", dtype=np.uint8)
        n = (len(tokens) - 1) // context
        self.tokens, self.weights, self.context, self.n = tokens, weights, context, n
        self.rng = np.random.default_rng(seed)
        self.order = np.empty(0, dtype=np.int64)
        self.epochs = 0

    def row(self, i):
        at = i * self.context
        cut = slice(at, at + self.context + 1)
        return self.tokens[cut].astype(np.int64), self.weights[cut][1:].astype(np.float32) / 100

    def batch(self, size):
        while len(self.order) < size:
            self.order = np.concatenate((self.order, self.rng.permutation(self.n)))
            self.epochs += 1
        take, self.order = self.order[:size], self.order[size:]
        return self.stack(take)

    def stack(self, rows):
        ids, weight = zip(*(self.row(i) for i in rows))
        ids = torch.from_numpy(np.stack(ids))
        return ids[:, :-1], ids[:, 1:], torch.from_numpy(np.stack(weight))


# Products in bfloat16 where the processor has them; elsewhere they are emulated, at a hundredth of float32's speed.
BFLOAT16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()


def orthogonal(g, steps=5):
    """Newton-Schulz iteration: push the singular values of g towards one."""
    x = g.bfloat16() if BFLOAT16 else g
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return (x.mT if tall else x).float()


class Muon:
    """Momentum with orthogonal updates for the matrices; same-shaped ones go through in one batch."""

    def __init__(self, params, momentum=0.95, decay=0.02):
        self.groups = {}
        for p in params:
            self.groups.setdefault(tuple(p.shape), []).append(p)
        self.buffers = {s: torch.zeros(len(ps), *s) for s, ps in self.groups.items()}
        self.momentum, self.decay = momentum, decay

    @torch.no_grad()
    def step(self, lr):
        for shape, params in self.groups.items():
            grad = torch.stack([p.grad for p in params])
            buf = self.buffers[shape]
            buf.lerp_(grad, 1 - self.momentum)
            update = orthogonal(grad.lerp(buf, self.momentum))
            scale = lr * max(1.0, shape[0] / shape[1]) ** 0.5
            for p, u in zip(params, update):
                p.mul_(1 - lr * self.decay).add_(u, alpha=-scale)


def halves(rows):
    """Twice as many rows of half the length: cheaper attention for most of the steps."""
    return rows.reshape(2 * rows.shape[0], -1)


def schedule(done, warm=0.01, decay=0.45):
    """Factor of the learning rate after this part of the run."""
    if done < warm:
        return done / warm
    return min(1.0, max(0.02, (1 - done) / decay))


def weights(path):
    """The parameters in a checkpoint.pt, or in a GGUF file written by export.py (rounded to Q8_0 there)."""
    if path.suffix != ".gguf":
        return torch.load(path)["model"]
    return {t.name: torch.from_numpy(dequantize(t.data, t.tensor_type).copy()) for t in GGUFReader(path).tensors}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--data", type=Path, required=True, help="folder written by prepare.py")
    ap.add_argument("--out", type=Path, required=True, help="folder for checkpoint.pt and log.json")
    ap.add_argument("--minutes", type=float, default=55, help="wall-time budget of the training loop")
    ap.add_argument("--steps", type=int, help="stop after exactly so many steps instead: reproduces a run of record")
    ap.add_argument("--batch", type=int, default=6, help="rows per step")
    ap.add_argument("--lr", type=float, default=0.02, help="of the matrices (Muon)")
    ap.add_argument("--lr-rest", type=float, default=0.003, help="of embeddings and norms (AdamW)")
    ap.add_argument("--init", type=Path, help="checkpoint.pt or .gguf of an earlier run to go on from, with a fresh optimizer")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--eager", action="store_true", help="do not compile the model")
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    meta = json.loads((args.data / "meta.json").read_text())
    cfg = Config(vocab=meta["vocab"])
    train = Rows(args.data, "train", cfg.context, args.seed)
    held = Rows(args.data, "held", cfg.context, args.seed)
    model = Model(cfg)
    if args.init:
        model.load_state_dict(weights(args.init))
    count = sum(p.numel() for p in model.parameters())

    matrices = [p for n, p in model.named_parameters() if n.startswith("blk.") and p.dim() == 2]
    inside = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in inside]
    muon = Muon(matrices)
    adam = torch.optim.AdamW(rest, lr=args.lr_rest, betas=(0.9, 0.98), weight_decay=0.0, eps=1e-10)

    def loss_sums(x, y, w):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=BFLOAT16):
            logits = model(x)
        each = F.cross_entropy(logits.float().flatten(0, 1), y.flatten(), reduction="none")
        return (each * w.flatten()).sum()

    step_loss = loss_sums if args.eager else torch.compile(loss_sums, dynamic=False)

    @torch.no_grad()
    def held_out(limit=None):
        """Mean loss over the held-out answers (weight-one tokens)."""
        total = tokens = 0.0
        n = min(held.n, limit or held.n)
        for at in range(0, n - n % args.batch, args.batch):
            x, y, w = held.stack(range(at, at + args.batch))
            w = (w == 1).float()
            total += loss_sums(x, y, w).item()
            tokens += w.sum().item()
        return total / tokens

    averaged = {n: p.detach().clone() for n, p in model.named_parameters()}

    @torch.no_grad()
    def average(step):
        keep = min(0.99, step / (step + 20))
        for n, p in model.named_parameters():
            averaged[n].lerp_(p, 1 - keep)

    @torch.no_grad()
    def swap():
        """Exchange the weights and their running mean."""
        for n, p in model.named_parameters():
            p.data, averaged[n] = averaged[n], p.data

    def save(step, seconds, final):
        swap()
        record = dict(
            parameters=count, config=vars(cfg), seed=args.seed, steps=step, batch_tokens=args.batch * cfg.context,
            tokens_seen=step * args.batch * cfg.context, epochs=round(step * args.batch / train.n, 3),
            train_tokens=len(train.tokens), wall_minutes=round(seconds / 60, 1), threads=args.threads,
            held_out_loss=round(held_out(None if final else 2 * args.batch), 4), finished=final,
            curve_columns=["step", "minutes", "mean loss", "learning rate factor"], curve=curve)
        torch.save(dict(config=vars(cfg), model=model.state_dict()), args.out / "checkpoint.pt")
        (args.out / "log.json").write_text(json.dumps(record, indent=1) + "\n")
        swap()
        return record["held_out_loss"]

    curve = []
    step, start, saved, mean = 0, time.time(), time.time(), None
    minutes = args.minutes
    while True:
        seconds = time.time() - start
        if (args.out / "minutes").exists():
            minutes = float((args.out / "minutes").read_text())
        done = step / args.steps if args.steps else seconds / (minutes * 60)
        if done >= 1:
            break
        factor = schedule(done)
        x, y, w = train.batch(args.batch)
        if step % 6:
            x, y, w = halves(x), halves(y), halves(w)
        loss = step_loss(x, y, w) / w.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(rest, 1.0)
        muon.step(args.lr * factor)
        for group in adam.param_groups:
            group["lr"] = args.lr_rest * factor
        adam.step()
        model.zero_grad(set_to_none=True)
        step += 1
        average(step)
        value = loss.item()
        if not math.isfinite(value):
            raise SystemExit(f"loss is {value} at step {step}")
        mean = value if mean is None else 0.95 * mean + 0.05 * value
        if step % 20 == 0:
            seconds = time.time() - start
            rate = step * args.batch * cfg.context / seconds
            curve.append([step, round(seconds / 60, 2), round(mean, 4), round(factor, 3)])
            print(f"step {step}  {seconds / 60:.1f} min  loss {mean:.4f}  {rate:.0f} tokens/s  lr x{factor:.2f}", flush=True)
        if time.time() - saved > 150:
            value = save(step, time.time() - start, False)
            print(f"step {step}  held-out loss {value}", flush=True)
            saved = time.time()
    value = save(step, time.time() - start, True)
    print(f"finished: {step} steps, {(time.time() - start) / 60:.1f} minutes, held-out loss {value}, {count} parameters")


if __name__ == "__main__":
    main()
