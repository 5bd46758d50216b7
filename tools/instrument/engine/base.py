"""What every engine does: load, keep values under llama.cpp's names, run a prompt and decode."""

import numpy as np

from .arithmetic import KINDS
from .file import File
from .parts import layer_norm, rms_norm


class Engine:
    """A model that runs. Wirings override `embed`, `layer` and `head`; faults override anything."""

    def __init__(self, path, arithmetic="f64"):
        self.file = File(path)
        self.arith = KINDS[arithmetic]
        self.w = self.arith.load(self.file.weights())
        self.layers = self.file.get("block_count")
        self.width = self.file.get("embedding_length")
        self.norm_kind = "rms" if self.file.get("attention.layer_norm_rms_epsilon") else "layer"
        self.eps = self.file.get("attention.layer_norm_rms_epsilon") or self.file.get("attention.layer_norm_epsilon")
        self.cache = {}
        self.values = {}
        self.call = 0      # how many calls have been run
        self.prompt = 0    # how many tokens the first had

    # Values

    def keep(self, name, x):
        """End an operation: round its result and keep it under its name."""
        x = self.arith.out(np.asarray(x, self.arith.dtype))
        self.values.setdefault(name, []).append(x.reshape(x.shape[0], -1).copy())
        return x

    def dump(self):
        """Return all kept values as arrays of [tokens, width], in the order of computation."""
        return {name: np.concatenate(rows) for name, rows in self.values.items()}

    # Operations

    def linear(self, name, x):
        """Multiply with the matrix `name`.weight and add `name`.bias where there is one."""
        y = self.arith.out(self.arith.dot(x, self.w[name + ".weight"]))
        bias = self.w.get(name + ".bias")
        return y if bias is None else self.arith.out(y + bias)

    def norm(self, name, x):
        """Normalize with the weight and bias `name`, as the wiring does."""
        weight, bias = self.w.get(name + ".weight"), self.w.get(name + ".bias")
        eps = np.asarray(self.eps, x.dtype)
        return rms_norm(x, weight, eps) if self.norm_kind == "rms" else layer_norm(x, weight, bias, eps)

    # Running

    def forward(self, ids, start):
        """Run tokens that begin at position `start`; return the logits, or an encoder's last values."""
        positions = np.arange(start, start + len(ids))
        x = self.embed(np.asarray(ids), positions)
        for il in range(self.layers):
            x = self.layer(il, x, positions)
        self.call += 1
        return self.head(x)

    def run(self, ids, decode=0, forced=()):
        """Run a prompt at once, then decode one by one, greedily or along `forced`; return all token ids."""
        ids = list(ids)
        self.prompt = len(ids)
        logits = self.forward(ids, 0)
        for i in range(len(forced) or decode):
            ids.append(int(forced[i]) if len(forced) else int(np.argmax(np.nan_to_num(logits[-1]))))
            logits = self.forward(ids[-1:], len(ids) - 1)
        return ids

    def embed(self, ids, positions):
        """Look up the rows of the tokens."""
        return self.keep("inp_embd", self.w["token_embd.weight"][ids])

    def head(self, x):
        """Return logits, with the embedding's rows where the file has no head."""
        x = self.keep("result_norm", self.final_norm(x))
        return self.keep("result_output", self.logits(x))

    def final_norm(self, x):
        """Normalize the last layer's output."""
        return self.norm("output_norm", x)

    def logits(self, x):
        """Multiply with the head."""
        return self.linear("output" if "output.weight" in self.w else "token_embd", x)
