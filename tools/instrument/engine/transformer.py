"""Transformer blocks: attention with a cache, dense and mixed feed-forward, in the orders that wirings use."""

import math

import numpy as np

from .base import Engine
from .mixture import Mixture
from .parts import ACTIVATIONS, Rope, frequencies, softmax


def alibi_slopes(heads, limit=8.0):
    """Return ALiBi's slope of each head (Press et al. 2021), as llama.cpp continues them past a power of two."""
    whole = 2 ** math.floor(math.log2(heads))
    first, second = 2 ** (-limit / whole), 2 ** (-limit / 2 / whole)
    return np.array([first ** (h + 1) if h < whole else second ** (2 * (h - whole) + 1) for h in range(heads)])


class Transformer(Mixture, Engine):
    """A decoder or encoder of attention blocks. What wirings differ in is an attribute."""

    def __init__(self, path, arithmetic="f64"):
        super().__init__(path, arithmetic)
        f, n = self.file, self.layers
        self.heads = f.get("attention.head_count") or 1
        self.kv_heads = [h or 0 for h in f.per_layer("attention.head_count_kv", n, self.heads)]
        self.head_dim = f.get("attention.key_length") or self.width // self.heads
        self.value_dim = f.get("attention.value_length") or self.head_dim
        self.rope_dims = f.get("rope.dimension_count") or self.head_dim
        self.base = f.get("rope.freq_base", 10000.0)
        self.scale = 1 / math.sqrt(self.head_dim)
        self.softcap = f.get("attn_logit_softcapping")
        self.window = [None] * n
        self.causal = True
        self.slopes = None
        self.ropes = [self.rope("half")] * n
        self.activation = "silu"
        self.act_name = "ffn_swiglu"
        self.parallel = False
        self.embed_scale = f.get("embedding_scale")
        self.residual_scale = f.get("residual_scale")
        self.logit_scale = None
        self.final_cap = f.get("final_logit_softcapping")
        self.ffn_norm_weight = "ffn_norm"
        self.names = {"ffn_inp": "ffn_inp", "ffn_norm": "ffn_norm", "attn_post": "attn_post_norm",
                      "ffn_post": "ffn_post_norm"}
        self.set_up_mixture()

    def rope(self, pairs, base=None, factor=1.0, divide=None):
        """Return the plain rotation of this file, slowed by `factor`, its frequencies divided by `divide`."""
        freq = frequencies(base or self.base, self.rope_dims) / factor
        return Rope(freq if divide is None else freq / divide, pairs)

    # Embedding and head

    def embed(self, ids, positions):
        """Look up the tokens' rows, scale them, add learned positions."""
        x = self.w["token_embd.weight"][ids]
        if self.embed_scale:
            x = self.scale_embedding(x)
        else:
            x = self.keep("inp_embd", x)
        if "position_embd.weight" in self.w:
            x = self.keep("inpL", x + self.keep("pos_embd", self.learned_positions(positions)))
        if "token_embd_norm.weight" in self.w:
            x = self.keep("inp_norm-0", self.norm("token_embd_norm", x))
        return x

    def scale_embedding(self, x):
        """Multiply in the node that llama.cpp calls inp_embd."""
        return self.keep("inp_embd", x * np.asarray(self.embed_scale, x.dtype))

    def learned_positions(self, positions):
        """Return the rows of learned positions."""
        return self.w["position_embd.weight"][positions]

    def head(self, x):
        """Normalize, multiply with the head, scale and cap."""
        x = self.keep("result_norm", self.final_norm(x))
        y = self.logits(x)
        if self.logit_scale is not None:
            y = self.arith.out(y * np.asarray(self.logit_scale, y.dtype))
        if self.final_cap:
            y = self.cap(y, self.final_cap)
        return self.keep("result_output", y)

    def cap(self, x, limit):
        """Bend values into (-limit, limit)."""
        return (np.tanh(x / limit) * limit).astype(x.dtype)

    # Blocks

    def layer(self, il, x, positions):
        """Run one block."""
        if self.parallel:
            return self.parallel_block(il, x, positions)
        return self.sequential_block(il, x, positions)

    def sequential_block(self, il, x, positions):
        """Attention, added to the stream; then feed-forward, added to the stream."""
        a = self.mixer(il, self.pre_norm(il, x), positions)
        a = self.post_norm(il, a, "post_attention_norm", "attn_post")
        x = self.keep(f"{self.names['ffn_inp']}-{il}", self.add(x, a))
        y = self.ffn(il, self.ffn_norm(il, x))
        y = self.post_norm(il, y, "post_ffw_norm", "ffn_post")
        return self.keep(f"l_out-{il}", self.add(x, y))

    def parallel_block(self, il, x, positions):
        """Attention and feed-forward of the same input, both added to the stream."""
        h = self.pre_norm(il, x)
        a = self.mixer(il, h, positions)
        y = self.ffn(il, self.ffn_norm(il, x) if f"blk.{il}.ffn_norm.weight" in self.w else h)
        return self.keep(f"l_out-{il}", self.add(self.add(x, y), a))

    def mixer(self, il, x, positions):
        """Mix tokens; hybrids have something else than attention in some layers."""
        return self.attention(il, x, positions)

    def add(self, x, change):
        """Add what a block computed to the stream."""
        return x + (change * np.asarray(self.residual_scale, x.dtype) if self.residual_scale else change)

    def pre_norm(self, il, x):
        """Normalize a block's input."""
        if f"blk.{il}.attn_norm.weight" not in self.w:
            return x
        return self.keep(f"attn_norm-{il}", self.norm(f"blk.{il}.attn_norm", x))

    def ffn_norm(self, il, x):
        """Normalize the feed-forward's input."""
        if f"blk.{il}.{self.ffn_norm_weight}.weight" not in self.w:
            return x
        return self.keep(f"{self.names['ffn_norm']}-{il}", self.norm(f"blk.{il}.{self.ffn_norm_weight}", x))

    def post_norm(self, il, x, weight, site):
        """Normalize a block's output where the wiring does."""
        name = f"blk.{il}.{weight}"
        if weight == self.ffn_norm_weight or name + ".weight" not in self.w:
            return x
        return self.keep(f"{self.names[site]}-{il}", self.norm(name, x))

    # Attention

    def attention(self, il, x, positions):
        """Return what attention adds to the stream."""
        q, k, v = self.project(il, x)
        q, k = self.turn(il, q, k, positions)
        k, v, at = self.remember(il, k, v, positions)
        o = self.keep(f"kqv_out-{il}", self.attend(il, q, k, v, positions, at))
        return self.keep(f"attn_out-{il}", self.linear(f"blk.{il}.attn_output", self.gate_heads(il, o)))

    def gate_heads(self, il, o):
        """Gate the heads' outputs, where a wiring does."""
        return o

    def project(self, il, x):
        """Return q, k and v of [tokens, heads, head]."""
        p, n, kv = f"blk.{il}.", len(x), self.kv_heads[il]
        if p + "attn_qkv.weight" in self.w:
            q, k, v = self.split_qkv(il, self.project_fused(il, x))
            self.keep(f"Vcur-{il}", v)
        else:
            q, k, v = (self.project_one(il, x, part) for part in "qkv")
        return q.reshape(n, self.heads, -1), k.reshape(n, kv, -1), v.reshape(n, kv, -1)

    def project_fused(self, il, x):
        """Multiply with the fused matrix."""
        p = f"blk.{il}.attn_qkv"
        y = self.keep(f"wqkv-{il}", self.arith.dot(x, self.w[p + ".weight"]))
        return self.keep(f"wqkv_b-{il}", y + self.w[p + ".bias"]) if p + ".bias" in self.w else y

    def split_qkv(self, il, qkv):
        """Cut the fused product into q, k and v, one behind the other."""
        q, k = self.heads * self.head_dim, self.kv_heads[il] * self.head_dim
        return qkv[:, :q], qkv[:, q:q + k], qkv[:, q + k:]

    def project_one(self, il, x, part):
        """Multiply with the matrix of q, k or v and add its bias."""
        p, name = f"blk.{il}.attn_{part}", part.upper() + "cur"
        y = self.arith.dot(x, self.w[p + ".weight"])
        bias = self.w.get(p + ".bias")
        if part == "v" and bias is None:
            return self.keep(f"Vcur-{il}", y)
        y = self.keep(f"{name}.mul_mat-{il}", y)
        if bias is None:
            return y
        return self.keep(f"Vcur-{il}" if part == "v" else f"{name}.add-{il}", y + bias)

    def turn(self, il, q, k, positions):
        """Normalize the heads where the file has weights for it, then rotate."""
        q, k = self.head_norm(il, q, "q"), self.head_norm(il, k, "k")
        rope = self.ropes[il]
        if rope is not None:
            q, k = self.rotate(il, q, positions, "q"), self.rotate(il, k, positions, "k")
        return self.keep(f"Qcur-{il}", q), self.keep(f"Kcur-{il}", k)

    def rotate(self, il, x, positions, part):
        """Rotate q or k."""
        return self.ropes[il](x, positions)

    def head_norm(self, il, x, part):
        """Normalize each head, or the whole row where the weight is as wide as the row."""
        name = f"blk.{il}.attn_{part}_norm"
        weight = self.w.get(name + ".weight")
        if weight is None:
            return x
        rows = x.reshape(len(x), -1) if weight.size == x[0].size else x
        return self.keep(f"{part.upper()}cur_normed-{il}", self.norm(name, rows).reshape(x.shape))

    def remember(self, il, k, v, positions):
        """Write k and v into the cache; return all of it, with the position of each slot."""
        if not self.causal:
            return k, v, positions
        new = (self.arith.cache(k), self.arith.cache(v), positions)
        old = self.cache.get(il)
        self.cache[il] = new if old is None else tuple(np.concatenate(pair) for pair in zip(old, new))
        return self.cache[il]

    def attend(self, il, q, k, v, positions, at):
        """Return each head's mean of v, heads side by side."""
        group = self.group(il, q.shape[1], k.shape[1])
        k, v = k[:, group], v[:, group]
        scores = self.scores(il, q, k, positions, at)
        scores = np.where(self.mask(il, positions[:, None], at[None, :]), scores, -np.inf).astype(q.dtype)
        p = self.arith.out(self.soften(il, scores))
        return np.einsum("hij,jhd->ihd", p, v).reshape(len(q), -1)

    def group(self, il, heads, kv_heads):
        """Return which kv head each head reads."""
        return np.arange(heads) // (heads // kv_heads)

    def scores(self, il, q, k, positions, at):
        """Return scaled, capped and biased scores of [heads, tokens, slots]."""
        s = self.arith.out(np.einsum("ihd,jhd->hij", q, k) * np.asarray(self.scale, q.dtype))
        if self.softcap:
            s = self.cap(s, self.softcap)
        if self.slopes is not None:
            s = s + self.alibi(positions, at).astype(q.dtype)
        return s

    def alibi(self, positions, at):
        """Return the bias by distance."""
        return self.slopes[:, None, None] * (at[None, None, :] - positions[None, :, None])

    def mask(self, il, i, j):
        """Say whether position i may see position j."""
        window = self.window[il]
        if not self.causal:
            return np.full(np.broadcast(i, j).shape, True) if window is None else np.abs(i - j) <= window // 2
        return (j <= i) if window is None else (j <= i) & (i - j < window)

    def soften(self, il, scores):
        """Turn scores into weights."""
        sinks = self.w.get(f"blk.{il}.attn_sinks.weight")
        if sinks is None:
            return softmax(scores)
        sink = np.broadcast_to(sinks[:, None, None], scores.shape[:2] + (1,)).astype(scores.dtype)
        return softmax(np.concatenate([scores, sink], -1))[..., :-1]

    # Feed-forward

    def act(self, x):
        """Apply the activation function."""
        return ACTIVATIONS[self.activation](x)

    def ffn(self, il, x):
        """Return what the feed-forward adds to the stream."""
        p = f"blk.{il}."
        if p + "ffn_gate_inp.weight" in self.w:
            return self.mixture(il, x)
        if p + "ffn_gate.weight" in self.w:
            gate = self.keep(f"ffn_gate-{il}", self.linear(p + "ffn_gate", x))
            up = self.keep(f"ffn_up-{il}", self.linear(p + "ffn_up", x))
            hidden = self.keep(f"{self.act_name}-{il}", self.gate_up(gate, up))
        else:
            up = self.keep(f"ffn_up-{il}", self.linear(p + "ffn_up", x))
            if up.shape[1] == 2 * self.w[p + "ffn_down.weight"].shape[1]:
                hidden = self.keep(f"{self.act_name}-{il}", self.gate_up(*self.split_gate_up(up)))
            else:
                hidden = self.keep(f"{self.act_name}-{il}", self.act(up))
        return self.keep(f"ffn_out-{il}", self.linear(p + "ffn_down", hidden))

    def split_gate_up(self, both):
        """Cut a fused product into gate and up."""
        half = both.shape[-1] // 2
        return both[..., :half], both[..., half:]

    def gate_up(self, gate, up):
        """Multiply what the gate lets through."""
        return self.act(gate) * up
