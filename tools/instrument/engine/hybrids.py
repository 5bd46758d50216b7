"""Models with layers that have a state: all of them, or beside attention."""

from .parts import ACTIVATIONS
from .recurrent import Recurrent
from .transformer import Transformer


class Mamba(Recurrent, Transformer):
    """Mamba 1 and 2: a norm and a layer with a state, added to the stream."""

    def layer(self, il, x, positions):
        """Run one block."""
        y = (self.mamba2 if self.file.arch == "mamba2" else self.mamba)(il, self.pre_norm(il, x))
        return self.keep(f"l_out-{il}", x + y)


class Jamba(Recurrent, Transformer):
    """Jamba: Mamba layers, here and there attention without positions, some mixtures."""

    def __init__(self, *args):
        super().__init__(*args)
        self.ropes = [None] * self.layers

    def mixer(self, il, x, positions):
        """Run Mamba where a layer has no kv heads."""
        return self.attention(il, x, positions) if self.kv_heads[il] else self.mamba(il, x)


class Bamba(Jamba):
    """Bamba (granitehybrid in GGUF): Mamba 2 layers, and attention that turns a part of its heads."""

    def __init__(self, *args):
        super().__init__(*args)
        self.ropes = [self.rope("interleaved")] * self.layers

    def mixer(self, il, x, positions):
        """Run Mamba 2 where a layer has no kv heads."""
        return self.attention(il, x, positions) if self.kv_heads[il] else self.mamba2(il, x)


class Lfm2(Recurrent, Transformer):
    """LFM 2: gated short convolutions, here and there attention with head norms; some have mixtures."""

    def __init__(self, *args):
        super().__init__(*args)
        self.normalize_weights = True

    def embed(self, ids, positions):
        """Look up the rows; the file calls the norm behind the last layer token_embd_norm."""
        return self.keep("inp_embd", self.w["token_embd.weight"][ids])

    def final_norm(self, x):
        """Normalize the last layer's output."""
        return self.norm("token_embd_norm", x)

    def mixer(self, il, x, positions):
        """Convolve where a layer has no kv heads."""
        return self.attention(il, x, positions) if self.kv_heads[il] else self.short_convolution(il, x)


class Qwen3Next(Recurrent, Transformer):
    """Qwen3-Next: gated delta layers, every fourth gated attention, mixtures with a gated shared expert."""

    shared_name = "ffn_shexp_gated"
    gate_activation = "sigmoid"

    def __init__(self, *args):
        super().__init__(*args)
        self.normalize_weights = True
        self.recurrent = self.file.get("attention.recurrent_layers")
        self.ffn_norm_weight = "post_attention_norm"
        self.names.update(ffn_inp="attn_residual", ffn_norm="attn_post_norm")

    def mixer(self, il, x, positions):
        """Run the delta rule or attention."""
        return self.delta(il, x) if self.recurrent[il] else self.attention(il, x, positions)

    def project_one(self, il, x, part):
        """Take q and the gate of attention's output from one product, head by head."""
        if part != "q":
            return super().project_one(il, x, part)
        both = self.keep(f"Qcur_full-{il}", self.arith.dot(x, self.w[f"blk.{il}.attn_q.weight"]))
        both = both.reshape(len(x), self.heads, 2, -1)
        self.gate = both[:, :, 1].reshape(len(x), -1)
        return both[:, :, 0].reshape(len(x), -1)

    def gate_heads(self, il, o):
        """Gate the heads' outputs."""
        return self.keep(f"attn_gated-{il}", o * ACTIVATIONS[self.gate_activation](self.gate))


class GraniteHybrid(Bamba):
    """Granite 4: Mamba 2 and attention without positions, with Granite's scales and mixtures."""

    def __init__(self, *args):
        super().__init__(*args)
        self.ropes = [None] * self.layers
        self.normalize_weights = True
        self.scale = self.file.get("attention.scale") or self.scale
        self.logit_scale = 1 / self.file.get("logit_scale")


class NemotronH(Bamba):
    """Nemotron-H: each layer is Mamba 2, attention without positions or a feed-forward, and nothing else."""

    def __init__(self, *args):
        super().__init__(*args)
        self.norm_kind = "rms"
        self.ropes = [None] * self.layers
        self.activation, self.act_name = "relu-squared", "ffn_sqr(relu)"

    def layer(self, il, x, positions):
        """Run the one thing that a layer is."""
        h = self.pre_norm(il, x)
        y = self.ffn(il, h) if f"blk.{il}.ffn_up.weight" in self.w else self.mixer(il, h, positions)
        return self.keep(f"l_out-{il}", x + y)


class FalconH1(Bamba):
    """Falcon-H1: attention and Mamba 2 side by side in each layer, then a feed-forward."""

    def __init__(self, *args):
        super().__init__(*args)
        self.ropes = [self.rope("half")] * self.layers
        for il in range(self.layers):
            self.w[f"blk.{il}.ffn_norm.weight"] = self.w.pop(f"blk.{il}.ffn_norm")

    def mixer(self, il, x, positions):
        """Add what attention and Mamba 2 make of the same input."""
        return self.attention(il, x, positions) + self.mamba2(il, x)
