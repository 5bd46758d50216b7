"""A third set of faults, written by an author who had seen nothing of the catalogue, and run once when the catalogue
was frozen.
"""

import math
from copy import copy
from dataclasses import replace

import numpy as np

from engine.arithmetic import to_f16
from engine.parts import frequencies, softmax, yarn_ramp

from .tools import after, change, decoding, matching, registrar, wrap

THIRD = {}
fault = registrar(THIRD)

# How many tokens of a prompt are run together where a fault runs it in chunks.
CHUNK = 8


def ropes(e, edit):
    """Replace the rotations that there are."""
    e.ropes = [None if r is None else edit(r) for r in e.ropes]


def at_decode(e, edit):
    """Edit the engine once, before it runs the first decoded token."""
    def forward(inner, ids, start):
        if e.call == 1:
            edit()
        return inner(ids, start)
    wrap(e, "forward", forward)


def exchange(e, one, other):
    """Exchange two tensors of each layer that has both."""
    for name in matching(e, one + r"\.(weight|bias)"):
        twin = name.replace("." + one + ".", "." + other + ".")
        if twin in e.w:
            e.w[name], e.w[twin] = e.w[twin], e.w[name]


def paired(w, heads):
    """Bring rows from the order of halves into that of pairs, head by head."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(w.shape)


def quantized(e, kind):
    """Return the names of the tensors that are stored in a kind."""
    names = [n for n, t in e.file.raw.items() if t.tensor_type.name == kind]
    if not names:
        raise LookupError(kind)
    return names


def edit_blocks(e, kinds, edit):
    """Edit the bytes of all blocks, [blocks, bytes], of the tensors that are stored in one of the kinds."""
    size = {"Q8_0": 34, "Q4_0": 18, "Q4_K": 144, "Q6_K": 210}
    for kind in kinds:
        for name in (n for n, t in e.file.raw.items() if t.tensor_type.name == kind):
            w = e.file.with_bytes(name, lambda flat: edit(flat.reshape(-1, size[kind])))
            e.w[name] = w.astype(e.w[name].dtype)


# Embedding and positions


@fault("tokens-looked-up-in-head", "looks the tokens up in the head's matrix in place of the embedding's",
       "llama-eps gptneox rwkv6 olmo")
def _(e):
    e.w["token_embd.weight"] = e.w["output.weight"]


@fault("embedding-scale-missing-at-decode", "scales the prompt's embedding and not that of decoded tokens",
       "gemma minicpm granitehybrid")
def _(e):
    at_decode(e, lambda: setattr(e, "embed_scale", 1.0))


@fault("embedding-norm-before-positions", "normalizes the tokens' rows and adds types and positions then",
       "bert roberta distilbert")
def _(e):
    def embed(ids, positions):
        x = e.keep("embd", e.w["token_embd.weight"][ids])
        x = e.keep("inp_norm-0", e.norm("token_embd_norm", x))
        if "token_types.weight" in e.w:
            x = x + e.w["token_types.weight"][0]
        return e.keep("inp_embd", e.add_positions(x, positions))
    e.embed = embed


@fault("second-chunk-counted-from-zero", "runs a prompt in chunks of eight and counts the positions of each from 0",
       "gpt2 gptneox-seq starcoder2 granite")
def _(e):
    wrap(e, "learned_positions", lambda inner, p: inner(p if decoding(e) else p % CHUNK))
    wrap(e, "rotate", lambda inner, il, x, p, part: inner(il, x, p if decoding(e) else p % CHUNK, part))


@fault("embedding-norm-in-every-layer", "normalizes the stream before each layer with the norm of the embedding",
       "rwkv6 rwkv7 bloom")
def _(e):
    wrap(e, "layer", lambda inner, il, x, p: inner(il, e.norm("token_embd_norm", x) if il else x, p))


@fault("stale-token-at-decode", "decodes each time with the token before the new one", "phi3 mamba rwkv7 lfm2")
def _(e):
    seen = []

    def forward(inner, ids, start):
        fed = seen[-1:] or ids
        seen.extend(ids)
        return inner(fed, start)
    wrap(e, "forward", forward)


# Norms


@fault("norm-over-all-tokens", "takes the mean square of all tokens of a call together in RMS norms",
       "qwen2moe granitemoe phi3-longrope")
def _(e):
    e.norm = lambda name, x: x / np.sqrt((x * x).mean() + np.asarray(e.eps, x.dtype)) * e.w[name + ".weight"]


@fault("post-norms-exchanged", "normalizes attention's output with the feed-forward's weight and the reverse",
       "olmo2 olmo3 gemma2")
def _(e):
    exchange(e, "post_attention_norm", "post_ffw_norm")


@fault("q-norm-for-k-too", "normalizes the heads of k with the weight that is for those of q",
       "apertus glm4moe lfm2moe hunyuan")
def _(e):
    for name in matching(e, r"attn_k_norm\.weight"):
        e.w[name] = e.w[name.replace("attn_k", "attn_q")]


@fault("v-heads-normalized-too", "normalizes the heads of v like those of k", "qwen3 gemma3 qwen3-yarn")
def _(e):
    def keep(inner, name, x):
        if name.startswith("Vcur-"):
            norm = f"blk.{name[5:]}.attn_k_norm"
            x = e.norm(norm, x.reshape(len(x), -1, e.head_dim)).reshape(x.shape)
        return inner(name, x)
    wrap(e, "keep", keep)


@fault("head-norms-missing-at-decode", "normalizes the heads of q and k in the prompt and not when it decodes",
       "qwen3moe gemma3 lfm2 minimax-m2")
def _(e):
    wrap(e, "head_norm", lambda inner, il, x, part:
         e.keep(f"{part.upper()}cur_normed-{il}", x) if decoding(e) else inner(il, x, part))


@fault("embedding-norm-for-the-last", "normalizes the last layer's output with the weight of the embedding's norm",
       "bloom rwkv6 modernbert")
def _(e):
    for kind in ("weight", "bias"):
        if f"token_embd_norm.{kind}" in e.w:
            e.w[f"output_norm.{kind}"] = e.w[f"token_embd_norm.{kind}"]


# q, k and v, and what the heads give back


@fault("fused-bias-for-q-only", "adds the part of the fused bias that is q's, and leaves out those of k and v",
       "gpt2 starcoder bloom gptneox")
def _(e):
    change(e, r"attn_qkv\.bias", lambda b: np.where(np.arange(len(b)) < e.heads * e.head_dim, b, 0))


@fault("q-bias-behind-scale", "scales q before its bias is added, so that the bias stays unscaled",
       "llama-bias phi2 distilbert stablelm")
def _(e):
    change(e, r"attn_q\.bias", lambda b: b / e.scale)


@fault("v-bias-behind-attention", "adds v's bias to the heads' outputs, as if weights added up to 1 beside a sink",
       "gpt-oss gpt-oss-unrounded")
def _(e):
    def attend(inner, il, q, k, v, positions, at):
        bias = e.w[f"blk.{il}.attn_v.bias"].reshape(v.shape[1:])
        return inner(il, q, k, v - bias, positions, at) + bias[e.group(il, q.shape[1], v.shape[1])].reshape(-1)
    wrap(e, "attend", attend)


@fault("clip-of-q-and-k-only", "cuts q and k off at the file's limit, and leaves v as it is", "olmo dbrx")
def _(e):
    if e.file.arch == "dbrx":
        kept = (e.heads + e.kv_heads[0]) * e.head_dim
        wrap(e, "cut", lambda inner, x: np.concatenate([inner(x[:, :kept]), x[:, kept:]], 1))
        return

    def project_one(inner, il, x, part):
        cut = e.cut
        e.cut = (lambda y: y) if part == "v" else cut
        y = inner(il, x, part)
        e.cut = cut
        return y
    wrap(e, "project_one", project_one)


@fault("output-bias-before-product", "adds the bias of attention's output before the product in place of behind it",
       "gptneox starcoder2 roberta gpt2")
def _(e):
    wrap(e, "linear", lambda inner, name, x: e.arith.dot(x + e.w[name + ".bias"], e.w[name + ".weight"])
         if name.endswith("attn_output") else inner(name, x))


@fault("heads-joined-group-first", "joins the heads' outputs so that the heads of one kv head are no longer neighbours",
       "qwen3 llama-llama3 granite ernie")
def _(e):
    def attend(inner, il, q, *args):
        o = inner(il, q, *args)
        return o.reshape(len(q), e.kv_heads[il], e.heads // e.kv_heads[il], -1).swapaxes(1, 2).reshape(o.shape)
    wrap(e, "attend", attend)


@fault("fused-qkv-cut-for-two-devices", "cuts a fused product as if two devices had saved their own q, k and v each",
       "mpt bloom nomic-bert modernbert")
def _(e):
    def split(il, qkv):
        ends = np.cumsum([e.heads, e.kv_heads[il]]) * e.head_dim // 2
        devices = [np.split(half, ends, 1) for half in np.split(qkv, 2, 1)]
        return tuple(np.concatenate(parts, 1) for parts in zip(*devices))
    e.split_qkv = split


@fault("v-rows-paired-too", "reorders the rows of v for interleaved pairs, as those of q and k",
       "llama-q8_0 mixtral minicpm")
def _(e):
    change(e, r"attn_v\.weight", lambda w: paired(w, e.kv_heads[0]))


# Rotation


@fault("part-of-first-head-rotated", "rotates the first numbers of a whole row and not those of each head",
       "gptneox-seq stablelm phi2 nemotron")
def _(e):
    wrap(e, "rotate", lambda inner, il, x, p, part: np.concatenate([inner(il, x[:, :1], p, part), x[:, 1:]], 1))


@fault("exponents-from-the-second", "counts the exponents of the frequencies from the second one on",
       "olmoe starcoder2 nomic-bert falcon-h1")
def _(e):
    ropes(e, lambda r: replace(r, freq=r.freq * e.base ** (-2 / e.rope_dims)))


@fault("minus-of-half-forgotten", "exchanges the halves of a head for the rotation without the minus of one of them",
       "falcon olmo3 glm4moe phi3")
def _(e):
    def rotate(inner, il, x, p, part):
        half = len(e.ropes[il].freq)
        second = x.copy()
        second[..., :half] = 0
        y = inner(il, x, p, part)
        y[..., :half] -= 2 * inner(il, second, p, part)[..., :half]
        return y
    wrap(e, "rotate", rotate)


@fault("yarn-ramp-over-numbers", "counts along YaRN's ramp by numbers of a head in place of pairs",
       "llama-yarn qwen3-yarn gpt-oss-unrounded")
def _(e):
    f, whole = e.file, getattr(e, "whole_ramp", True)
    ramp = yarn_ramp(e.base, e.rope_dims, f.get("rope.scaling.original_context_length"),
                     f.get("rope.scaling.yarn_beta_fast", 32.0), f.get("rope.scaling.yarn_beta_slow", 1.0), whole)
    ramp = ramp[np.minimum(2 * np.arange(len(ramp)), len(ramp) - 1)]
    freq = frequencies(e.base, e.rope_dims)
    ropes(e, lambda r: replace(r, freq=freq * (1 - ramp) + freq / f.get("rope.scaling.factor") * ramp))


@fault("llama3-scaling-as-linear", "divides all frequencies by the factor that Llama 3 has for the slow ones",
       "llama-llama3")
def _(e):
    ropes(e, lambda r: replace(r, freq=frequencies(e.base, e.rope_dims) / e.w["rope_freqs.weight"].max()))


@fault("rope-scaling-missing-at-decode", "rotates decoded tokens by frequencies that nothing has scaled",
       "llama-linear llama-llama3 phi3-longrope llama-yarn")
def _(e):
    at_decode(e, lambda: ropes(e, lambda r: replace(r, freq=frequencies(e.base, e.rope_dims), magnitude=1.0)))


@fault("linear-scale-on-base", "multiplies the base of the rotation with the file's factor in place of slowing it down",
       "llama-linear gemma3")
def _(e):
    factor, local = e.file.get("rope.scaling.factor"), getattr(e, "local", [False] * e.layers)
    e.ropes = [r if near else replace(r, freq=frequencies(e.base * factor, e.rope_dims))
               for r, near in zip(e.ropes, local)]


# Masks, windows, scores and their softmax


@fault("causal-mask-at-top-left", "lays the causal mask on the first slots: a decoded token sees the first one only",
       "llama qwen2 phi3 stablelm")
def _(e):
    wrap(e, "mask", lambda inner, il, i, j: inner(il, i - i.min() if decoding(e) else i, j))


@fault("window-missing-at-decode", "lets decoded tokens of local layers see everything",
       "gemma2 cohere2 olmo3 gpt-oss-unrounded")
def _(e):
    at_decode(e, lambda: setattr(e, "window", [None] * e.layers))


@fault("window-as-chunks", "lets local layers see the tokens of the same chunk in place of the last ones",
       "gemma2 gpt-oss olmo3 cohere2")
def _(e):
    def mask(inner, il, i, j):
        size = e.window[il]
        return inner(il, i, j) if size is None else (j <= i) & (i // size == j // size)
    wrap(e, "mask", mask)


@fault("pattern-begins-with-global-layer", "takes the first of each run of layers for the global one, not the last",
       "gemma3 cohere2 olmo3")
def _(e):
    run = 6 if e.file.arch == "gemma3" else 4
    near, far = ([layer for layer in zip(e.window, e.ropes, e.local) if bool(layer[2]) == here][0]
                 for here in (True, False))
    layers = [far if il % run == 0 else near for il in range(e.layers)]
    e.window, e.ropes, e.local = map(list, zip(*layers))


@fault("encoder-window-behind-only", "lets an encoder's local layers see the tokens before a token and none after it",
       "modernbert")
def _(e):
    wrap(e, "mask", lambda inner, il, i, j: inner(il, i, j) & ((j <= i) | (e.window[il] is None)))


@fault("last-token-taken-for-padding", "hides the last token of a text from all others as if it were padding",
       "bert distilbert nomic-bert jina-bert-v2")
def _(e):
    wrap(e, "mask", lambda inner, il, i, j: inner(il, i, j) & ((j < j.max()) | (i == j)))


@fault("second-chunk-without-first", "runs a prompt in chunks of eight and lets no chunk see those before it",
       "mixtral ernie glm4 starcoder")
def _(e):
    wrap(e, "mask", lambda inner, il, i, j: inner(il, i, j) & (decoding(e) | (j >= i // CHUNK * CHUNK)))


@fault("alibi-left-in-base-e", "takes powers of 2 in the softmax and converts the scores for it, but not ALiBi's bias",
       "bloom mpt jina-bert-v2")
def _(e):
    e.slopes = e.slopes * math.log(2)


@fault("sinks-not-shifted", "subtracts the largest score before exp from all scores and not from the sinks",
       "gpt-oss gpt-oss-unrounded")
def _(e):
    def soften(il, scores):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return powers / (powers.sum(-1, keepdims=True) + np.exp(e.w[f"blk.{il}.attn_sinks.weight"])[:, None, None])
    e.soften = soften


@fault("cap-in-base-2", "caps scores that have been converted to powers of 2 already", "gemma2")
def _(e):
    def cap(inner, x, limit):
        return (inner(x / math.log(2), limit) * math.log(2)).astype(x.dtype) if limit == e.softcap else inner(x, limit)
    wrap(e, "cap", cap)


@fault("softmax-over-queries", "takes the softmax over the tokens that look and not over those that they see",
       "phi2 mpt gpt2")
def _(e):
    e.soften = lambda il, scores: softmax(scores.swapaxes(1, 2)).swapaxes(1, 2)


@fault("score-multiplier-as-divisor", "divides the scores by the file's multiplier", "granite granitemoe granitehybrid")
def _(e):
    e.scale = 1 / e.scale


# Cache and decoding


@fault("oldest-slot-dropped-at-decode", "drops the oldest slot of a full cache for each decoded token",
       "apertus mixtral falcon minicpm")
def _(e):
    def remember(inner, il, *args):
        if decoding(e):
            e.cache[il] = tuple(x[1:] for x in e.cache[il])
        return inner(il, *args)
    wrap(e, "remember", remember)


@fault("values-one-slot-behind-keys", "reads the values one slot further than the keys when it decodes",
       "dbrx ernie-moe hunyuan nemotron")
def _(e):
    def remember(inner, *args):
        k, v, at = inner(*args)
        return k, np.roll(v, 1, 0) if decoding(e) else v, at
    wrap(e, "remember", remember)


@fault("cached-keys-rotated-again", "rotates all keys of the cache when it decodes, though they were rotated before",
       "qwen3 falcon-40b olmo2 command-r")
def _(e):
    def remember(inner, il, *args):
        k, v, at = inner(il, *args)
        if decoding(e) and e.ropes[il] is not None:
            k = np.concatenate([e.rotate(il, k[:-1], at[:-1], "k"), k[-1:]])
        return k, v, at
    wrap(e, "remember", remember)


@fault("value-scale-not-undone", "halves values for an 8-bit cache and does not double them when it reads them",
       "qwen3moe glm4moe granitemoe")
def _(e):
    def remember(inner, *args):
        k, v, at = inner(*args)
        return k, v / 2 if decoding(e) else v, at
    wrap(e, "remember", remember)


@fault("qkv-biases-missing-at-decode", "adds the biases of q, k and v in the prompt and not when it decodes",
       "qwen2 gpt-oss phi2 qwen2moe")
def _(e):
    at_decode(e, lambda: change(e, r"attn_[qkv]\.bias", lambda b: 0 * b))


# The stream


@fault("share-of-second-device-missing", "does not add what the second of two devices has computed of a product",
       "llama-q8_0 olmo jamba nemotron")
def _(e):
    change(e, r"(attn_output|ffn_down)\.weight", lambda w: np.where(np.arange(w.shape[1]) < w.shape[1] // 2, w, 0))


@fault("parallel-residual-doubled", "adds the stream to attention's output and to the feed-forward's, and adds both",
       "gptneox falcon cohere2 phi2")
def _(e):
    def parallel_block(il, x, positions):
        h = e.pre_norm(il, x)
        a = e.mixer(il, h, positions)
        y = e.ffn(il, e.ffn_norm(il, x) if f"blk.{il}.ffn_norm.weight" in e.w else h)
        return e.keep(f"l_out-{il}", e.add(x, a) + e.add(x, y))
    e.parallel_block = parallel_block


@fault("residual-scale-as-divisor", "divides what blocks compute by the file's scale before it is added",
       "granite minicpm granitehybrid")
def _(e):
    e.residual_scale = 1 / e.residual_scale


@fault("layers-in-order-of-names", "sorts layers by their names, so that layer 10 comes before layer 2",
       "deepseek2-lite")
def _(e):
    order = sorted(range(e.layers), key=str)
    loaded = dict(e.w)
    for name in loaded:
        if name.startswith("blk."):
            del e.w[name]
    for to, source in enumerate(order):
        for name, w in loaded.items():
            if name.startswith(f"blk.{source}."):
                e.w[f"blk.{to}." + name.split(".", 2)[2]] = w


# Feed-forward


@fault("square-without-relu", "squares negative numbers, too, where a ReLU comes before the square",
       "nemotron nemotron-h rwkv6 rwkv7")
def _(e):
    e.act = e.square = lambda x: x * x


@fault("xielu-exp-for-expm1", "takes exp(x) for exp(x) - 1 in xIELU", "apertus")
def _(e):
    def act(inner, x):
        negative = e.slopes_of(e.at)[1]
        return np.where(x > 0, inner(x), inner(x) + negative).astype(x.dtype)
    wrap(e, "act", act)


@fault("hard-swish-for-silu", "takes x * min(max(x + 3, 0), 6) / 6 for SiLU", "qwen2 stablelm lfm2moe nomic-bert")
def _(e):
    e.act = lambda x: x * np.clip(x + 3, 0, 6) / 6


@fault("interleaved-experts-cut-in-halves", "cuts gpt-oss's gate and up, whose rows alternate, into two halves",
       "gpt-oss gpt-oss-unrounded")
def _(e):
    for gate in matching(e, r"ffn_gate_exps\.(weight|bias)"):
        up = gate.replace("ffn_gate", "ffn_up")
        both = np.stack([e.w[gate], e.w[up]], 2)
        both = both.reshape(both.shape[0], -1, *both.shape[3:])
        e.w[gate], e.w[up] = np.split(both, 2, 1)


@fault("up-shifted-before-clamp", "adds 1 to up first and clamps it then", "gpt-oss-large")
def _(e):
    wrap(e, "expert_gate", lambda inner, gate, up:
         inner(gate, np.clip(up + np.asarray(1, up.dtype), -e.limit, e.limit) - np.asarray(1, up.dtype)))


@fault("overflow-guard-not-undone", "divides the gated product by 16 for half precision and never multiplies it back",
       "llama-large gemma")
def _(e):
    after(e, "gate_up", lambda hidden: hidden / 16)


# Experts


@fault("second-shared-expert-missing", "adds the first of two shared experts, which lie in one matrix",
       "ernie-moe deepseek2-v2 deepseek2-v3")
def _(e):
    change(e, r"ffn_down_shexp\.weight", lambda w: np.where(np.arange(w.shape[1]) < w.shape[1] // 2, w, 0))


@fault("experts-of-first-token-for-all", "runs all tokens of a call through the experts that the first one has chosen",
       "mixtral dbrx jamba")
def _(e):
    after(e, "choose", lambda top: np.repeat(top[:1], len(top), 0))


@fault("correction-bias-on-logits", "adds the correction bias to the router's logits, before the sigmoid",
       "deepseek2-v3 minimax-m2 lfm2moe glm4moe")
def _(e):
    def route(il, x):
        logits = e.keep(f"ffn_moe_logits-{il}", e.arith.dot(x, e.w[f"blk.{il}.ffn_gate_inp.weight"]))
        return e.keep(f"ffn_moe_probs-{il}", e.gate_logits(logits + e.w[f"blk.{il}.exp_probs_b.bias"]))
    e.route = route
    e.selection = lambda il, probs: e.keep(f"ffn_moe_probs_biased-{il}", probs)


@fault("expert-groups-in-turn", "counts expert i to the group i modulo their number, not to runs of neighbours",
       "deepseek2-v3")
def _(e):
    def choose(inner, il, selection):
        order = np.arange(selection.shape[1]).reshape(-1, e.groups).T.reshape(-1)
        return order[inner(il, selection[:, order])]
    wrap(e, "choose", choose)


@fault("routed-scale-as-divisor", "divides the routed experts' weights by the file's scale",
       "deepseek2-lite deepseek2-v3 glm4moe")
def _(e):
    e.weights_scale = 1 / e.weights_scale


@fault("tokens-over-capacity-dropped", "gives each expert a fair share of a call's tokens and drops later ones",
       "olmoe qwen3moe ernie-moe mixtral")
def _(e):
    def weigh(inner, probs, top):
        full = math.ceil(top.size / probs.shape[1])
        taken = np.cumsum(np.eye(probs.shape[1], dtype=int)[top].sum(1), 0)
        return np.where(np.take_along_axis(taken, top, 1) <= full, inner(probs, top), 0).astype(probs.dtype)
    wrap(e, "weigh", weigh)


@fault("shared-expert-weighted-too", "weighs the shared expert's input as that of the chosen expert", "llama4")
def _(e):
    seen = []

    def weigh(inner, probs, top):
        seen[:] = [inner(probs, top)]
        return seen[0]
    wrap(e, "weigh", weigh)
    wrap(e, "shared", lambda inner, il, x: inner(il, x * seen[0][:, :1]))


# Latent attention


@fault("narrow-norms-exchanged", "normalizes the narrow q with the latent's weight and the latent with the narrow q's",
       "deepseek2-v2 deepseek2-v3")
def _(e):
    exchange(e, "attn_q_a_norm", "attn_kv_a_norm")


@fault("k-b-transposed", "multiplies q with the transpose of the matrix that belongs to the latent's keys",
       "deepseek2-v2 deepseek2-v3")
def _(e):
    change(e, r"attn_k_b\.weight", lambda w: w.swapaxes(1, 2))


@fault("values-of-raw-latent", "takes the latent before its norm for the values, and the normalized one for the keys",
       "deepseek2-lite deepseek2-v2")
def _(e):
    raw = {}

    def latent_norm(inner, il, latent):
        raw[il] = latent
        return inner(il, latent)

    wrap(e, "latent_norm", latent_norm)
    wrap(e, "keep", lambda inner, name, x:
         inner(name, raw[int(name[5:])][:, None] if name.startswith("Vcur-") else x))


@fault("rotated-key-counted-in-call", "rotates the shared key by a token's place in the call, 0 when it decodes",
       "deepseek2-lite deepseek2-v3")
def _(e):
    wrap(e, "rotate", lambda inner, il, x, p, part: inner(il, x, p - p.min() if part == "k" else p, part))


# Layers with a state


@fault("steps-clamped-to-initial-range", "cuts the steps off at 0.001 and 0.1, between which training begins",
       "mamba2 bamba nemotron-h falcon-mamba")
def _(e):
    after(e, "step", lambda dt: np.clip(dt, 0.001, 0.1).astype(dt.dtype))


@fault("vectors-not-convolved", "convolves the scan's input and not its input and output vectors",
       "mamba2 nemotron-h granitehybrid")
def _(e):
    inner_size = e.file.get("ssm.inner_size")
    wrap(e, "convolve", lambda inner, il, x, *args:
         np.concatenate([inner(il, x, *args)[:, :inner_size], x[:, inner_size:]], 1))


@fault("skip-behind-gate", "adds D times the scan's input behind the gate in place of before it",
       "mamba jamba falcon-mamba")
def _(e):
    def skip(inner, il, u):
        e.skipped = inner(il, u)
        return 0 * u
    wrap(e, "skip", skip)
    after(e, "gate_state", lambda y: y + e.skipped)


@fault("state-lost-between-chunks", "runs the scan in chunks of eight tokens and begins each with an empty state",
       "mamba2 falcon-h1 bamba qwen3next")
def _(e):
    method, kind = ("delta_scan", "delta") if e.file.arch == "qwen3next" else ("scan_heads", "ssm")

    def scan(inner, il, u, *args):
        n, out = len(u), []
        for begin in range(0, n, CHUNK):
            if begin:
                del e.cache[il, kind]
            cut = [x[begin:begin + CHUNK] if len(x) == n and x.ndim > 1 else x for x in (u, *args)]
            out.append(inner(il, *cut))
        return np.concatenate(out)
    wrap(e, method, scan)


@fault("conv-bias-missing-at-decode", "adds the bias of the convolution in the prompt and not when it decodes",
       "mamba jamba falcon-h1")
def _(e):
    at_decode(e, lambda: change(e, r"ssm_conv1d\.bias", lambda b: 0 * b))


@fault("step-vector-last", "cuts the second product into input, output and step vectors, in this order",
       "mamba falcon-mamba jamba")
def _(e):
    def split(inner, il, x):
        rank = e.file.get("ssm.time_step_rank")
        return inner(il, np.concatenate([x[:, -rank:], x[:, :-rank]], 1))
    wrap(e, "split_dt_b_c", split)


@fault("convolution-one-token-late", "pads the convolution by one token too many, so that each token gets the result "
       "of the one before", "lfm2 lfm2moe granitehybrid qwen3next")
def _(e):
    last = {}

    def convolve(inner, il, x, *args):
        y = inner(il, x, *args)
        before, last[il] = last.get(il, 0 * y[:1]), y[-1:]
        return np.concatenate([before, y[:-1]])
    wrap(e, "convolve", convolve)


@fault("delta-decay-behind-write", "lets the delta rule's state decay behind a token's write in place of before it",
       "qwen3next")
def _(e):
    def delta_scan(il, q, k, v, g, beta):
        s = e.state(il, "delta", (k.shape[1], k.shape[2], v.shape[2]))
        out = np.empty_like(v)
        for t in range(len(q)):
            s = s + k[t][..., None] * (beta[t][:, None] * (v[t] - e.recall(s, k[t])))[:, None]
            s = np.exp(g[t])[:, None, None] * s
            out[t] = np.einsum("hkv,hk->hv", s, e.query(q[t]))
        e.cache[il, "delta"] = s
        return out
    e.delta_scan = delta_scan


@fault("q-and-gate-cut-in-halves", "takes the first half of q's product for q and the second for the gate, which lie "
       "head by head", "qwen3next")
def _(e):
    def project_one(inner, il, x, part):
        if part != "q":
            return inner(il, x, part)
        both = e.keep(f"Qcur_full-{il}", e.arith.dot(x, e.w[f"blk.{il}.attn_q.weight"]))
        q, e.gate = np.split(both, 2, 1)
        return q
    wrap(e, "project_one", project_one)


# RWKV


@fault("share-of-current-token", "takes a token shift's shares for those of the token itself, not of the one before",
       "rwkv6 rwkv7")
def _(e):
    for method in ("time_mix", "channel_mix"):
        wrap(e, method, lambda inner, il, x, gap: inner(il, x + gap, -gap))


@fault("decay-along-values", "lets the state decay along its values in place of its keys", "rwkv6 rwkv7")
def _(e):
    def version_6(il, r, w, k, v):
        first, s, out = e.first(il), e.wkv_state(il), np.empty_like(v)
        for t in range(len(r)):
            new = k[t][..., None] * v[t][:, None]
            out[t] = np.einsum("hk,hkv->hv", r[t], s + first[..., None] * new)
            s = w[t][:, None] * s + new
        e.cache[il, "wkv"] = s
        return out

    def version_7(il, r, w, k, v, kk, a):
        s, out = e.wkv_state(il), np.empty_like(v)
        for t in range(len(r)):
            known = np.einsum("hvk,hk->hv", s, kk[t])
            s = s * w[t][..., None] - known[..., None] * (kk[t] * a[t])[:, None] + v[t][..., None] * k[t][:, None]
            out[t] = np.einsum("hvk,hk->hv", s, r[t])
        e.cache[il, "wkv"] = s
        return out
    e.scan = version_6 if e.file.arch == "rwkv6" else version_7


@fault("one-shift-state-for-both-mixes", "keeps the last token of time mix and channel mix in the same place",
       "rwkv6 rwkv7")
def _(e):
    wrap(e, "shift", lambda inner, il, kind, x: inner(il, "both", x))


@fault("removal-key-of-replaced-key", "makes the removal key of the key that has been replaced in part already",
       "rwkv7")
def _(e):
    def time_mix(inner, il, x, gap):
        e.at = il
        return inner(il, x, gap)

    def rate(inner, a):
        e.last_rate = inner(a)
        return e.last_rate

    def unit(inner, kk):
        return inner(e.to_heads(e.key(e.at, kk.reshape(len(kk), -1), e.last_rate)))
    wrap(e, "time_mix", time_mix)
    wrap(e, "rate", rate)
    wrap(e, "unit", unit)


@fault("matrices-halved-and-stream-not", "halves the last matrices of each further layer against overflow without "
       "halving the stream", "rwkv6")
def _(e):
    for name in matching(e, r"(time_mix_output|channel_mix_value)\.weight"):
        e.w[name] = e.w[name] / np.asarray(2 ** int(name.split(".")[1]), e.w[name].dtype)


# Logits and what encoders give back


@fault("logit-scale-of-another-model", "takes 0.8333 for the scale of the logits, which another size has",
       "command-r cohere2")
def _(e):
    e.logit_scale = 0.8333


@fault("repetition-penalty-in-logits", "hands out logits after the sampler's penalty of 1.1 on tokens that occurred",
       "llama-linear gemma2 qwen3-yarn")
def _(e):
    seen = set()

    def forward(inner, ids, start):
        seen.update(ids)
        return inner(ids, start)

    def keep(inner, name, x):
        if name == "result_output":
            x, ids = x.copy(), sorted(seen)
            x[:, ids] = np.where(x[:, ids] > 0, x[:, ids] / 1.1, x[:, ids] * 1.1)
        return inner(name, x)
    wrap(e, "forward", forward)
    wrap(e, "keep", keep)


@fault("encoder-output-of-length-one", "gives each row of an encoder's output the length 1",
       "roberta jina-bert-v2 modernbert")
def _(e):
    wrap(e, "keep", lambda inner, name, x:
         inner(name, x / np.linalg.norm(x, axis=-1, keepdims=True) if name == "result_embd" else x))


# Numbers


@fault("squares-overflow-in-norm", "squares the stream in half precision in the norms, which large numbers overflow",
       "llama-large")
def _(e):
    def norm(name, x):
        size = np.sqrt(to_f16(x * x).mean(-1, keepdims=True) + np.asarray(e.eps, x.dtype))
        return x / size * e.w[name + ".weight"]
    e.norm = norm


@fault("inputs-saturate-in-8-bits", "rounds the inputs of products to 8 bits of a fixed range, and cuts off what lies "
       "outside of it", "llama qwen3 stablelm gemma")
def _(e):
    e.arith = copy(e.arith)
    e.arith.factor = lambda x: np.clip(np.round(x * (127 / 2)), -127, 127) * (2 / 127)


# Stored formats


@fault("block-scales-read-as-bf16", "reads the blocks' half-precision scales as bfloat16", "llama-q8_0 llama-q4_0")
def _(e):
    def edit(blocks):
        bits = np.ascontiguousarray(blocks[:, :2]).view(np.uint16).astype(np.uint32) << 16
        blocks[:, :2] = bits.view(np.float32).astype(np.float16).view(np.uint8)
    edit_blocks(e, ("Q8_0", "Q4_0"), edit)


@fault("scale-of-next-block", "multiplies each block with the scale of the one behind it", "llama-q8_0 llama-q4_0")
def _(e):
    def edit(blocks):
        blocks[:, :2] = np.roll(blocks[:, :2], -1, 0)
    edit_blocks(e, ("Q8_0", "Q4_0"), edit)


@fault("high-nibbles-first", "takes the high nibbles of a block for its first half and the low ones for its second",
       "llama-q4_0 llama-q4_k")
def _(e):
    def edit(blocks):
        start = 2 if blocks.shape[1] == 18 else 16
        blocks[:, start:] = blocks[:, start:] >> 4 | blocks[:, start:] << 4
    edit_blocks(e, ("Q4_0", "Q4_K"), edit)


@fault("q4k-scale-and-minimum-exchanged", "takes the scale of a super-block of Q4_K for that of its minima, and the "
       "reverse", "llama-q4_k")
def _(e):
    def edit(blocks):
        blocks[:, :4] = np.roll(blocks[:, :4], 2, 1)
    edit_blocks(e, ("Q4_K",), edit)


@fault("q6k-upper-bits-lost", "leaves out the upper two of the six bits of Q6_K", "llama-q4_k")
def _(e):
    def edit(blocks):
        blocks[:, 128:192] = 0
    edit_blocks(e, ("Q6_K",), edit)


@fault("q6k-scales-unsigned", "reads the signed scales of Q6_K as unsigned", "llama-q4_k")
def _(e):
    for name in quantized(e, "Q6_K"):
        scales = np.array(e.file.raw[name].data).reshape(-1, 210)[:, 192:208].copy().view(np.int8).astype(np.float64)
        wrong = np.where(scales < 0, (scales + 256) / np.where(scales < 0, scales, 1), 1)
        w = e.w[name]
        e.w[name] = (w.reshape(-1, 16, 16) * wrong[..., None]).reshape(w.shape).astype(w.dtype)
