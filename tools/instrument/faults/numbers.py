"""Numbers that overflow, stick, are lost or were never computed."""

import numpy as np

from engine.arithmetic import to_f16

from .tools import decoding, fault, wrap


def on_value(e, name, edit):
    """Edit a value when it is kept, so that all that follows has the edited one."""
    wrap(e, "keep", lambda inner, n, x: inner(n, edit(np.array(x)) if n == name else x))


@fault("clipped-at-65504", "clips the feed-forward's hidden values to what half precision can hold", "llama-large")
def _(e):
    on_value(e, "ffn_swiglu-1", lambda x: np.clip(x, -65504, 65504))


@fault("overflow-to-infinity", "keeps the feed-forward's hidden values in half precision, where they overflow",
       "llama-large")
def _(e):
    on_value(e, "ffn_swiglu-1", to_f16)


@fault("row-of-nan", "leaves one token's attention undefined", "llama gemma2 gpt2 olmo")
def _(e):
    def edit(x):
        if not decoding(e):
            x[4] = np.nan
        return x
    on_value(e, "kqv_out-1", edit)


@fault("last-row-of-prompt-zero", "does not compute the last row of the prompt in one layer", "qwen2 bert phi3")
def _(e):
    def edit(x):
        if not decoding(e):
            x[-1] = 0
        return x
    on_value(e, "ffn_out-1", edit)


@fault("rows-behind-a-tile-zero", "computes the first eight rows of a prompt only", "llama stablelm")
def _(e):
    def edit(x):
        x[8:] = 0
        return x
    on_value(e, "attn_out-0", edit)


@fault("stream-doubled", "doubles the stream behind the first layer", "llama gemma3 falcon mamba")
def _(e):
    on_value(e, "l_out-0", lambda x: 2 * x)


@fault("stream-times-0.37", "scales the stream behind the second layer by 0.37", "qwen3 gpt2")
def _(e):
    on_value(e, "l_out-1", lambda x: np.asarray(0.37, x.dtype) * x)


@fault("product-tail-not-computed", "leaves the last columns of a product zero", "llama gpt2 qwen2 nemotron")
def _(e):
    def edit(x):
        x[:, -5:] = 0
        return x
    on_value(e, "ffn_up-0", edit)


@fault("sum-tail-left-out", "leaves the last sixteen inputs out of each product of ffn_down", "qwen2 gemma2 stablelm")
def _(e):
    for il in range(e.layers):
        w = e.w[f"blk.{il}.ffn_down.weight"].copy()
        w[:, -16:] = 0
        e.w[f"blk.{il}.ffn_down.weight"] = w


@fault("stale-row-at-decode", "shows the row of the last prompt token where a decoded token's belongs", "llama phi2")
def _(e):
    last = {}

    def edit(x):
        if not decoding(e):
            last["row"] = x[-1:].copy()
        return last["row"].copy() if decoding(e) else x
    on_value(e, "ffn_out-0", edit)


@fault("noise-of-five-percent", "adds noise of 5 % to the feed-forward's output", "llama gemma2")
def _(e):
    draw = np.random.default_rng(22)
    on_value(e, "ffn_out-1", lambda x: x + (0.05 * x.std() * draw.standard_normal(x.shape)).astype(x.dtype))


@fault("rows-exchanged", "exchanges two tokens' rows of attention's output", "qwen3 bloom")
def _(e):
    def edit(x):
        if not decoding(e):
            x[[2, 3]] = x[[3, 2]]
        return x
    on_value(e, "attn_out-1", edit)
