"""RWKV 6 and 7: token shifts, decays, states, mixes."""

import numpy as np

from engine.parts import sigmoid

from .tools import fault, wrap


@fault("token-shift-left-out", "gives each token itself for its predecessor", "rwkv7 rwkv6")
def _(e):
    e.shift = lambda il, kind, x: x


@fault("token-shift-lost-between-calls", "gives the first token of a call no predecessor", "rwkv7 rwkv6")
def _(e):
    wrap(e, "shift", lambda inner, il, kind, x: np.concatenate([0 * x[:1], inner(il, kind, x)[1:]]))


@fault("channel-shift-lost-between-calls", "gives the first token of a call no predecessor in the channel mix", "rwkv7")
def _(e):
    wrap(e, "shift", lambda inner, il, kind, x:
         np.concatenate([0 * x[:1], inner(il, kind, x)[1:]]) if kind == "channel" else inner(il, kind, x))


@fault("shift-of-the-stream", "shifts the stream in place of its norm in the time mix", "rwkv7 rwkv6")
def _(e):
    def layer(il, x, positions):
        p = f"blk.{il}."
        h = e.keep(f"attn_norm-{il}", e.norm(p + "attn_norm", x))
        x = e.keep(f"ffn_inp-{il}", x + e.time_mix(il, h, e.shift(il, "time", x) - h))
        h = e.keep(f"ffn_norm-{il}", e.norm(p + "attn_norm_2", x))
        return e.keep(f"l_out-{il}", x + e.channel_mix(il, h, e.shift(il, "channel", h) - h))
    e.layer = layer


@fault("wkv-state-lost", "begins each call with an empty state of keys and values", "rwkv7 rwkv6")
def _(e):
    wrap(e, "wkv_state", lambda inner, il: 0 * inner(il))


@fault("wkv-state-transposed-at-decode", "reads the stored state with keys and values exchanged", "rwkv7 rwkv6")
def _(e):
    wrap(e, "wkv_state", lambda inner, il: inner(il).swapaxes(1, 2).copy())


@fault("decay-once-exponentiated", "takes exp(-w) for exp(-exp(w))", "rwkv6")
def _(e):
    e.decay = lambda w: np.exp(-np.abs(w))


@fault("decay-of-version-6", "takes RWKV 6's exp(-exp(w)) for RWKV 7's decay", "rwkv7")
def _(e):
    e.decay = lambda w: np.exp(-np.exp(w))


@fault("decay-without-root-of-e", "leaves the factor exp(-1/2) out of RWKV 7's decay", "rwkv7")
def _(e):
    e.decay = lambda w: np.exp(-sigmoid(w))


@fault("first-value-left-out", "does not mix the first layer's values in", "rwkv7")
def _(e):
    e.value = lambda il, v, x: v


@fault("first-value-mixed-the-other-way", "takes the share of the first layer's values for that of the layer's own",
       "rwkv7")
def _(e):
    def value(inner, il, v, x):
        return v if il == 0 and inner(il, v, x) is v else v + e.first_value - inner(il, v, x)
    wrap(e, "value", value)


@fault("removal-key-not-unit", "does not give the removal key the length 1", "rwkv7")
def _(e):
    e.unit = lambda kk: kk


@fault("learning-rate-of-one", "takes 1 for the rate of learning in context", "rwkv7")
def _(e):
    e.rate = lambda a: np.ones_like(a)


@fault("learning-rate-not-squashed", "takes the rate of learning in context without its sigmoid", "rwkv7")
def _(e):
    e.rate = lambda a: a


@fault("key-not-replaced", "leaves the key whole where the rate should take a part", "rwkv7")
def _(e):
    e.key = lambda il, k, a: k


@fault("bonus-left-out", "does not add a token's own value", "rwkv7 rwkv6")
def _(e):
    if e.file.arch == "rwkv7":
        e.bonus = lambda il, r, k, v: np.zeros((len(v), e.width), v.dtype)
    else:
        wrap(e, "first", lambda inner, il: 0 * inner(il))


@fault("bonus-of-one", "gives a token the weight 1 for itself", "rwkv6")
def _(e):
    wrap(e, "first", lambda inner, il: np.ones_like(inner(il)))


@fault("head-group-norm-left-out", "does not normalize the heads' outputs", "rwkv7 rwkv6")
def _(e):
    e.group_norm = lambda il, y: y.reshape(len(y), -1)


@fault("head-group-norm-over-the-row", "normalizes all heads of a row together", "rwkv7 rwkv6")
def _(e):
    wrap(e, "group_norm", lambda inner, il, y: _row_norm(e, il, y))


def _row_norm(e, il, y):
    """Normalize the whole row with the weights of the group norm."""
    x = y.reshape(len(y), -1)
    rows = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + e.group_eps)
    return rows * e.weight(il, "time_mix_ln") + e.w[f"blk.{il}.time_mix_ln.bias"]


@fault("time-gate-left-out", "does not gate the time mix", "rwkv7 rwkv6")
def _(e):
    e.gate = (lambda y, g: y) if e.file.arch == "rwkv7" else np.ones_like


@fault("time-gate-by-sigmoid", "gates RWKV 6's time mix with the sigmoid in place of SiLU", "rwkv6")
def _(e):
    e.gate = sigmoid


@fault("mixtures-in-other-order", "takes the shares for r, k, v, w, a, g in this order", "rwkv7")
def _(e):
    e.order = "rkvwag"


@fault("shares-without-tokens", "mixes each token and its predecessor by fixed shares", "rwkv6")
def _(e):
    e.dynamic = lambda il, low, i: np.zeros((len(low), e.width), low.dtype)


@fault("channel-mix-not-squared", "does not square the ReLU of the channel mix", "rwkv7 rwkv6")
def _(e):
    e.square = lambda x: np.maximum(x, 0)


@fault("receptance-not-squashed", "takes the channel mix's receptance without its sigmoid", "rwkv6")
def _(e):
    e.receive = lambda r: r
