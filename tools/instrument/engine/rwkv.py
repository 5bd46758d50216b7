"""RWKV 6 and 7: token shifts, and a state of outer products of keys and values (Peng et al. 2024, 2025)."""

import math

import numpy as np

from .base import Engine
from .parts import layer_norm, sigmoid, ACTIVATIONS


class Rwkv(Engine):
    """What both versions share."""

    causal = True

    def __init__(self, path, arithmetic="f64"):
        super().__init__(path, arithmetic)
        self.head_dim = self.file.get("wkv.head_size")
        self.heads = self.width // self.head_dim
        self.group_eps = 64e-5

    def embed(self, ids, positions):
        """Look up the rows and normalize them."""
        x = super().embed(ids, positions)
        return self.keep("inp_norm-0", self.norm("token_embd_norm", x)) if "token_embd_norm.weight" in self.w else x

    def layer(self, il, x, positions):
        """Mix over time, then over channels; both are added to the stream."""
        p = f"blk.{il}."
        h = self.keep(f"attn_norm-{il}", self.norm(p + "attn_norm", x))
        x = self.keep(f"ffn_inp-{il}", x + self.time_mix(il, h, self.shift(il, "time", h) - h))
        h = self.keep(f"ffn_norm-{il}", self.norm(p + "attn_norm_2", x))
        return self.keep(f"l_out-{il}", x + self.channel_mix(il, h, self.shift(il, "channel", h) - h))

    def shift(self, il, kind, x):
        """Return each token's predecessor; the first of a call has the last of the call before."""
        last = self.cache.get((il, kind), np.zeros_like(x[:1]))
        self.cache[il, kind] = x[-1:]
        return np.concatenate([last, x[:-1]])

    def dot(self, il, name, x):
        """Multiply with a matrix of the layer."""
        return self.arith.out(self.arith.dot(x, self.w[f"blk.{il}.{name}.weight"]))

    def weight(self, il, name):
        """Return a vector of the layer."""
        return self.w[f"blk.{il}.{name}.weight"].reshape(-1)

    def to_heads(self, x):
        """Cut rows into heads."""
        return x.reshape(len(x), self.heads, self.head_dim)

    def group_norm(self, il, y):
        """Normalize each head, then apply weight and bias of the row."""
        rows = layer_norm(y, None, None, np.asarray(self.group_eps, y.dtype)).reshape(len(y), -1)
        return rows * self.weight(il, "time_mix_ln") + self.w[f"blk.{il}.time_mix_ln.bias"]

    def square(self, x):
        """Return the squared ReLU."""
        return np.maximum(x, 0) ** 2

    def finish(self, il, y):
        """Multiply with the output's matrix."""
        return self.keep(f"time_mix_out-{il}", self.dot(il, "time_mix_output", self.keep(f"wkv_y-{il}", y)))

    def wkv_state(self, il):
        """Return the state that the call before left."""
        return self.cache.get((il, "wkv"), np.zeros((self.heads, self.head_dim, self.head_dim), self.arith.dtype))


class Rwkv6(Rwkv):
    """RWKV 6, Finch."""

    def time_mix(self, il, x, gap):
        """Return what the time mix adds to the stream."""
        w, k, v, r, g = self.mixed_inputs(il, x, gap)
        r, k, v = (self.to_heads(self.dot(il, "time_mix_" + name, part))
                   for name, part in (("receptance", r), ("key", k), ("value", v)))
        g = self.gate(self.dot(il, "time_mix_gate", g))
        w = self.dot(il, "time_mix_decay_w2", np.tanh(self.dot(il, "time_mix_decay_w1", w)))
        w = self.to_heads(self.decay(w + self.weight(il, "time_mix_decay")))
        y = self.group_norm(il, self.scan(il, r, w, k, v))
        return self.finish(il, y * g)

    def mixed_inputs(self, il, x, gap):
        """Return five mixtures of each token and its predecessor, by shares that depend on both."""
        share = self.w[f"blk.{il}.time_mix_lerp_fused.weight"].reshape(5, -1)
        low = np.tanh(self.dot(il, "time_mix_w1", x + gap * self.weight(il, "time_mix_lerp_x")))
        low = low.reshape(len(x), 5, -1)
        return [x + gap * (share[i] + self.dynamic(il, low[:, i], i)) for i in range(5)]

    def dynamic(self, il, low, i):
        """Return the part of a share that depends on the tokens."""
        return self.arith.dot(low, self.w[f"blk.{il}.time_mix_w2.weight"][i])

    def decay(self, w):
        """Return how much of the state stays."""
        return np.exp(-np.exp(w))

    def gate(self, g):
        """Return the gate of the output."""
        return ACTIVATIONS["silu"](g)

    def scan(self, il, r, w, k, v):
        """Run over the tokens; the state of a head is [key, value]."""
        first = self.first(il)
        s, out = self.wkv_state(il), np.empty_like(v)
        for t in range(len(r)):
            new = k[t][..., None] * v[t][:, None]
            out[t] = np.einsum("hk,hkv->hv", r[t], s + first[..., None] * new)
            s = w[t][..., None] * s + new
        self.cache[il, "wkv"] = s
        return out

    def first(self, il):
        """Return the weight of a token for itself."""
        return self.w[f"blk.{il}.time_mix_first.weight"].reshape(self.heads, -1)

    def channel_mix(self, il, x, gap):
        """Return what the channel mix adds to the stream."""
        k = self.square(self.dot(il, "channel_mix_key", x + gap * self.weight(il, "channel_mix_lerp_k")))
        r = self.receive(self.dot(il, "channel_mix_receptance", x + gap * self.weight(il, "channel_mix_lerp_r")))
        return self.keep(f"ffn_out-{il}", r * self.dot(il, "channel_mix_value", k))

    def receive(self, r):
        """Squash the receptance."""
        return sigmoid(r)


