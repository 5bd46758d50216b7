"""Norms: of the wrong kind, with the wrong weight, at the wrong place."""

import numpy as np

from engine.parts import layer_norm, rms_norm

from .tools import change, drop, fault, wrap

ALL_NORMS = r"(attn|ffn|post_attention|post_ffw|attn_q|attn_k)_norm\.weight"


def replace_norm(e, formula, pick=lambda name: True):
    """Compute the picked norms by another formula of (x, weight, bias, eps)."""
    def norm(inner, name, x):
        if not pick(name):
            return inner(name, x)
        return formula(x, e.w.get(name + ".weight"), e.w.get(name + ".bias"), np.asarray(e.eps, x.dtype))
    wrap(e, "norm", norm)


@fault("norm-weight-plus-one", "adds 1 to the norms' weights, as Gemma's own files need it",
       "llama qwen3 granite mamba phi3 gemma2 deepseek2-lite")
def _(e):
    change(e, ALL_NORMS, lambda w: w + 1)


@fault("norm-weight-minus-one", "takes norms' weights that hold 1 + w for w", "gemma2 gemma3 nemotron")
def _(e):
    change(e, ALL_NORMS, lambda w: w - 1)


@fault("norm-weight-applied-twice", "multiplies with a norm's weight twice",
       "llama glm4 command-r gpt-oss lfm2 mamba2 rwkv7 falcon-h1")
def _(e):
    change(e, r"attn_norm\.weight", lambda w: w * w)


@fault("norm-weight-left-out", "does not multiply with a norm's weight", "phi3 gemma3 stablelm jamba")
def _(e):
    change(e, r"(attn|ffn)_norm\.weight", np.ones_like)


@fault("attention-norm-left-out", "gives attention the stream as it is", "llama gpt2 deepseek2-v2 qwen3next")
def _(e):
    drop(e, r"attn_norm\.(weight|bias)")


@fault("ffn-norm-left-out", "gives the feed-forward the stream as it is", "qwen2 gptneox-seq mixtral lfm2")
def _(e):
    drop(e, r"ffn_norm\.(weight|bias)")


@fault("eps-of-1e-5", "adds 1e-5 in the norm where the file says 1e-2", "llama-eps")
def _(e):
    e.eps = 1e-5


@fault("eps-of-1e-2", "adds 1e-2 in the norm where the file says far less", "llama gpt2 qwen2moe mamba")
def _(e):
    e.eps = 1e-2


@fault("eps-outside-the-root", "adds eps to the root in place of the square", "llama-eps")
def _(e):
    replace_norm(e, lambda x, w, b, eps: x / (np.sqrt((x * x).mean(-1, keepdims=True)) + eps) * w)


@fault("norm-of-sum-of-squares", "divides by the length of the row, not by the root of the mean square",
       "llama gemma2 olmo2")
def _(e):
    replace_norm(e, lambda x, w, b, eps: x / np.sqrt((x * x).sum(-1, keepdims=True) + eps) * w)


@fault("norm-without-root", "divides by the mean square, not by its root", "qwen2 llama-eps")
def _(e):
    replace_norm(e, lambda x, w, b, eps: x / ((x * x).mean(-1, keepdims=True) + eps) * w)


@fault("layernorm-for-rmsnorm", "removes the mean in RMS norms", "llama granite gemma3 qwen3 mamba")
def _(e):
    replace_norm(e, layer_norm)


@fault("rmsnorm-for-layernorm", "takes LayerNorms for RMS norms and keeps their bias",
       "stablelm command-r gpt2 bert rwkv7")
def _(e):
    replace_norm(e, lambda x, w, b, eps: rms_norm(x, w, eps) + (0 if b is None else b))


@fault("mean-not-removed", "divides by the deviation and leaves the mean in", "gpt2 nemotron falcon starcoder2")
def _(e):
    def formula(x, w, b, eps):
        return x / np.sqrt(x.var(-1, keepdims=True) + eps) * w + (0 if b is None else b)
    replace_norm(e, formula)


@fault("deviation-not-divided", "removes the mean and does not divide by the deviation", "phi2 bert")
def _(e):
    replace_norm(e, lambda x, w, b, eps: (x - x.mean(-1, keepdims=True)) * w + (0 if b is None else b))


@fault("variance-of-n-minus-1", "divides the variance by one less than the width", "gpt2 stablelm bert")
def _(e):
    def formula(x, w, b, eps):
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, ddof=1, keepdims=True) + eps)
        return y * w + (0 if b is None else b)
    replace_norm(e, formula)


@fault("layernorm-bias-left-out", "does not add the norms' biases",
       "gpt2 stablelm gptneox bert rwkv7 nemotron starcoder")
def _(e):
    drop(e, r"(attn|ffn|attn_output|layer_output|attn_norm_2|attn)_norm(_2)?\.bias")


@fault("norm-bias-before-weight", "adds a norm's bias before it multiplies with its weight", "gpt2 bloom phi2")
def _(e):
    def formula(x, w, b, eps):
        return (layer_norm(x, None, None, eps) + b) * w
    replace_norm(e, formula, lambda name: name + ".bias" in e.w)


@fault("post-attention-norm-left-out", "adds attention's output without its norm", "gemma2 glm4 olmo2 gemma3 olmo3")
def _(e):
    drop(e, r"post_attention_norm\.weight")


@fault("post-ffn-norm-left-out", "adds the feed-forward's output without its norm", "gemma2 glm4 olmo2 gemma3")
def _(e):
    drop(e, r"post_ffw_norm\.weight")


