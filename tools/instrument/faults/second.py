"""A second set of faults, written without a look at the first one, and run once when the catalogue was frozen."""

import math
from dataclasses import replace

import numpy as np

from engine.arithmetic import to_f16
from engine.parts import ACTIVATIONS, frequencies, rms_norm, softmax

from .tools import after, change, decoding, drop, matching, registrar, wrap

SECOND = {}
fault = registrar(SECOND)


def ropes(e, edit):
    """Replace the rotations that there are."""
    e.ropes = [None if r is None else edit(r) for r in e.ropes]


def quantized(e, kind):
    """Return the names of the tensors that are stored in a kind."""
    names = [n for n, t in e.file.raw.items() if t.tensor_type.name == kind]
    if not names:
        raise LookupError(kind)
    return names


# Attention and masks


@fault("scale-from-width-over-heads", "scales the scores by the root of width over heads, though the heads are wider",
       "qwen3 gemma3 gpt-oss")
def _(e):
    e.scale = 1 / math.sqrt(e.width / e.heads)


@fault("kv-heads-tiled", "repeats the whole row of kv heads for the heads, so that head h reads kv head h mod kv",
       "qwen2 gemma2 dbrx cohere2")
def _(e):
    e.group = lambda il, heads, kv_heads: np.arange(heads) % kv_heads


@fault("prompt-not-masked", "lets the tokens of the prompt see the tokens behind them", "gpt2 phi3 apertus")
def _(e):
    def around(inner, il, i, j):
        return inner(il, i, j) if decoding(e) else np.full(np.broadcast(i, j).shape, True)
    wrap(e, "mask", around)


@fault("encoder-masked-causally", "hides the tokens behind a token from it in an encoder", "bert nomic-bert modernbert")
def _(e):
    wrap(e, "mask", lambda inner, il, i, j: inner(il, i, j) & (j <= i))


@fault("window-layers-swapped", "puts the sliding window on the layers that see everything, and none on the others",
       "gemma2 gpt-oss")
def _(e):
    size = next(w for w in e.window if w)
    e.window = [None if w else size for w in e.window]


@fault("window-one-too-wide", "lets a sliding window reach one token further back", "gemma3 olmo3 cohere2")
def _(e):
    e.window = [w and w + 1 for w in e.window]


@fault("masked-scores-capped", "caps the scores behind the mask, so that hidden tokens get the lowest score and no less",
       "gemma2")
def _(e):
    limit, e.softcap = e.softcap, None
    wrap(e, "soften", lambda inner, il, scores: inner(il, (np.tanh(scores / limit) * limit).astype(scores.dtype)))


@fault("decode-kernel-without-sinks", "leaves the attention sinks out when it decodes", "gpt-oss gpt-oss-unrounded")
def _(e):
    wrap(e, "soften", lambda inner, il, scores: softmax(scores) if decoding(e) else inner(il, scores))


@fault("alibi-slopes-from-one", "begins ALiBi's slopes with 1 for the first head, one power too early",
       "bloom mpt jina-bert-v2")
def _(e):
    e.slopes = e.slopes / e.slopes[0]


# Rotation


@fault("neighbours-rotated-for-halves", "rotates neighbouring numbers as pairs in a model that pairs the halves of a head",
       "qwen2 gptneox starcoder2 falcon")
def _(e):
    ropes(e, lambda r: replace(r, pairs="interleaved"))


@fault("rope-base-left-at-default", "takes 10000 for the base of the rotation whatever the file says",
       "qwen3moe ernie olmo2 nomic-bert")
def _(e):
    ropes(e, lambda r: replace(r, freq=frequencies(10000.0, e.rope_dims)))


@fault("partial-rotary-ignored", "rotates whole heads where only a part of each is to be rotated", "phi2 glm4 nemotron")
def _(e):
    ropes(e, lambda r: replace(r, freq=frequencies(e.base, e.head_dim)))


