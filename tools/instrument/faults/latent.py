"""Latent attention: narrow vectors, their norms, and what of them is rotated."""

import numpy as np

from engine.parts import rms_norm, softmax

from .tools import change, fault, wrap


@fault("latent-norm-left-out", "does not normalize the latent", "deepseek2-v2 deepseek2-lite")
def _(e):
    e.latent_norm = lambda il, latent: latent


@fault("query-latent-norm-left-out", "does not normalize the narrow q", "deepseek2-v2 deepseek2-v3")
def _(e):
    e.query_norm = lambda il, x: x


@fault("rotated-part-first", "takes the first part of each head of q for the one that is rotated",
       "deepseek2-v2 deepseek2-v3")
def _(e):
    e.split_q = lambda q: (q[..., e.rope_dims:], q[..., :e.rope_dims])


@fault("rotated-key-first", "takes the first part of the narrow product for the key that is rotated", "deepseek2-v2")
def _(e):
    e.split_latent = lambda both: (both[:, e.rope_dims:], both[:, :e.rope_dims])


@fault("score-scale-of-unrotated-part", "scales scores by the root of the part that is not rotated",
       "deepseek2-v2 deepseek2-v3")
def _(e):
    e.scale = e.nope ** -0.5


@fault("score-scale-of-latent", "scales scores by the root of the absorbed width", "deepseek2-lite")
def _(e):
    e.scale = (e.rank + e.rope_dims) ** -0.5


@fault("rotated-key-left-out", "scores with the latent alone", "deepseek2-v2")
def _(e):
    wrap(e, "rotate", lambda inner, il, x, p, part: inner(il, x, p, part) * (part == "q"))


@fault("norm-over-latent-and-key", "normalizes the latent and the rotated key together", "deepseek2-v3")
def _(e):
    def split(both):
        rows = rms_norm(both, None, np.asarray(e.eps, both.dtype))
        e.together = rows[:, :e.rank]
        return both[:, :e.rank], rows[:, e.rank:]
    e.split_latent = split
    e.latent_norm = lambda il, latent: e.together * e.w[f"blk.{il}.attn_kv_a_norm.weight"]


@fault("value-heads-of-next", "widens each head's mean by the matrix of the next head", "deepseek2-v2 deepseek2-lite")
def _(e):
    change(e, r"attn_v_b\.weight", lambda w: np.roll(w, -1, 0))


@fault("latent-softmax-over-heads", "takes the softmax over the heads in place of the tokens", "deepseek2-v2 llama")
def _(e):
    e.soften = lambda il, s: np.where(np.isfinite(s), softmax(np.where(np.isfinite(s), s, -1e9).T).T, 0).astype(s.dtype)