@fault("post-norm-over-the-sum", "normalizes the sum of stream and output in place of the output", "gemma2 glm4 olmo2")
def _(e):
    def block(il, x, positions):
        a = e.mixer(il, e.pre_norm(il, x), positions)
        x = e.keep(f"{e.names['ffn_inp']}-{il}", e.post_norm(il, x + a, "post_attention_norm", "attn_post"))
        y = e.ffn(il, e.ffn_norm(il, x))
        return e.keep(f"l_out-{il}", e.post_norm(il, x + y, "post_ffw_norm", "ffn_post"))
    e.sequential_block = block


@fault("ffn-norm-takes-post-attention-weight", "exchanges the norms before the feed-forward and after attention",
       "gemma2 gemma3 glm4")
def _(e):
    for il in range(e.layers):
        a, b = f"blk.{il}.ffn_norm.weight", f"blk.{il}.post_attention_norm.weight"
        e.w[a], e.w[b] = e.w[b], e.w[a]


@fault("post-norms-used-before", "applies OLMo 2's norms before the blocks", "olmo2")
def _(e):
    def block(il, x, positions):
        a = e.mixer(il, e.norm(f"blk.{il}.post_attention_norm", x), positions)
        x = e.keep(f"ffn_inp-{il}", x + a)
        return e.keep(f"l_out-{il}", x + e.ffn(il, e.norm(f"blk.{il}.post_ffw_norm", x)))
    e.sequential_block = block


@fault("bert-norms-before", "applies BERT's norms before its blocks", "bert")
def _(e):
    def block(il, x, positions):
        x = e.keep(f"ffn_inp-{il}", x + e.attention(il, e.norm(f"blk.{il}.attn_output_norm", x), positions))
        return e.keep(f"l_out-{il}", x + e.ffn(il, e.norm(f"blk.{il}.layer_output_norm", x)))
    e.layer = block


@fault("bert-norm-without-residual", "normalizes attention's output alone and adds the stream behind it", "bert")
def _(e):
    def block(il, x, positions):
        x = e.keep(f"ffn_inp-{il}", x + e.norm(f"blk.{il}.attn_output_norm", e.attention(il, x, positions)))
        return e.keep(f"l_out-{il}", e.norm(f"blk.{il}.layer_output_norm", x + e.ffn(il, x)))
    e.layer = block


@fault("head-norms-left-out", "does not normalize the heads of q and k",
       "qwen3 gemma3 olmo2 lfm2 qwen3moe glm4moe apertus olmoe minimax-m2 hunyuan")
def _(e):
    drop(e, r"attn_[qk]_norm\.weight")


@fault("k-norm-left-out", "normalizes the heads of q only", "qwen3 gemma3")
def _(e):
    drop(e, r"attn_k_norm\.weight")


@fault("q-and-k-norms-exchanged", "normalizes q with the weight of k and k with that of q", "qwen3 gemma3 qwen3next")
def _(e):
    for il in range(e.layers):
        a, b = f"blk.{il}.attn_q_norm.weight", f"blk.{il}.attn_k_norm.weight"
        if a in e.w:
            e.w[a], e.w[b] = e.w[b], e.w[a]


@fault("head-norms-after-rope", "rotates q and k first and normalizes then",
       "qwen3 gemma3 lfm2 qwen3moe glm4moe apertus")
def _(e):
    def turn(il, q, k, positions):
        q, k = e.rotate(il, q, positions, "q"), e.rotate(il, k, positions, "k")
        return e.keep(f"Qcur-{il}", e.norm(f"blk.{il}.attn_q_norm", q)), \
            e.keep(f"Kcur-{il}", e.norm(f"blk.{il}.attn_k_norm", k))
    e.turn = turn


@fault("head-norms-before-rope", "normalizes the heads of q and k first and rotates then", "hunyuan")
def _(e):
    def turn(il, q, k, positions):
        q, k = e.norm(f"blk.{il}.attn_q_norm", q), e.norm(f"blk.{il}.attn_k_norm", k)
        return e.keep(f"Qcur-{il}", e.rotate(il, q, positions, "q")), \
            e.keep(f"Kcur-{il}", e.rotate(il, k, positions, "k"))
    e.turn = turn


@fault("head-norms-over-the-row", "normalizes all heads of a row together", "qwen3 qwen3moe")
def _(e):
    def norm(inner, il, x, part):
        w = e.w[f"blk.{il}.attn_{part}_norm.weight"]
        rows = rms_norm(x.reshape(len(x), -1), None, np.asarray(e.eps, x.dtype)).reshape(x.shape)
        return e.keep(f"{part.upper()}cur_normed-{il}", rows * w)
    wrap(e, "head_norm", norm)


@fault("row-norms-by-head", "normalizes each head of q and k by itself where the row belongs together", "olmo2 olmoe")
def _(e):
    def norm(inner, il, x, part):
        w = e.w[f"blk.{il}.attn_{part}_norm.weight"].reshape(x.shape[1:])
        return e.keep(f"{part.upper()}cur_normed-{il}", rms_norm(x, w, np.asarray(e.eps, x.dtype)))
    wrap(e, "head_norm", norm)


@fault("embedding-norm-left-out", "does not normalize the embedding", "bloom bert rwkv7 modernbert rwkv6")
def _(e):
    for name in ("token_embd_norm.weight", "token_embd_norm.bias"):
        e.w.pop(name, None)


@fault("embedding-norm-without-bias", "does not add the bias of the embedding's norm", "bloom bert rwkv6")
def _(e):
    del e.w["token_embd_norm.bias"]


@fault("norm-in-place-of-stream", "overwrites the stream with its norm", "llama gpt2 qwen3 bloom")
def _(e):
    def block(il, x, positions):
        x = e.pre_norm(il, x)
        x = e.keep(f"{e.names['ffn_inp']}-{il}", x + e.mixer(il, x, positions))
        return e.keep(f"l_out-{il}", x + e.ffn(il, e.ffn_norm(il, x)))
    e.sequential_block = block
