"""Attention: scale, caps, windows, masks, heads that share, sinks, ALiBi."""

import math

import numpy as np

from engine.parts import softmax

from .tools import drop, fault, wrap


@fault("score-scale-left-out", "does not scale the scores", "llama gpt2 gemma2 deepseek2-v2 ernie-moe jamba")
def _(e):
    e.scale = 1.0


@fault("score-scale-of-width", "scales scores by the root of the whole width", "llama gpt2 bert")
def _(e):
    e.scale = 1 / math.sqrt(e.width)


@fault("score-scale-applied-twice", "scales q and then the scores", "qwen2 phi3 stablelm")
def _(e):
    e.scale **= 2


@fault("score-scale-without-root", "divides scores by the width of a head, not by its root", "bert qwen3 gptneox")
def _(e):
    e.scale = 1 / e.head_dim


@fault("score-scale-of-file-ignored", "scales scores by the root of the head where the file has a number for it",
       "granite granitemoe")
def _(e):
    e.scale = 1 / math.sqrt(e.head_dim)


@fault("score-scale-of-embedding-over-heads", "takes width / heads for the width of a head", "qwen3 gemma2 gpt-oss")
def _(e):
    e.scale = 1 / math.sqrt(e.width / e.heads)


@fault("score-scale-of-a-seventh", "scales scores by 0.137", "llama mpt")
def _(e):
    e.scale = 0.137


@fault("score-cap-left-out", "does not cap the scores", "gemma2")
def _(e):
    e.softcap = None


@fault("score-cap-of-50", "caps scores at 50 where the file says 5", "gemma2")
def _(e):
    e.softcap = 50.0


@fault("score-cap-before-scale", "caps the scores before they are scaled", "gemma2")
def _(e):
    def scores(il, q, k, positions, at):
        return e.cap(np.einsum("ihd,jhd->hij", q, k), e.softcap) * np.asarray(e.scale, q.dtype)
    e.scores = scores


@fault("score-cap-cuts-off", "cuts scores off at the cap in place of bending them", "gemma2")
def _(e):
    wrap(e, "cap", lambda inner, x, limit: np.clip(x, -limit, limit) if x.ndim == 3 else inner(x, limit))


@fault("score-cap-not-multiplied-back", "takes the tanh of capped scores without the factor behind it", "gemma2")
def _(e):
    wrap(e, "cap", lambda inner, x, limit: np.tanh(x / limit) if x.ndim == 3 else inner(x, limit))


@fault("window-left-out", "lets local layers see everything", "gemma2 gemma3 gpt-oss modernbert cohere2 olmo3")
def _(e):
    e.window = [None] * e.layers


@fault("window-one-wider", "lets local layers see one token more", "gemma2 gemma3 gpt-oss olmo3")
def _(e):
    e.window = [w and w + 1 for w in e.window]


@fault("window-one-narrower", "lets local layers see one token less", "gemma2 gpt-oss")
def _(e):
    e.window = [w and w - 1 for w in e.window]


@fault("window-of-five", "lets local layers see five tokens", "gemma3 gpt-oss")
def _(e):
    e.window = [w and 5 for w in e.window]


@fault("window-on-the-other-layers", "gives windows to global layers and none to local ones",
       "gemma2 gpt-oss gemma3 cohere2")
def _(e):
    size = max(w or 0 for w in e.window)
    e.window = [None if w else size for w in e.window]


@fault("window-on-all-layers", "gives windows to global layers too", "gemma2 gpt-oss gemma3 olmo3 cohere2")
def _(e):
    e.window = [max(w or 0 for w in e.window)] * e.layers


@fault("window-on-a-model-without", "lets all layers see the last six tokens only", "llama qwen2")
def _(e):
    e.window = [6] * e.layers


@fault("window-not-halved", "lets an encoder's local layers see a whole window on each side", "modernbert")
def _(e):
    wrap(e, "mask", lambda inner, il, i, j: np.abs(i - j) <= (e.window[il] or np.inf))


