"""Decoders of attention blocks: what Llama, Qwen, Gemma, Phi, GLM, GPT and their kin set or do in their own way."""

import math

import numpy as np

from .parts import Rope, frequencies, layer_norm, rms_norm, sigmoid, softplus, yarn_ramp
from .transformer import Transformer, alibi_slopes


def yarn(e, pairs, whole=True, magnitude=True, ramp=None):
    """Return the rotation that YaRN makes of the file's base and factor."""
    f = e.file
    factor, context = f.get("rope.scaling.factor"), f.get("rope.scaling.original_context_length")
    slow, fast = f.get("rope.scaling.yarn_beta_slow", 1.0), f.get("rope.scaling.yarn_beta_fast", 32.0)
    ramp = yarn_ramp(e.base, e.rope_dims, context, fast, slow, whole) if ramp is None else ramp
    freq = frequencies(e.base, e.rope_dims)
    return Rope(freq * (1 - ramp) + freq / factor * ramp, pairs, 0.1 * math.log(factor) + 1 if magnitude else 1.0)


class Llama(Transformer):
    """Llama, Mistral, Mixtral: q and k are stored for interleaved pairs."""

    def __init__(self, *args):
        super().__init__(*args)
        self.normalize_weights = True
        divide = self.w.get("rope_freqs.weight")
        scaling, factor = self.file.get("rope.scaling.type"), self.file.get("rope.scaling.factor")
        rope = yarn(self, "interleaved") if scaling == "yarn" else \
            self.rope("interleaved", factor=factor if scaling == "linear" else 1.0, divide=divide)
        self.ropes = [rope] * self.layers


class Qwen(Transformer):
    """Qwen 2 and 3, dense and mixed: rotation of halves, head norms and biases where the file has them."""

    def __init__(self, *args):
        super().__init__(*args)
        self.normalize_weights = self.file.arch == "qwen3moe"
        if self.file.get("rope.scaling.type") == "yarn":
            self.ropes = [yarn(self, "half")] * self.layers


class Gemma(Transformer):
    """Gemma 2 and 3: norms on both sides of a block, caps, windows, a scaled embedding."""

    def __init__(self, *args):
        super().__init__(*args)
        self.embed_scale = math.sqrt(self.width)
        self.activation, self.act_name = "gelu", "ffn_geglu"
        self.names["ffn_inp"] = "sa_out"
        size = self.file.get("attention.sliding_window")
        third = self.file.arch == "gemma3"
        self.local = [size and ((il + 1) % 6 != 0 if third else il % 2 == 0) for il in range(self.layers)]
        self.window = [size if local else None for local in self.local]
        if third:
            slow = self.rope("half", factor=self.file.get("rope.scaling.factor", 1.0))
            fast = self.rope("half", base=self.file.get("rope.freq_base_swa"))
            self.ropes = [fast if local else slow for local in self.local]

    def scale_embedding(self, x):
        """Keep the rows before and after their scale, as llama.cpp does here."""
        x = self.keep("inp_embd", x)
        return self.keep("inp_scaled", x * np.asarray(self.embed_scale, x.dtype))


class Phi3(Transformer):
    """Phi 3: fused matrices, and factors per frequency for short and long texts."""

    def __init__(self, *args):
        super().__init__(*args)
        short = self.w.get("rope_factors_short.weight")
        if short is not None:
            rope = self.rope("half", divide=short)
            rope.magnitude = self.file.get("rope.scaling.attn_factor", 1.0)
            self.ropes = [rope] * self.layers


class Glm4(Transformer):
    """GLM 4: part of a head turns in interleaved pairs; norms on both sides of a block."""

    def __init__(self, *args):
        super().__init__(*args)
        self.ropes = [self.rope("interleaved")] * self.layers
        self.names.update(attn_post="post_attn_norm", ffn_post="post_mlp_norm")


class Granite(Transformer):
    """Granite and MiniCPM: a Llama with scales of embedding, scores, residuals and logits."""

    def __init__(self, *args):
        super().__init__(*args)
        self.normalize_weights = True
        self.ropes = [self.rope("interleaved")] * self.layers
        self.scale = self.file.get("attention.scale") or self.scale
        self.logit_scale = 1 / self.file.get("logit_scale")


class StableLm(Transformer):
    """StableLM: LayerNorm, and part of a head turns."""


class CommandR(Transformer):
    """Command R: one norm before attention and feed-forward side by side, scaled logits."""

    def __init__(self, *args):
        super().__init__(*args)
        self.parallel = True
        self.ropes = [self.rope("interleaved")] * self.layers
        self.logit_scale = self.file.get("logit_scale")


