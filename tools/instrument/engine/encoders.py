"""Encoders: BERT and RoBERTa with norms behind the blocks, ModernBERT with rotary positions and windows."""

import numpy as np

from .transformer import Transformer, alibi_slopes


class Bert(Transformer):
    """BERT: learned positions, token types, LayerNorm behind each sum."""

    def __init__(self, *args):
        super().__init__(*args)
        self.causal = False
        self.ropes = [None] * self.layers
        self.activation, self.act_name = "gelu-erf", "ffn_gelu"

    def embed(self, ids, positions):
        """Add rows of tokens, types and positions; llama.cpp calls the sum inp_embd and the rows embd."""
        x = self.keep("embd", self.w["token_embd.weight"][ids])
        if "token_types.weight" in self.w:
            x = x + self.w["token_types.weight"][0]
        x = self.keep("inp_embd", self.add_positions(x, positions))
        return self.keep("inp_norm-0", self.norm("token_embd_norm", x)) if "token_embd_norm.weight" in self.w else x

    def add_positions(self, x, positions):
        """Add learned positions."""
        return x + self.learned_positions(positions)

    def layer(self, il, x, positions):
        """Run one block."""
        p = f"blk.{il}."
        x = self.keep(f"ffn_inp-{il}", self.norm(p + "attn_output_norm", x + self.attention(il, x, positions)))
        return self.keep(f"l_out-{il}", self.norm(p + "layer_output_norm", x + self.ffn(il, x)))

    def head(self, x):
        """Return the last layer's output."""
        return self.keep("result_embd", x)


class ModernBert(Transformer):
    """ModernBERT: two of three layers see a window and rotate with another base; the first has no norm."""

    def __init__(self, *args):
        super().__init__(*args)
        self.causal = False
        self.norm_kind = "layer"
        self.activation, self.act_name = "gelu-erf", "ffn_geglu"
        self.local = [il % 3 != 0 for il in range(self.layers)]
        size = self.file.get("attention.sliding_window")
        self.window = [size if local else None for local in self.local]
        near = self.rope("half", base=self.file.get("rope.freq_base_swa"))
        self.ropes = [near if local else self.rope("half") for local in self.local]

    def head(self, x):
        """Return the last layer's output, normalized."""
        return self.keep("result_embd", self.keep("final_norm_out", self.final_norm(x)))


class NomicBert(Bert):
    """Nomic's BERT: rotary positions and a gated feed-forward."""

    def __init__(self, *args):
        super().__init__(*args)
        self.ropes = [self.rope("half")] * self.layers
        self.activation, self.act_name = "silu", "ffn_swiglu"

    def add_positions(self, x, positions):
        """Add nothing: heads are rotated."""
        return x


class JinaBert(Bert):
    """Jina's BERT: ALiBi on both sides and a gated feed-forward with GELU."""

    def __init__(self, *args):
        super().__init__(*args)
        self.slopes = alibi_slopes(self.heads)
        self.act_name = "ffn_geglu"

    def add_positions(self, x, positions):
        """Add nothing: ALiBi tells distances."""
        return x

    def alibi(self, positions, at):
        """Return the bias by distance on both sides."""
        return -self.slopes[:, None, None] * np.abs(at[None, None, :] - positions[None, :, None])