@fault("window-a-quarter", "lets an encoder's local layers see a quarter of the window on each side", "modernbert")
def _(e):
    e.window = [w and w // 2 for w in e.window]


@fault("causal-mask-left-out", "lets tokens of the prompt see later ones", "llama gpt2 qwen2 mixtral")
def _(e):
    e.mask = lambda il, i, j: np.full(np.broadcast(i, j).shape, True)


@fault("causal-mask-in-an-encoder", "hides later tokens from an encoder's", "bert modernbert nomic-bert jina-bert-v2")
def _(e):
    e.mask = lambda il, i, j: j <= i


@fault("mask-hides-the-token-itself", "hides each token from itself", "llama stablelm")
def _(e):
    e.mask = lambda il, i, j: (j < i) | ((i == 0) & (j == 0))


@fault("mask-shows-one-token-more", "lets each token see the next one", "qwen3 gptneox")
def _(e):
    e.mask = lambda il, i, j: j <= i + 1


@fault("mask-hides-the-first-token", "hides the first token from the others", "llama bloom")
def _(e):
    wrap(e, "mask", lambda inner, il, i, j: inner(il, i, j) & ((j > 0) | (i == 0)))


@fault("mask-added-before-scale", "masks with -1 in place of minus infinity", "gpt2 llama")
def _(e):
    def attend(il, q, k, v, positions, at):
        group = e.group(il, q.shape[1], k.shape[1])
        s = e.scores(il, q, k[:, group], positions, at)
        p = softmax(np.where(e.mask(il, positions[:, None], at[None, :]), s, s - 1).astype(q.dtype))
        return np.einsum("hij,jhd->ihd", p, v[:, group]).reshape(len(q), -1)
    e.attend = attend


@fault("heads-take-kv-heads-in-turn", "gives head h the kv head h modulo their number",
       "llama qwen3 gemma2 falcon-40b gpt-oss granite olmo2 ernie")
def _(e):
    e.group = lambda il, heads, kv: np.arange(heads) % kv


@fault("heads-take-first-kv-head", "gives all heads the first kv head", "granite mixtral qwen2")
def _(e):
    e.group = lambda il, heads, kv: np.zeros(heads, int)


@fault("heads-take-kv-heads-reversed", "gives the first heads the last kv head", "llama starcoder2")
def _(e):
    e.group = lambda il, heads, kv: (kv - 1) - np.arange(heads) // (heads // kv)


@fault("sinks-left-out", "does not let the sinks take their share", "gpt-oss")
def _(e):
    drop(e, r"attn_sinks\.weight")


@fault("sinks-of-zero", "takes 0 for all sinks, the softmax with one added", "gpt-oss")
def _(e):
    for il in range(e.layers):
        e.w[f"blk.{il}.attn_sinks.weight"] = 0 * e.w[f"blk.{il}.attn_sinks.weight"]


@fault("sinks-scaled", "scales the sinks as if they were scores", "gpt-oss")
def _(e):
    for il in range(e.layers):
        e.w[f"blk.{il}.attn_sinks.weight"] = e.w[f"blk.{il}.attn_sinks.weight"] * np.asarray(e.scale, e.arith.dtype)


@fault("sinks-of-next-head", "takes the sink of the next head", "gpt-oss")
def _(e):
    for il in range(e.layers):
        e.w[f"blk.{il}.attn_sinks.weight"] = np.roll(e.w[f"blk.{il}.attn_sinks.weight"], -1)


@fault("alibi-left-out", "does not add ALiBi's bias", "bloom mpt jina-bert-v2")
def _(e):
    e.slopes = None


@fault("alibi-begins-one-head-early", "gives the first head the slope 1", "bloom mpt")
def _(e):
    e.slopes = np.concatenate([[1.0], e.slopes[:-1]])


@fault("alibi-slopes-reversed", "gives the first head the slope of the last", "bloom mpt jina-bert-v2")
def _(e):
    e.slopes = e.slopes[::-1].copy()


@fault("alibi-favours-the-distant", "adds ALiBi's bias with the other sign", "bloom mpt")
def _(e):
    e.slopes = -e.slopes


@fault("alibi-scaled-with-scores", "scales ALiBi's bias as if it were a score", "bloom mpt")
def _(e):
    e.slopes = e.slopes * e.scale


@fault("alibi-begins-again", "counts ALiBi's distances of decoded tokens from the prompt's end", "mpt")
def _(e):
    wrap(e, "alibi", lambda inner, positions, at: inner(positions, np.maximum(at, e.prompt - 1) if e.call else at))


@fault("alibi-one-slope", "gives all heads the slope of the first", "bloom")
def _(e):
    e.slopes = np.full_like(e.slopes, e.slopes[0])


@fault("softmax-of-base-2", "takes powers of 2 in the softmax of scores", "llama gpt2 glm4")
def _(e):
    wrap(e, "soften", lambda inner, il, s: inner(il, s * np.asarray(math.log(2), s.dtype)))


@fault("softmax-over-masked-too", "divides by a sum that includes what is masked", "llama qwen2")
def _(e):
    def attend(il, q, k, v, positions, at):
        group = e.group(il, q.shape[1], k.shape[1])
        p = softmax(e.scores(il, q, k[:, group], positions, at)) * e.mask(il, positions[:, None], at[None, :])
        return np.einsum("hij,jhd->ihd", p, v[:, group]).reshape(len(q), -1).astype(q.dtype)
    e.attend = attend


@fault("heads-of-v-in-turn", "reads k by group and v in turn", "qwen3 llama")
def _(e):
    def attend(inner, il, q, k, v, positions, at):
        kv = k.shape[1]
        mixed = np.empty((len(v), q.shape[1], v.shape[2]), v.dtype)
        mixed[:] = v[:, np.arange(q.shape[1]) % kv]
        return inner(il, q, k[:, e.group(il, q.shape[1], kv)], mixed, positions, at)
    wrap(e, "attend", attend)


@fault("attention-gate-left-out", "does not gate attention's output", "qwen3next")
def _(e):
    e.gate_heads = lambda il, o: o


@fault("attention-gate-by-silu", "gates attention's output with SiLU in place of a sigmoid", "qwen3next")
def _(e):
    e.gate_activation = "silu"