@fault("rope-factors-multiplied", "multiplies the frequencies with the file's rope factors in place of dividing by them",
       "llama-llama3 phi3-longrope")
def _(e):
    factors = e.w["rope_freqs.weight"] if "rope_freqs.weight" in e.w else e.w["rope_factors_short.weight"]
    ropes(e, lambda r: replace(r, freq=frequencies(e.base, e.rope_dims) * factors))


@fault("yarn-magnitude-once", "multiplies scores with YaRN's magnitude once, not for q and for k",
       "llama-yarn qwen3-yarn gpt-oss")
def _(e):
    e.scale *= e.ropes[0].magnitude
    ropes(e, lambda r: replace(r, magnitude=1.0))


@fault("full-layers-base-for-local-layers", "rotates in the local layers as in those that see everything",
       "gemma3 modernbert")
def _(e):
    e.ropes = [next(r for r, local in zip(e.ropes, e.local) if not local)] * e.layers


@fault("positionless-layers-rotated", "rotates q and k in layers that have no positions too",
       "cohere2 llama4 jamba granitehybrid")
def _(e):
    known = [r for r in e.ropes if r is not None]
    e.ropes = [known[0] if known else e.rope("interleaved" if e.file.arch == "granitehybrid" else "half")] * e.layers
    if hasattr(e, "turns"):
        e.turns = [True] * e.layers


# Norms


@fault("norm-weights-plus-one-again", "adds 1 to norm weights to which the converter has added it already",
       "gemma gemma3 qwen3next")
def _(e):
    for name in e.w:
        if name.endswith("norm.weight") and "ssm" not in name:
            e.w[name] = e.w[name] + np.asarray(1, e.w[name].dtype)


@fault("layernorm-without-mean", "leaves the mean in where LayerNorm removes it", "starcoder2 command-r mpt")
def _(e):
    def norm(name, x):
        y = rms_norm(x, e.w.get(name + ".weight"), np.asarray(e.eps, x.dtype))
        bias = e.w.get(name + ".bias")
        return y if bias is None else y + bias
    e.norm = norm


@fault("norm-eps-hard-coded", "takes 1e-5 for the eps of all norms whatever the file says",
       "llama-eps")
def _(e):
    e.eps = 1e-5


@fault("head-norms-and-rotation-swapped", "rotates and normalizes the heads of q and k in the wrong order",
       "qwen3 lfm2 hunyuan")
def _(e):
    def turn(il, q, k, positions):
        if e.file.arch == "hunyuan-dense":
            q, k = (e.keep(f"{n}cur_norm-{il}", e.norm(f"blk.{il}.attn_{n.lower()}_norm", x))
                    for n, x in (("Q", q), ("K", k)))
            return tuple(e.keep(f"{n}cur-{il}", e.rotate(il, x, positions, n.lower())) for n, x in (("Q", q), ("K", k)))
        q, k = (e.keep(f"{n}cur-{il}", e.rotate(il, x, positions, n.lower())) for n, x in (("Q", q), ("K", k)))
        return e.head_norm(il, q, "q"), e.head_norm(il, k, "k")
    e.turn = turn


@fault("row-norm-head-by-head", "normalizes q and k head by head where the norm is of the whole row",
       "olmo2 olmoe minimax-m2")
def _(e):
    def head_norm(il, x, part):
        weight = e.w[f"blk.{il}.attn_{part}_norm.weight"].reshape(x.shape[1:])
        return e.keep(f"{part.upper()}cur_normed-{il}", rms_norm(x, weight, np.asarray(e.eps, x.dtype)))
    e.head_norm = head_norm


@fault("post-norms-behind-the-sum", "normalizes the stream behind each sum in place of what is added to it",
       "olmo3 gemma2 glm4")
