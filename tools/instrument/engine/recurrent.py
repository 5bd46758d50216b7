"""Layers with a state: short convolutions, Mamba, Mamba 2, gated delta rule. States live in the cache beside keys."""

import numpy as np

from .parts import ACTIVATIONS, l2_norm, rms_norm, sigmoid, softplus


class Recurrent:
    """The formulas of layers with a state, for wirings to mix in."""

    small_eps = None      # eps of the norms of step, input and output vectors, where it is not the file's
    smallest_step = 0.0   # below this, steps are cut off

    def state(self, il, kind, shape):
        """Return a state that the call before left, zero at first."""
        old = self.cache.get((il, kind))
        return np.zeros(shape, self.arith.dtype) if old is None else old

    def convolve(self, il, x, weight, bias=None):
        """Convolve each channel with its own kernel over the last tokens."""
        taps = weight.shape[-1]
        past = self.state(il, "conv", (taps - 1, x.shape[1]))
        rows = np.concatenate([past, x])
        self.cache[il, "conv"] = rows[-(taps - 1):]
        y = sum(rows[j:j + len(x)] * weight[:, j] for j in range(taps))
        return y if bias is None else y + bias

    def silu(self, x):
        """Return SiLU, the activation of convolutions and gates."""
        return ACTIVATIONS["silu"](x)

    # Mamba (Gu & Dao 2023): a state for each channel

    def mamba(self, il, x):
        """Return what a Mamba layer adds to the stream."""
        p = f"blk.{il}.ssm_"
        u, z = self.split_xz(self.keep(f"ssm_in-{il}", self.linear(p + "in", x)))
        u = self.convolve(il, u, self.w[p + "conv1d.weight"], self.w.get(p + "conv1d.bias"))
        u = self.keep(f"ssm_conv-{il}", self.conv_act(u))
        dt, b, c = self.split_dt_b_c(il, self.keep(f"ssm_x-{il}", self.linear(p + "x", u)))
        dt = self.step(self.dt_linear(il, dt))
        y = self.scan(il, u, dt, self.decay(il), b, c) + self.skip(il, u)
        y = self.keep(f"ssm_y-{il}", self.gate_state(y, z))
        return self.keep(f"ssm_out-{il}", self.linear(p + "out", y))

    def split_xz(self, xz):
        """Cut the first product into the scan's input and its gate."""
        half = xz.shape[1] // 2
        return xz[:, :half], xz[:, half:]

    def conv_act(self, x):
        """Apply the activation behind the convolution."""
        return self.silu(x)

    def split_dt_b_c(self, il, x):
        """Cut out step, input and output vectors; normalize them where the wiring does."""
        rank, size = self.file.get("ssm.time_step_rank"), self.file.get("ssm.state_size")
        parts = x[:, :rank], x[:, rank:rank + size], x[:, rank + size:]
        return tuple(self.small_norm(il, name, part) for name, part in zip(("dt", "b", "c"), parts))

    def small_norm(self, il, name, x):
        """Normalize step, input or output vectors, as Jamba does with weights and Falcon Mamba without."""
        weight = self.w.get(f"blk.{il}.ssm_{name}_norm.weight")
        if weight is None and not self.file.get("ssm.dt_b_c_rms"):
            return x
        return rms_norm(x, weight, np.asarray(self.small_eps or self.eps, x.dtype))

    def dt_linear(self, il, dt):
        """Widen the step to all channels and add its bias."""
        return self.linear(f"blk.{il}.ssm_dt", dt)

    def step(self, dt):
        """Make steps positive."""
        return np.maximum(softplus(dt), np.asarray(self.smallest_step, dt.dtype))

    def decay(self, il):
        """Return A, which the file holds as -exp(A_log)."""
        return self.w[f"blk.{il}.ssm_a"]

    def scan(self, il, u, dt, a, b, c):
        """Run the selective scan over the tokens."""
        h = self.state(il, "ssm", a.shape)
        out = np.empty_like(u)
        for t in range(len(u)):
            h = np.exp(dt[t][:, None] * a) * h + self.enter(dt[t], b[t], u[t])
            out[t] = h @ c[t]
        self.cache[il, "ssm"] = h
        return out

    def enter(self, dt, b, u):
        """Return what one token adds to the state."""
        return (dt * u)[:, None] * b

    def skip(self, il, u):
        """Return D times the scan's input."""
        return self.w[f"blk.{il}.ssm_d"] * u

    def gate_state(self, y, z):
        """Gate the scan's output."""
        return y * self.silu(z)

    # Mamba 2 (Dao & Gu 2024): heads that share one decay

    def mamba2(self, il, x):
        """Return what a Mamba 2 layer adds to the stream."""
        f, p = self.file, f"blk.{il}.ssm_"
        inner, size, groups, heads = (f.get("ssm." + k) for k in
                                      ("inner_size", "state_size", "group_count", "time_step_rank"))
        both = self.keep(f"ssm_in-{il}", self.linear(p + "in", x))
        z, u, dt = both[:, :inner], both[:, inner:-heads], both[:, -heads:]
        u = self.convolve(il, u, self.w[p + "conv1d.weight"], self.w.get(p + "conv1d.bias"))
        u = self.keep(f"ssm_conv-{il}", self.conv_act(u))
        u, b, c = self.split_x_b_c(u, inner, groups * size)
        b, c = (self.to_heads(v.reshape(len(x), groups, size), heads) for v in (b, c))
        u = u.reshape(len(x), heads, -1)
        dt = self.step(self.dt_bias(il, dt))
        y = self.scan_heads(il, u, dt, self.decay(il).reshape(-1), b, c) + self.skip_heads(il, u)
        y = self.norm_and_gate(il, y.reshape(len(x), inner), z, groups)
        return self.keep(f"ssm_out-{il}", self.linear(p + "out", self.keep(f"ssm_y-{il}", y)))

    def split_x_b_c(self, u, inner, width):
        """Cut the convolved product into the scan's input and its input and output vectors."""
        return u[:, :inner], u[:, inner:inner + width], u[:, inner + width:]

    def to_heads(self, x, heads):
        """Repeat each group's vector for its heads."""
        return np.repeat(x, heads // x.shape[1], 1)

    def dt_bias(self, il, dt):
        """Add the bias of the steps."""
        return dt + self.w[f"blk.{il}.ssm_dt.bias"]

    def scan_heads(self, il, u, dt, a, b, c):
        """Run the scan; the state of a head is [width, state]."""
        h = self.state(il, "ssm", u.shape[1:] + b.shape[2:])
        out = np.empty_like(u)
        for t in range(len(u)):
            h = np.exp(dt[t] * a)[:, None, None] * h + (dt[t][:, None] * u[t])[..., None] * b[t][:, None]
            out[t] = np.einsum("hds,hs->hd", h, c[t])
        self.cache[il, "ssm"] = h
        return out

    def skip_heads(self, il, u):
        """Return D times the scan's input, one D a head."""
        return self.w[f"blk.{il}.ssm_d"].reshape(-1)[:, None] * u

    def norm_and_gate(self, il, y, z, groups):
        """Gate first, then normalize each group."""
        return self.group_norm(il, y * self.silu(z), groups)

    def group_norm(self, il, y, groups):
        """Normalize each group of channels."""
        weight = self.w.get(f"blk.{il}.ssm_norm.weight")
        if weight is None:
            return y
        parts = rms_norm(y.reshape(len(y), groups, -1), None, np.asarray(self.eps, y.dtype))
        return parts.reshape(y.shape) * weight.reshape(-1)

    # Gated delta rule (Yang et al. 2024)

    def delta(self, il, x):
        """Return what a gated delta layer adds to the stream."""
        f, p, n = self.file, f"blk.{il}.", len(x)
        size, k_heads, v_heads = (f.get("ssm." + k) for k in ("state_size", "group_count", "time_step_rank"))
        mixed = self.keep(f"linear_attn_qkv_mixed-{il}", self.linear(p + "attn_qkv", x))
        z = self.keep(f"z-{il}", self.linear(p + "attn_gate", x)).reshape(n, v_heads, -1)
        ba = self.keep(f"linear_attn_mixed_ba-{il}", self.linear(p + "ssm_ba", x))
        beta, alpha = self.split_ba(ba, k_heads, v_heads)
        g = self.keep(f"gate-{il}", self.delta_decay(il, alpha))
        mixed = self.convolve(il, mixed, self.w[p + "ssm_conv1d.weight"])
        mixed = self.keep(f"conv_output_silu-{il}", self.conv_act(mixed))
        q, k, v = self.split_delta(mixed, k_heads * size)
        q, k = (self.to_heads(self.unit(part.reshape(n, k_heads, size)), v_heads) for part in (q, k))
        y = self.delta_scan(il, q, k, v.reshape(n, v_heads, -1), g, self.strength(beta))
        y = self.keep(f"delta_y-{il}", self.delta_gate(il, y, z).reshape(n, -1))
        return self.keep(f"linear_attn_out-{il}", self.linear(p + "ssm_out", y))

    def split_ba(self, ba, k_heads, v_heads):
        """Cut out strengths and decays, which lie side by side for each key head."""
        parts = ba.reshape(len(ba), k_heads, 2, -1)
        return parts[:, :, 0].reshape(len(ba), v_heads), parts[:, :, 1].reshape(len(ba), v_heads)

    def delta_decay(self, il, alpha):
        """Return the logarithm of the decay."""
        return self.decay(il) * self.step(self.dt_bias(il, alpha))

    def split_delta(self, mixed, width):
        """Cut the convolved product into q, k and v."""
        return mixed[:, :width], mixed[:, width:2 * width], mixed[:, 2 * width:]

    def unit(self, x):
        """Give q and k the length 1."""
        return l2_norm(x, np.asarray(self.eps, x.dtype))

    def strength(self, beta):
        """Squash how strongly a token writes."""
        return sigmoid(beta)

    def delta_scan(self, il, q, k, v, g, beta):
        """Run the rule; the state of a head is [key, value]."""
        s = self.state(il, "delta", (k.shape[1], k.shape[2], v.shape[2]))
        out = np.empty_like(v)
        for t in range(len(q)):
            s = np.exp(g[t])[:, None, None] * s
            s = s + k[t][..., None] * (beta[t][:, None] * (v[t] - self.recall(s, k[t])))[:, None]
            out[t] = np.einsum("hkv,hk->hv", s, self.query(q[t]))
        self.cache[il, "delta"] = s
        return out

    def recall(self, s, k):
        """Return what the state already knows of a key."""
        return np.einsum("hkv,hk->hv", s, k)

    def query(self, q):
        """Scale q."""
        return q / np.sqrt(np.asarray(q.shape[-1], q.dtype))

    def delta_gate(self, il, y, z):
        """Normalize each head, then gate it."""
        return rms_norm(y, self.w[f"blk.{il}.ssm_norm.weight"], np.asarray(self.eps, y.dtype)) * self.silu(z)

    # Short convolution (LFM 2)

    def short_convolution(self, il, x):
        """Return what a gated short convolution adds to the stream."""
        p = f"blk.{il}.shortconv."
        both = self.keep(f"model.layers.{{}}.conv.in_proj-{il}", self.linear(p + "in_proj", x))
        b, c, u = self.split_b_c_x(both)
        y = self.keep(f"model.layers.{{}}.conv.conv-{il}",
                      self.convolve(il, self.gate_before(b, u), self.w[p + "conv.weight"]))
        y = self.keep(f"shortconv_y-{il}", self.gate_behind(c, y))
        return self.keep(f"model.layers.{{}}.conv.out_proj-{il}", self.linear(p + "out_proj", y))

    def split_b_c_x(self, both):
        """Cut out the gate before the convolution, the gate behind it and its input."""
        return np.split(both, 3, -1)

    def gate_before(self, b, u):
        """Gate the convolution's input."""
        return b * u

    def gate_behind(self, c, y):
        """Gate the convolution's output."""
        return c * y
