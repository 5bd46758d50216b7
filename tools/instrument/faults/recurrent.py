"""Mamba 1 and 2, and what their convolutions and states share with other layers that have a state."""

import numpy as np

from engine.parts import rms_norm, sigmoid

from .tools import change, decoding, drop, fault, wrap

MAMBAS = "mamba falcon-mamba mamba2 jamba"


@fault("softplus-left-out", "takes the steps as they are, without softplus", "mamba mamba2 qwen3next jamba falcon-h1")
def _(e):
    e.step = lambda dt: dt


@fault("exp-for-softplus", "takes exp of the steps for softplus", "mamba bamba")
def _(e):
    e.step = np.exp


@fault("a-exponentiated-again", "takes -exp of A though the file holds -exp(A_log)", "mamba mamba2 jamba qwen3next")
def _(e):
    wrap(e, "decay", lambda inner, il: -np.exp(inner(il)))


@fault("a-taken-as-logarithm", "uses A_log for A, without exp", "mamba mamba2 qwen3next")
def _(e):
    wrap(e, "decay", lambda inner, il: np.log(-inner(il)))


@fault("a-of-other-sign", "lets states grow by exp(A) where they should decay", "mamba mamba2 bamba")
def _(e):
    wrap(e, "decay", lambda inner, il: -inner(il))


@fault("d-left-out", "does not add D times the scan's input", "mamba mamba2 jamba bamba nemotron-h")
def _(e):
    change(e, r"ssm_d", lambda d: 0 * d)


@fault("d-without-input", "adds D without the scan's input", "mamba")
def _(e):
    e.skip = lambda il, u: np.broadcast_to(e.w[f"blk.{il}.ssm_d"], u.shape)


@fault("state-gate-without-silu", "multiplies the scan's output with the gate as it is", "mamba mamba2 jamba qwen3next")
def _(e):
    if e.file.arch == "mamba" or e.file.arch == "jamba":
        e.gate_state = lambda y, z: y * z
    elif e.file.arch == "mamba2":
        e.norm_and_gate = lambda il, y, z, groups: e.group_norm(il, y * z, groups)
    else:
        wrap(e, "delta_gate", lambda inner, il, y, z: rms_norm(
            y, e.w[f"blk.{il}.ssm_norm.weight"], np.asarray(e.eps, y.dtype)) * z)


@fault("state-gate-by-sigmoid", "gates the scan's output with the sigmoid alone", "mamba qwen3next")
def _(e):
    if e.file.arch == "mamba":
        e.gate_state = lambda y, z: y * sigmoid(z)
    else:
        e.delta_gate = lambda il, y, z: rms_norm(
            y, e.w[f"blk.{il}.ssm_norm.weight"], np.asarray(e.eps, y.dtype)) * sigmoid(z)


@fault("state-gate-left-out", "does not gate the scan's output", "mamba falcon-mamba jamba")
def _(e):
    e.gate_state = lambda y, z: y


@fault("scan-input-and-gate-exchanged", "takes the second half of the first product for the scan's input",
       "mamba jamba")
def _(e):
    wrap(e, "split_xz", lambda inner, xz: inner(xz)[::-1])


@fault("conv-bias-left-out", "does not add the bias of the convolution", MAMBAS + " nemotron-h falcon-h1")
def _(e):
    drop(e, r"ssm_conv1d\.bias")


@fault("conv-reversed", "runs the kernel of the convolution backwards", "mamba mamba2 qwen3next lfm2 falcon-h1 lfm2moe")
def _(e):
    change(e, r"(ssm_conv1d|shortconv\.conv)\.weight", lambda w: w[:, ::-1].copy())


@fault("conv-activation-left-out", "applies no activation behind the convolution", "mamba mamba2 qwen3next")
def _(e):
    e.conv_act = lambda x: x


@fault("conv-activation-on-a-model-without", "applies SiLU behind a short convolution", "lfm2")
def _(e):
    wrap(e, "convolve", lambda inner, il, x, w, b=None: e.silu(inner(il, x, w)))


@fault("conv-left-out", "hands the convolution's input on", "mamba lfm2")
def _(e):
    e.convolve = lambda il, x, w, b=None: x


@fault("conv-sees-one-token-ahead", "shifts the convolution by one token into the future", "mamba lfm2")
def _(e):
    def convolve(inner, il, x, w, b=None):
        y = inner(il, x, w, b)
        return np.concatenate([y[1:], y[-1:]])
    wrap(e, "convolve", convolve)


@fault("conv-state-lost", "begins each call with an empty convolution", "mamba mamba2 lfm2 qwen3next jamba")
def _(e):
    wrap(e, "state", lambda inner, il, kind, shape: inner(il, kind, shape) * (kind != "conv"))


@fault("conv-state-one-short", "keeps one token too few for the convolution of the next call", "mamba lfm2")
def _(e):
    def state(inner, il, kind, shape):
        s = inner(il, kind, shape).copy()
        if kind == "conv":
            s[0] = 0
        return s
    wrap(e, "state", state)


@fault("scan-state-lost", "begins each call with an empty state",
       "mamba mamba2 jamba qwen3next bamba nemotron-h granitehybrid")
def _(e):
    wrap(e, "state", lambda inner, il, kind, shape: inner(il, kind, shape) * (kind == "conv"))


@fault("all-states-lost", "begins each call with empty states", "falcon-mamba qwen3next")
def _(e):
    wrap(e, "state", lambda inner, il, kind, shape: 0 * inner(il, kind, shape))