def _(e):
    def block(il, x, positions):
        a = e.mixer(il, e.pre_norm(il, x), positions)
        x = e.post_norm(il, e.add(x, a), "post_attention_norm", "attn_post")
        x = e.keep(f"{e.names['ffn_inp']}-{il}", x)
        y = e.ffn(il, e.ffn_norm(il, x))
        return e.keep(f"l_out-{il}", e.post_norm(il, e.add(x, y), "post_ffw_norm", "ffn_post"))
    e.sequential_block = block


@fault("norm-biases-ignored", "leaves out the biases of the norms", "stablelm nemotron bloom gptneox-seq")
def _(e):
    for name in [n for n in e.w if n.endswith("norm.bias")]:
        del e.w[name]


@fault("last-norm-forgotten", "gives the last layer's output to the head without the norm between",
       "starcoder mamba falcon")
def _(e):
    e.final_norm = lambda x: x


# Feed-forward


@fault("quick-gelu", "takes x * sigmoid(1.702 x) for GELU", "gpt2 bert bloom phi2")
def _(e):
    e.activation = "gelu-quick"


@fault("fused-gate-up-reversed", "takes the first half of the fused feed-forward product for up and the second for the "
       "gate", "phi3 glm4 modernbert")
def _(e):
    after(e, "split_gate_up", lambda halves: halves[::-1])


@fault("silu-in-geglu", "gates the feed-forward with SiLU where the model has GELU", "gemma gemma2 jina-bert-v2")
def _(e):
    e.activation = "silu"


@fault("relu-left-unsquared", "does not square the ReLU", "nemotron nemotron-h rwkv7")
def _(e):
    e.activation = "relu"
    e.square = ACTIVATIONS["relu"]


@fault("xielu-slopes-raw", "takes xIELU's learned slopes as they are, without softplus", "apertus")
def _(e):
    def slopes_of(il):
        positive, negative, beta = (e.file.fields["xielu." + key][il] for key in ("alpha_p", "alpha_n", "beta"))
        return positive, beta + negative, beta
    e.slopes_of = slopes_of


@fault("gpt-oss-experts-plain-swiglu", "gates gpt-oss's experts with plain SwiGLU", "gpt-oss gpt-oss-large")
def _(e):
    e.expert_gate = lambda gate, up: ACTIVATIONS["silu"](gate) * up


@fault("half-precision-overflow", "keeps the gated product in half precision, which it overflows", "llama-large")
def _(e):
    after(e, "gate_up", to_f16)


# Experts


@fault("chosen-weights-renormalized", "makes the chosen experts' weights add up to 1 where they are used as they are",
       "qwen2moe olmoe deepseek2-v2 jamba")
def _(e):
    e.normalize_weights = True


@fault("chosen-weights-not-renormalized", "leaves the chosen experts' weights as the softmax over all gives them",
       "mixtral dbrx granitemoe")
def _(e):
    e.normalize_weights = False


@fault("correction-bias-in-weights", "takes the probabilities with the correction bias for the chosen experts' weights",
       "deepseek2-v3 ernie-moe lfm2moe")
def _(e):
    seen = []

    def select(inner, il, probs):
        seen[:] = [inner(il, probs)]
        return seen[0]
    wrap(e, "selection", select)
    wrap(e, "weigh", lambda inner, probs, top: inner(seen[0], top))


@fault("routed-scale-missing", "does not multiply the experts' weights with the file's scale",
       "deepseek2-v2 glm4moe")
def _(e):
    e.weights_scale = 1.0


@fault("router-softmax-for-sigmoid", "turns the router's logits into probabilities by softmax, not by the sigmoid",
       "glm4moe minimax-m2")
def _(e):
    e.gating = "softmax"


@fault("shared-expert-ungated", "adds the shared expert without its gate", "qwen2moe qwen3next")
def _(e):
    e.shared_gate = lambda il, logit: np.ones_like(logit)


@fault("chosen-weights-in-other-order", "gives the chosen experts each other's weights: it sorts one of the two lists "
       "the other way", "qwen3moe granitemoe olmoe")
def _(e):
    after(e, "weigh", lambda w: w[:, ::-1])