class Gelu(Transformer):
    """Decoders with a plain GELU feed-forward: GPT-2, GPT-NeoX, BLOOM, MPT, Falcon, StarCoder 1 and 2, Phi 2."""

    def __init__(self, *args):
        super().__init__(*args)
        arch, none = self.file.arch, [None] * self.layers
        self.activation = "gelu-erf" if arch in ("gptneox", "falcon", "mpt") else "gelu"
        self.act_name = "ffn_gelu"
        self.parallel = arch in ("falcon", "phi2") or bool(self.file.get("use_parallel_residual"))
        if arch in ("gpt2", "starcoder", "bloom", "mpt"):
            self.ropes = none
        if arch in ("bloom", "mpt"):
            self.slopes = alibi_slopes(self.heads, self.file.get("attention.max_alibi_bias", 8.0))

    def pre_norm(self, il, x):
        """Falcon 40B has a second norm, for attention alone."""
        h = super().pre_norm(il, x)
        if f"blk.{il}.attn_norm_2.weight" not in self.w:
            return h
        self.for_ffn = h
        return self.keep(f"attn_norm_2-{il}", self.norm(f"blk.{il}.attn_norm_2", x))

    def ffn(self, il, x):
        """Give the first norm's output to the feed-forward where there are two."""
        return super().ffn(il, self.for_ffn if f"blk.{il}.attn_norm_2.weight" in self.w else x)


class Nemotron(Transformer):
    """Nemotron: LayerNorm, a squared ReLU, part of a head turns."""

    def __init__(self, *args):
        super().__init__(*args)
        self.norm_kind = "layer"
        self.activation, self.act_name = "relu-squared", "ffn_sqr(relu)"


class Olmo2(Transformer):
    """OLMo 2: norms after the blocks only, q and k normalized over the whole row."""


class GptOss(Transformer):
    """gpt-oss: sinks, windows in every other layer, YaRN, a clamped activation in its experts.

    GGUF cannot say whether YaRN's ramp is rounded: llama.cpp rounds always, Transformers not for `truncate: false`.
    """

    alpha, limit, shift, whole_ramp = 1.702, 7.0, 1.0, True

    def __init__(self, *args):
        super().__init__(*args)
        size = self.file.get("attention.sliding_window")
        self.window = [size if il % 2 == 0 else None for il in range(self.layers)]
        self.ropes = [yarn(self, "half", self.whole_ramp)] * self.layers
        self.gating = "softmax-of-chosen"
        self.expert_act_name = "ffn_moe_act"
        self.ffn_norm_weight = "post_attention_norm"
        self.names["ffn_norm"] = "attn_post_norm"

    def expert_gate(self, gate, up):
        """Clamp both, gate with a scaled SiLU, and shift up by one."""
        gate, up = np.minimum(gate, self.limit), np.clip(up, -self.limit, self.limit)
        return (up + np.asarray(self.shift, up.dtype)) * gate / (1 + np.exp(-self.alpha * gate))


class Cohere2(CommandR):
    """Command R7B: windows and rotation in three of four layers, neither in the fourth."""

    def __init__(self, *args):
        super().__init__(*args)
        size = self.file.get("attention.sliding_window")
        self.local = [(il + 1) % 4 != 0 for il in range(self.layers)]
        self.window = [size if local else None for local in self.local]
        self.ropes = [r if local else None for r, local in zip(self.ropes, self.local)]


class HunyuanDense(Transformer):
    """Hunyuan: rotates q and k first and normalizes their heads then."""

    def turn(self, il, q, k, positions):
        """Rotate, then normalize."""
        q = self.keep(f"Qcur-{il}", self.rotate(il, q, positions, "q"))
        k = self.keep(f"Kcur-{il}", self.rotate(il, k, positions, "k"))
        return self.keep(f"Qcur_norm-{il}", self.norm(f"blk.{il}.attn_q_norm", q)), \
            self.keep(f"Kcur_norm-{il}", self.norm(f"blk.{il}.attn_k_norm", k))


class GptOssUnrounded(GptOss):
    """gpt-oss as Transformers runs its published configuration."""

    whole_ramp = False


class Olmo(Transformer):
    """OLMo: LayerNorm without weights, and q, k, v cut off at a limit."""

    def __init__(self, *args):
        super().__init__(*args)
        self.clip = self.file.get("attention.clamp_kqv")
        self.ropes = [self.rope("interleaved")] * self.layers

    def norm(self, name, x):
        """Normalize without weight and bias."""
        return layer_norm(x, None, None, np.asarray(self.eps, x.dtype))

    def pre_norm(self, il, x):
        """Normalize a block's input."""
        return self.keep(f"attn_norm-{il}", self.norm("", x))

    def ffn_norm(self, il, x):
        """Normalize the feed-forward's input."""
        return self.keep(f"ffn_norm-{il}", self.norm("", x))

    def project_one(self, il, x, part):
        """Cut the product off at the limit."""
        name = part.upper() + "cur"
        y = self.keep(f"{name}.mul_mat-{il}", self.arith.dot(x, self.w[f"blk.{il}.attn_{part}.weight"]))
        y = self.keep(f"{name}_clamped-{il}", self.cut(y))
        return self.keep(f"Vcur-{il}", y) if part == "v" else y

    def cut(self, x):
        """Cut off at the limit."""
        return np.clip(x, -self.clip, self.clip)


class Olmo3(Olmo2):
    """OLMo 3: OLMo 2 with windows in three of four layers."""

    def __init__(self, *args):
        super().__init__(*args)
        self.local = self.file.get("attention.sliding_window_pattern")
        self.window = [self.file.get("attention.sliding_window") if local else None for local in self.local]