@fault("state-updated-twice-at-decode", "runs each decoded token through the state twice", "mamba mamba2")
def _(e):
    method = "scan" if e.file.arch == "mamba" else "scan_heads"

    def scan(inner, il, *args):
        if decoding(e):
            inner(il, *args)
        return inner(il, *args)
    wrap(e, method, scan)


@fault("step-bias-left-out", "does not add the bias of the steps", "mamba mamba2 jamba qwen3next")
def _(e):
    change(e, r"ssm_dt\.bias", lambda b: 0 * b)


@fault("step-bias-behind-softplus", "adds the bias of the steps behind softplus", "mamba mamba2")
def _(e):
    if e.file.arch == "mamba":
        kept = {il: e.w[f"blk.{il}.ssm_dt.bias"] for il in range(e.layers)}
        drop(e, r"ssm_dt\.bias")
        wrap(e, "dt_linear", lambda inner, il, dt: [setattr(e, "bias_now", kept[il]), inner(il, dt)][1])
    else:
        e.dt_bias = lambda il, dt: [setattr(e, "bias_now", e.w[f"blk.{il}.ssm_dt.bias"]), dt][1]
    wrap(e, "step", lambda inner, dt: inner(dt) + e.bias_now)


@fault("input-and-output-vectors-exchanged", "takes B for C and C for B", "mamba mamba2 jamba bamba")
def _(e):
    method = "split_dt_b_c" if e.file.arch in ("mamba", "jamba") else "split_x_b_c"
    wrap(e, method, lambda inner, *args: [inner(*args)[i] for i in (0, 2, 1)])


@fault("small-norms-left-out", "does not normalize step, input and output vectors", "falcon-mamba jamba")
def _(e):
    e.small_norm = lambda il, name, x: x


@fault("small-norms-without-need", "normalizes step, input and output vectors of a plain Mamba", "mamba")
def _(e):
    e.small_norm = lambda il, name, x: rms_norm(x, None, np.asarray(e.eps, x.dtype))


@fault("input-without-step", "does not multiply what enters the state with the step", "mamba jamba")
def _(e):
    e.enter = lambda dt, b, u: u[:, None] * b


@fault("input-held-exactly", "lets input enter by the exact hold, (exp(dt A) - 1) / A, in place of dt", "mamba")
def _(e):
    def scan(il, u, dt, a, b, c):
        h, out = e.state(il, "ssm", a.shape), np.empty_like(u)
        for t in range(len(u)):
            grow = np.exp(dt[t][:, None] * a)
            h = grow * h + (grow - 1) / a * u[t][:, None] * b[t]
            out[t] = h @ c[t]
        e.cache[il, "ssm"] = h
        return out
    e.scan = scan


@fault("state-forgets-each-token", "does not carry the state from token to token", "mamba")
def _(e):
    e.scan = lambda il, u, dt, a, b, c: dt * u * (b * c).sum(-1, keepdims=True)


@fault("state-read-before-update", "reads the state before the token has entered it", "mamba rwkv7")
def _(e):
    if e.file.arch == "mamba":
        def scan(il, u, dt, a, b, c):
            h, out = e.state(il, "ssm", a.shape), np.empty_like(u)
            for t in range(len(u)):
                out[t] = h @ c[t]
                h = np.exp(dt[t][:, None] * a) * h + e.enter(dt[t], b[t], u[t])
            e.cache[il, "ssm"] = h
            return out
    else:
        def scan(il, r, w, k, v, kk, a):
            s, out = e.wkv_state(il), np.empty_like(v)
            for t in range(len(r)):
                out[t] = np.einsum("hvk,hk->hv", s, r[t])
                known = np.einsum("hvk,hk->hv", s, kk[t])
                s = s * w[t][:, None] - known[..., None] * (kk[t] * a[t])[:, None] + v[t][..., None] * k[t][:, None]
            e.cache[il, "wkv"] = s
            return out
    e.scan = scan


@fault("norm-before-gate", "normalizes the scan's output first and gates it then",
       "mamba2 bamba nemotron-h granitehybrid")
def _(e):
    e.norm_and_gate = lambda il, y, z, groups: e.group_norm(il, y, groups) * e.silu(z)


@fault("gate-before-norm", "gates the output of the delta rule first and normalizes it then", "qwen3next")
def _(e):
    e.delta_gate = lambda il, y, z: rms_norm(
        y * e.silu(z), e.w[f"blk.{il}.ssm_norm.weight"], np.asarray(e.eps, y.dtype))


@fault("group-norm-over-the-row", "normalizes the whole row where groups are normalized", "mamba2")
def _(e):
    wrap(e, "group_norm", lambda inner, il, y, groups: inner(il, y, 1))


@fault("state-norm-left-out", "does not normalize the scan's output", "mamba2 bamba qwen3next")
def _(e):
    if e.file.arch == "qwen3next":
        e.delta_gate = lambda il, y, z: y * e.silu(z)
    else:
        drop(e, r"ssm_norm\.weight")


@fault("heads-take-groups-in-turn", "gives head h the group h modulo their number", "mamba2 qwen3next")
def _(e):
    e.to_heads = lambda x, heads: np.tile(x, (1, heads // x.shape[1], 1))


@fault("vectors-before-input", "takes the convolved product for B, C and input in this order", "mamba2 bamba")
def _(e):
    e.split_x_b_c = lambda u, inner, width: (u[:, 2 * width:], u[:, :width], u[:, width:2 * width])