@fault("llama4-weights-on-outputs", "weighs the experts' outputs in place of their inputs", "llama4")
def _(e):
    def mixture(il, x):
        top = e.choose(il, e.route(il, x))
        e.keep(f"ffn_moe_topk-{il}", top)
        weights = e.keep(f"ffn_moe_weights-{il}", e.weigh(e.router_logits, top))
        gate = e.keep(f"ffn_moe_gate-{il}", e.expert_linear(il, "ffn_gate_exps", x[:, None], top))
        up = e.keep(f"ffn_moe_up-{il}", e.expert_linear(il, "ffn_up_exps", x[:, None], top))
        hidden = e.keep(f"ffn_moe_swiglu-{il}", e.expert_gate(gate, up))
        out = e.keep(f"ffn_moe_down-{il}", e.expert_linear(il, "ffn_down_exps", hidden, top))
        out = e.keep(f"ffn_moe_weighted-{il}", out * weights[..., None]).sum(1)
        return e.keep(f"ffn_out-{il}", e.keep(f"ffn_moe_out-{il}", out) + e.shared(il, x))
    e.mixture = mixture


# Loading, layout, dequantization


@fault("k-rows-permuted-for-all-heads", "undoes the permutation of k's rows as if k had as many heads as q",
       "llama mixtral granite")