class Dbrx(Transformer):
    """DBRX: LayerNorm without bias, a fused product that is cut off, a mixture."""

    def __init__(self, *args):
        super().__init__(*args)
        self.clip = self.file.get("attention.clamp_kqv")
        self.normalize_weights = True
        self.ffn_norm_weight = "attn_output_norm"
        self.names["ffn_norm"] = "attn_out_norm"

    def project_fused(self, il, x):
        """Cut the product off at the limit."""
        return self.keep(f"wqkv_clamped-{il}", self.cut(super().project_fused(il, x)))

    def cut(self, x):
        """Cut off at the limit."""
        return np.clip(x, -self.clip, self.clip)


class Glm4Moe(Transformer):
    """GLM 4.5: head norms, part of a head turns, a router with sigmoid and correction bias. The last layer is spare."""

    def __init__(self, *args):
        super().__init__(*args)
        self.layers -= self.file.get("nextn_predict_layers", 0)
        self.ffn_norm_weight = "post_attention_norm"
        self.names["ffn_norm"] = "post_attn_norm"


class Llama4(Llama):
    """Llama 4: heads normalized behind the rotation, no rotation in every fourth layer, weights before the experts."""

    def __init__(self, *args):
        super().__init__(*args)
        self.turns = [(il + 1) % 4 != 0 for il in range(self.layers)]
        self.ropes = [r if turns else None for r, turns in zip(self.ropes, self.turns)]
        self.normalize_weights = False
        self.gating = "softmax-of-chosen"

    def turn(self, il, q, k, positions):
        """Rotate and normalize, or do neither."""
        if not self.turns[il]:
            return self.keep(f"Qcur-{il}", q), self.keep(f"Kcur-{il}", k)
        q = self.keep(f"Qcur-{il}", self.rotate(il, q, positions, "q"))
        k = self.keep(f"Kcur-{il}", self.rotate(il, k, positions, "k"))
        return self.keep(f"Qcur_normed-{il}", self.unit(q)), self.keep(f"Kcur_normed-{il}", self.unit(k))

    def unit(self, x):
        """Normalize heads without a weight."""
        return rms_norm(x, None, np.asarray(self.eps, x.dtype))

    def weigh(self, probs, top):
        """Squash the chosen experts' logits."""
        return sigmoid(np.take_along_axis(probs, top, -1))

    def mixture(self, il, x):
        """Weigh the experts' input; their outputs are added as they are."""
        top = self.choose(il, self.route(il, x))
        self.keep(f"ffn_moe_topk-{il}", top)
        weights = self.keep(f"ffn_moe_weights-{il}", self.weigh(self.router_logits, top))
        rows = self.keep(f"ffn_moe_weighted-{il}", x[:, None] * weights[..., None])
        gate = self.keep(f"ffn_moe_gate-{il}", self.expert_linear(il, "ffn_gate_exps", rows, top))
        up = self.keep(f"ffn_moe_up-{il}", self.expert_linear(il, "ffn_up_exps", rows, top))
        hidden = self.keep(f"ffn_moe_swiglu-{il}", self.expert_gate(gate, up))
        out = self.keep(f"ffn_moe_down-{il}", self.expert_linear(il, "ffn_down_exps", hidden, top)).sum(1)
        return self.keep(f"ffn_out-{il}", self.keep(f"ffn_moe_out-{il}", out) + self.shared(il, x))

    def gate_logits(self, logits):
        """Leave the logits as they are; the chosen ones are squashed later."""
        self.router_logits = logits
        return logits


class Apertus(Transformer):
    """Apertus: head norms, and xIELU, whose two slopes each layer has learned (Huang & Schlag 2025)."""

    def __init__(self, *args):
        super().__init__(*args)
        self.act_name = "ffn_xielu"
        divide = self.w.get("rope_freqs.weight")
        self.ropes = [self.rope("half", divide=divide)] * self.layers

    def ffn(self, il, x):
        """Remember the layer, whose slopes the activation needs."""
        self.at = il
        return super().ffn(il, x)

    def slopes_of(self, il):
        """Return the slopes for positive and negative numbers, and beta."""
        positive, negative, beta = (self.file.fields["xielu." + key][il] for key in ("alpha_p", "alpha_n", "beta"))
        return softplus(positive), beta + softplus(negative), beta

    def act(self, x):
        """Return a parabola above zero and an exponential with a line below."""
        positive, negative, beta = self.slopes_of(self.at)
        floor = np.minimum(x, self.file.fields["xielu.eps"][self.at])
        below = (np.expm1(floor) - x) * negative + beta * x
        return np.where(x > 0, positive * x * x + beta * x, below).astype(x.dtype)


class Ernie(Llama):
    """ERNIE 4.5: a Llama; the mixtures have a correction bias and shared experts."""


class MiniMax(Transformer):
    """MiniMax M2: q and k normalized over the row, part of a head turns, a router with sigmoid and correction bias."""

    def __init__(self, *args):
        super().__init__(*args)
        self.normalize_weights = True