class Rwkv7(Rwkv):
    """RWKV 7, Goose."""

    order = "rwkvag"

    def time_mix(self, il, x, gap):
        """Return what the time mix adds to the stream."""
        share = self.w[f"blk.{il}.time_mix_lerp_fused.weight"].reshape(6, -1)
        mixed = {name: x + gap * share[i] for i, name in enumerate(self.order)}
        r, k, v = (self.dot(il, "time_mix_" + name, mixed[name[0]]) for name in ("receptance", "key", "value"))
        w = self.decay(self.weight(il, "time_mix_w0")
                       + self.dot(il, "time_mix_w2", np.tanh(self.dot(il, "time_mix_w1", mixed["w"]))))
        v = self.value(il, v, mixed["v"])
        g = self.dot(il, "time_mix_g2", sigmoid(self.dot(il, "time_mix_g1", mixed["g"])))
        a = self.rate(self.weight(il, "time_mix_a0") + self.two(il, "time_mix_a", mixed["a"]))
        kk = self.unit(self.to_heads(k * self.weight(il, "time_mix_k_k")))
        k = self.key(il, k, a)
        r, w, k, v, a = map(self.to_heads, (r, w, k, v, a))
        y = self.group_norm(il, self.scan(il, r, w, k, v, kk, a)) + self.bonus(il, r, k, v)
        return self.finish(il, self.gate(y, g))

    def two(self, il, name, x):
        """Multiply with two narrow matrices."""
        return self.dot(il, name + "2", self.dot(il, name + "1", x))

    def decay(self, w):
        """Return how much of the state stays."""
        return np.exp(np.asarray(-math.exp(-0.5), w.dtype) * sigmoid(w))

    def value(self, il, v, x):
        """Mix the first layer's values in."""
        if il == 0:
            self.first_value = v
            return v
        return v + (self.first_value - v) * sigmoid(self.weight(il, "time_mix_v0") + self.two(il, "time_mix_v", x))

    def rate(self, a):
        """Squash the rate of learning in context."""
        return sigmoid(a)

    def unit(self, kk):
        """Give the removal key the length 1."""
        return kk / np.maximum(np.sqrt((kk * kk).sum(-1, keepdims=True)), 1e-12)

    def key(self, il, k, a):
        """Replace part of the key by what the rate leaves of it."""
        return k * (1 + (a - 1) * self.weight(il, "time_mix_k_a"))

    def scan(self, il, r, w, k, v, kk, a):
        """Run over the tokens; the state of a head is [value, key]."""
        s, out = self.wkv_state(il), np.empty_like(v)
        for t in range(len(r)):
            known = np.einsum("hvk,hk->hv", s, kk[t])
            s = s * w[t][:, None] - known[..., None] * (kk[t] * a[t])[:, None] + v[t][..., None] * k[t][:, None]
            out[t] = np.einsum("hvk,hk->hv", s, r[t])
        self.cache[il, "wkv"] = s
        return out

    def bonus(self, il, r, k, v):
        """Return a token's own value, by how its r and k agree."""
        agree = (r * k * self.weight(il, "time_mix_r_k").reshape(self.heads, -1)).sum(-1, keepdims=True)
        return (agree * v).reshape(len(v), -1)

    def gate(self, y, g):
        """Gate the output."""
        return y * g

    def channel_mix(self, il, x, gap):
        """Return what the channel mix adds to the stream."""
        k = self.dot(il, "channel_mix_key", x + gap * self.weight(il, "channel_mix_lerp_k"))
        return self.keep(f"ffn_out-{il}", self.dot(il, "channel_mix_value", self.square(k)))