def _(e):
    def edit(w):
        d = w.shape[0] // e.heads
        plain = w.reshape(e.heads, d // 2, 2, -1).swapaxes(1, 2).reshape(w.shape)
        d = w.shape[0] // e.kv_heads[0]
        return plain.reshape(e.kv_heads[0], 2, d // 2, -1).swapaxes(1, 2).reshape(w.shape)
    change(e, r"attn_k\.weight", edit)


@fault("fused-qkv-read-head-by-head", "takes q, k and v out of the fused product head by head, where they lie one behind "
       "the other", "gptneox bloom mpt")
def _(e):
    def split(il, qkv):
        parts = qkv.reshape(len(qkv), e.heads, 3, -1)
        return tuple(parts[:, :, i].reshape(len(qkv), -1) for i in range(3))
    e.split_qkv = split


@fault("attention-output-transposed", "multiplies with the transpose of attention's output matrix", "gpt2 falcon olmo")
def _(e):
    change(e, r"attn_output\.weight", lambda w: w.T)


@fault("nibbles-taken-for-neighbours", "takes the two nibbles of a byte for neighbouring weights of a block",
       "llama-q4_0 llama-q4_k")
def _(e):
    kind, size = ("Q4_0", 32) if any(t.tensor_type.name == "Q4_0" for t in e.file.raw.values()) else ("Q4_K", 64)
    for name in quantized(e, kind):
        w = e.w[name]
        e.w[name] = w.reshape(-1, 2, size // 2).swapaxes(1, 2).reshape(w.shape)


@fault("q4k-upper-scale-bits-lost", "leaves out the upper two bits of the scales and minima of the last four sub-blocks "
       "of Q4_K", "llama-q4_k")
def _(e):
    def edit(flat):
        flat.reshape(-1, 144)[:, 4:12] &= 63
    for name in quantized(e, "Q4_K"):
        e.w[name] = e.file.with_bytes(name, edit).astype(e.w[name].dtype)


@fault("qkv-biases-not-loaded", "does not load the biases of q, k and v", "qwen2 stablelm glm4moe")
def _(e):
    drop(e, r"attn_[qkv]\.bias")


@fault("norms-of-first-layer-everywhere", "reads the weights of the first layer's norms in all layers",
       "llama-linear qwen3 falcon-40b")
def _(e):
    for name in matching(e, r"(attn_norm|attn_norm_2|ffn_norm)\.(weight|bias)"):
        e.w[name] = e.w["blk.0." + name.split(".", 2)[2]]


@fault("k-and-v-exchanged", "loads k's weights as v's and v's as k's", "distilbert phi3 olmo")
def _(e):
    for il in range(e.layers):
        p = f"blk.{il}."
        if p + "attn_qkv.weight" in e.w:
            w, q, k = e.w[p + "attn_qkv.weight"], e.heads * e.head_dim, e.kv_heads[il] * e.head_dim
            e.w[p + "attn_qkv.weight"] = np.concatenate([w[:q], w[q + k:], w[q:q + k]])
        for kind in ("weight", "bias"):
            a, b = f"{p}attn_k.{kind}", f"{p}attn_v.{kind}"
            if a in e.w:
                e.w[a], e.w[b] = e.w[b], e.w[a]


@fault("row-parallel-bias-by-both-ranks", "adds the biases of attn_output and ffn_down twice, once on each of two devices",
       "gpt2 phi2 roberta")
def _(e):
    change(e, r"(attn_output|ffn_down)\.bias", lambda b: 2 * b)


# Cache and decoding


@fault("decoded-positions-one-ahead", "gives decoded tokens positions one too high", "llama qwen3 starcoder deepseek2-v2")
def _(e):
    wrap(e, "forward", lambda inner, ids, start: inner(ids, start + decoding(e)))


@fault("keys-cached-unrotated", "writes k into the cache before it is rotated, and rotates only the new k",
       "llama gptneox command-r")
def _(e):
    plain = {}

    def turn(inner, il, q, k, positions):
        plain[il] = k
        return inner(il, q, k, positions)

    def remember(inner, il, k, v, positions):
        all_k, all_v, at = inner(il, k, v, positions)
        e.cache[il] = np.concatenate([all_k[:-len(k)], plain[il]]), all_v, at
        return all_k, all_v, at
    wrap(e, "turn", turn)
    wrap(e, "remember", remember)


@fault("all-caches-trimmed-to-window", "keeps only a window of keys and values when it decodes, also in the layers that "
       "see everything", "gemma2 olmo3 gpt-oss")
def _(e):
    size = next(w for w in e.window if w)
    wrap(e, "remember", lambda inner, *args: tuple(x[-size:] for x in inner(*args)) if decoding(e) else inner(*args))


@fault("decoded-token-over-the-last-slot", "writes a decoded token's key and value over those of the token before it",
       "phi3 bloom qwen3moe")
def _(e):
    def remember(inner, il, k, v, positions):
        if decoding(e):
            e.cache[il] = tuple(x[:-1] for x in e.cache[il])
        return inner(il, k, v, positions)
    wrap(e, "remember", remember)


@fault("recurrent-states-reset-before-decoding", "begins to decode with empty recurrent states; convolutions keep theirs",
       "mamba2 jamba qwen3next")
def _(e):
    def forward(inner, ids, start):
        if e.call == 1:
            for key in [k for k in e.cache if isinstance(k, tuple) and k[1] in ("ssm", "delta")]:
                del e.cache[key]
        return inner(ids, start)
    wrap(e, "forward", forward)


# Embedding and output


@fault("embedding-scale-forgotten", "does not multiply the embedding with its scale", "gemma minicpm granite")
def _(e):
    e.embed_scale = 1.0


@fault("head-tied-anyway", "multiplies with the embedding's rows for the logits though the file has a head",
       "llama-llama3 ernie falcon-mamba")
def _(e):
    del e.w["output.weight"]


@fault("logit-scale-inverted", "divides the logits where it is to multiply them, or the other way round",
       "granite command-r granitehybrid")
def _(e):
    e.logit_scale = 1 / e.logit_scale


@fault("learned-positions-two-late", "adds an offset of two to learned positions, which the table has lost on conversion "
       "or never had", "roberta gpt2 starcoder")
def _(e):
    wrap(e, "learned_positions", lambda inner, positions: inner(positions + 2))


@fault("lfm2-last-norm-on-embedding", "normalizes the embedding with token_embd_norm, and not the last layer's output",
       "lfm2 lfm2moe")
def _(e):
    e.embed = lambda ids, positions: e.keep("inp_embd", e.norm("token_embd_norm", e.w["token_embd.weight"][ids]))
    e.final_norm = lambda x: x


# States


@fault("kernel-taps-reversed", "reads the taps of the short convolution from the newest token to the oldest",
       "mamba lfm2 qwen3next")
def _(e):
    change(e, r"(ssm_conv1d|shortconv\.conv)\.weight", lambda w: w[:, ::-1])


@fault("convolved-values-cached", "leaves the convolution's results behind for decoding in place of its inputs",
       "mamba2 falcon-h1 lfm2moe")
def _(e):
    def convolve(inner, il, x, weight, *bias):
        y = inner(il, x, weight, *bias)
        if not decoding(e):
            e.cache[il, "conv"] = y[-(weight.shape[-1] - 1):]
        return y
    wrap(e, "convolve", convolve)


@fault("token-shift-lost-in-decoding", "mixes decoded tokens with zeros in place of the tokens before them",
       "rwkv6 rwkv7")
def _(e):
    def shift(inner, il, kind, x):
        if decoding(e):
            e.cache.pop((il, kind), None)
        return inner(il, kind, x)
    wrap(e, "shift", shift)


@fault("decay-exponentiated-again", "takes -exp of the stored decays, which are -exp(A_log) already",
       "mamba bamba nemotron-h")
def _(e):
    after(e, "decay", lambda a: -np.exp(a))


@fault("state-groups-tiled", "hands the groups of the state's input and output vectors to the heads in turn, not in runs",
       "mamba2 nemotron-h qwen3next")
def _(e):
    e.to_heads = lambda x, heads: np.tile(x, (1, heads // x.shape[1], 1))


@fault("mamba2-norm-before-gate", "normalizes Mamba 2's output first and gates it then", "bamba granitehybrid mamba2")
def _(e):
    e.norm_and_gate = lambda il, y, z, groups: e.group_norm(il, y, groups) * e.silu(z)


@fault("small-norms-missing", "does not normalize step, input and output vectors", "jamba falcon-mamba")
def _(e):
    e.small_norm = lambda il, name, x: x


@fault("strengths-and-decays-split-in-halves", "cuts the product of strengths and decays in two halves, where they lie "
       "side by side for each key head", "qwen3next")
def _(e):
    e.split_ba = lambda ba, k_heads, v_heads: (ba[:, :v_heads], ba[:, v_heads:])


# Latent attention


@fault("mla-rotates-halves", "pairs the halves of the rotated part of q and k, which the file holds as neighbours",
       "deepseek2-lite deepseek2-v2 deepseek2-v3")
def _(e):
    ropes(e, lambda r: replace(r, pairs="half"))


@fault("mla-scale-without-rotated-part", "scales the scores by the root of the width of the part that is not rotated",
       "deepseek2-lite deepseek2-v3")
def _(e):
    e.scale = 1 / math.sqrt(e.nope)


@fault("kv-b-split-across-heads", "cuts kv_b into all heads' keys and then all heads' values, where each head has its own "
       "two", "deepseek2-v2 deepseek2-v3")
def _(e):
    for il in range(e.layers):
        k, v = e.w[f"blk.{il}.attn_k_b.weight"], e.w[f"blk.{il}.attn_v_b.weight"]
        rows = np.concatenate([k.swapaxes(1, 2), v], 1).reshape(-1, k.shape[1])
        cut = k.shape[0] * k.shape[2]
        e.w[f"blk.{il}.attn_k_b.weight"] = rows[:cut].reshape(k.shape[0], k.shape[2], -1).swapaxes(1, 2)
        e.w[f"blk.{il}.attn_v_b.weight"] = rows[cut:].reshape(v.shape)


@fault("narrow-q-not-normalized", "leaves out the norm between the two narrow matrices of q", "deepseek2-v2 deepseek2-v3")
def _(e):
    e.query_norm = lambda il, x: x
