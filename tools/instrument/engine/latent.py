"""Multi-head latent attention (DeepSeek V2): keys and values come from one narrow vector a token, absorbed form."""

import math

import numpy as np

from .parts import Rope, frequencies
from .transformer import Transformer


class DeepSeek2(Transformer):
    """DeepSeek V2 and V3. The absorbed form is what files hold: k_b acts on q, v_b on the mean of the latents."""

    def __init__(self, *args):
        super().__init__(*args)
        f = self.file
        self.rank = f.get("attention.kv_lora_rank")
        self.q_width = f.get("attention.key_length_mla")
        self.v_width = f.get("attention.value_length_mla")
        self.nope = self.q_width - self.rope_dims
        self.scale = 1 / math.sqrt(self.q_width)
        self.ropes = [Rope(frequencies(self.base, self.rope_dims), "interleaved")] * self.layers

    def project(self, il, x):
        """Return absorbed q, the latent with the rotated key, and the latent; rotation included."""
        p, n = f"blk.{il}.", len(x)
        q = self.keep(f"q-{il}", self.project_q(il, x)).reshape(n, self.heads, -1)
        both = self.keep(f"kv_cmpr_pe-{il}", self.arith.dot(x, self.w[p + "attn_kv_a_mqa.weight"]))
        latent, k_pe = self.split_latent(both)
        q_nope, q_pe = self.split_q(q)
        q_pe = self.keep(f"q_pe-{il}", self.rotate(il, q_pe, self.at, "q"))
        k_pe = self.keep(f"k_pe-{il}", self.rotate(il, k_pe[:, None], self.at, "k"))
        latent = self.keep(f"kv_cmpr-{il}", self.latent_norm(il, latent))[:, None]
        absorbed = self.keep(f"q_nope_absorbed-{il}", np.einsum("thn,hrn->thr", q_nope, self.w[p + "attn_k_b.weight"]))
        q = self.keep(f"Qcur-{il}", np.concatenate([absorbed, q_pe], -1))
        k = self.keep(f"Kcur-{il}", np.concatenate([latent, k_pe], -1))
        return q, k, self.keep(f"Vcur-{il}", latent)

    def project_q(self, il, x):
        """Multiply with the matrix of q, or with two narrow ones and a norm between."""
        p = f"blk.{il}."
        if p + "attn_q.weight" in self.w:
            return self.arith.dot(x, self.w[p + "attn_q.weight"])
        return self.arith.dot(self.query_norm(il, self.linear(p + "attn_q_a", x)), self.w[p + "attn_q_b.weight"])

    def query_norm(self, il, x):
        """Normalize the narrow q."""
        return self.norm(f"blk.{il}.attn_q_a_norm", x)

    def split_latent(self, both):
        """Cut into the latent and the key that is rotated."""
        return both[:, :self.rank], both[:, self.rank:]

    def split_q(self, q):
        """Cut each head into what is not rotated and what is."""
        return q[..., :self.nope], q[..., self.nope:]

    def latent_norm(self, il, latent):
        """Normalize the latent."""
        return self.norm(f"blk.{il}.attn_kv_a_norm", latent)

    def turn(self, il, q, k, positions):
        """Return q and k, which have been rotated."""
        return q, k

    def attention(self, il, x, positions):
        """Remember the positions for the rotation inside of the projection."""
        self.at = positions
        return super().attention(il, x, positions)

    def attend(self, il, q, k, v, positions, at):
        """Widen the mean of the latents to each head's values."""
        o = super().attend(il, q, k, v, positions, at).reshape(len(q), self.heads, -1)
        return np.einsum("thr,hvr->thv", o, self.w[f"blk.{il}.attn_v_b.weight"]).reshape(len(q), -1)
