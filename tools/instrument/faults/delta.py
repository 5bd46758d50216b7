"""Gated delta rules, and short convolutions."""

import numpy as np

from engine.parts import sigmoid

from .tools import fault, wrap


@fault("delta-vectors-not-unit", "does not give q and k of the delta rule the length 1", "qwen3next")
def _(e):
    e.unit = lambda x: x


@fault("delta-query-not-scaled", "does not scale q of the delta rule", "qwen3next")
def _(e):
    e.query = lambda q: q


@fault("delta-strength-not-squashed", "takes the delta rule's strength without its sigmoid", "qwen3next")
def _(e):
    e.strength = lambda beta: beta


@fault("delta-strength-doubled", "doubles the delta rule's strength, as variants with negative eigenvalues do",
       "qwen3next")
def _(e):
    e.strength = lambda beta: 2 * sigmoid(beta)


@fault("delta-decay-left-out", "lets the delta rule's state stay whole", "qwen3next")
def _(e):
    wrap(e, "delta_decay", lambda inner, il, alpha: 0 * inner(il, alpha))


@fault("delta-decay-not-exponentiated", "multiplies the state with the logarithm of the decay plus one", "qwen3next")
def _(e):
    wrap(e, "delta_decay", lambda inner, il, alpha: np.log(np.maximum(1 + inner(il, alpha), 1e-6)))


@fault("delta-without-recall", "writes values without what the state knows already, as linear attention", "qwen3next")
def _(e):
    e.recall = lambda s, k: np.zeros((s.shape[0], s.shape[2]), s.dtype)


@fault("delta-recall-before-decay", "asks the state before it has decayed", "qwen3next")
def _(e):
    def scan(il, q, k, v, g, beta):
        s, out = e.state(il, "delta", (k.shape[1], k.shape[2], v.shape[2])), np.empty_like(v)
        for t in range(len(q)):
            known = e.recall(s, k[t])
            s = np.exp(g[t])[:, None, None] * s + k[t][..., None] * (beta[t][:, None] * (v[t] - known))[:, None]
            out[t] = np.einsum("hkv,hk->hv", s, e.query(q[t]))
        e.cache[il, "delta"] = s
        return out
    e.delta_scan = scan


@fault("delta-q-and-k-exchanged", "takes q of the delta rule for k and k for q", "qwen3next")
def _(e):
    wrap(e, "split_delta", lambda inner, mixed, width: [inner(mixed, width)[i] for i in (1, 0, 2)])


@fault("delta-strength-and-decay-exchanged", "takes strengths for decays and decays for strengths", "qwen3next")
def _(e):
    wrap(e, "split_ba", lambda inner, ba, k, v: inner(ba, k, v)[::-1])


@fault("delta-strength-and-decay-not-by-head", "cuts strengths and decays into halves of the row, not of each key head",
       "qwen3next")
def _(e):
    e.split_ba = lambda ba, k, v: (ba[:, :v], ba[:, v:])


# Short convolution

@fault("conv-gates-exchanged", "exchanges the gates before and behind a short convolution", "lfm2")
def _(e):
    wrap(e, "split_b_c_x", lambda inner, both: [inner(both)[i] for i in (1, 0, 2)])


@fault("conv-input-first", "takes the first third of a short convolution's product for its input", "lfm2")
def _(e):
    wrap(e, "split_b_c_x", lambda inner, both: [inner(both)[i] for i in (1, 2, 0)])


@fault("conv-gate-before-left-out", "does not gate a short convolution's input", "lfm2")
def _(e):
    e.gate_before = lambda b, u: u


@fault("conv-gate-behind-left-out", "does not gate a short convolution's output", "lfm2")
def _(e):
    e.gate_behind = lambda c, y: y


@fault("conv-gates-by-sigmoid", "squashes the gates of a short convolution", "lfm2")
def _(e):
    e.gate_before = lambda b, u: sigmoid(b) * u
    e.gate_behind = lambda c, y: sigmoid(c) * y
