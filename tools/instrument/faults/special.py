"""What single wirings have and others do not: clipped products, xIELU, unit heads, layers without rotation."""

import numpy as np

from engine.parts import ACTIVATIONS, Rope, frequencies, layer_norm, rms_norm, sigmoid, softmax

from .tools import fault, wrap


@fault("clip-left-out", "does not cut q, k and v off at the file's limit", "olmo dbrx")
def _(e):
    e.cut = lambda x: x


@fault("clip-from-above-only", "cuts q, k and v off above and not below", "olmo dbrx")
def _(e):
    e.cut = lambda x: np.minimum(x, e.clip)


@fault("rmsnorm-for-plain-layernorm", "takes RMS norms for LayerNorms without weights", "olmo")
def _(e):
    e.norm = lambda name, x: rms_norm(x, None, np.asarray(e.eps, x.dtype))


@fault("plain-layernorm-left-out", "takes a norm without weights for no norm", "olmo")
def _(e):
    e.ffn_norm = lambda il, x: x


@fault("xielu-slopes-not-positive", "takes xIELU's slopes without softplus", "apertus")
def _(e):
    fields = e.file.fields
    e.slopes_of = lambda il: (fields["xielu.alpha_p"][il], fields["xielu.beta"][il] + fields["xielu.alpha_n"][il],
                              fields["xielu.beta"][il])


@fault("xielu-without-beta-in-slope", "does not add beta to xIELU's slope for negative numbers", "apertus")
def _(e):
    def slopes(inner, il):
        positive, negative, beta = inner(il)
        return positive, negative - beta, beta
    wrap(e, "slopes_of", slopes)


@fault("xielu-of-first-layer", "takes the first layer's slopes of xIELU in all layers", "apertus")
def _(e):
    wrap(e, "slopes_of", lambda inner, il: inner(0))


@fault("xielu-slopes-exchanged", "exchanges xIELU's slopes for positive and negative numbers", "apertus")
def _(e):
    wrap(e, "slopes_of", lambda inner, il: [inner(il)[i] for i in (1, 0, 2)])


@fault("squared-relu-for-xielu", "takes the squared ReLU for xIELU", "apertus")
def _(e):
    e.act = ACTIVATIONS["relu-squared"]


@fault("unit-heads-left-out", "does not normalize the heads behind the rotation", "llama4")
def _(e):
    e.unit = lambda x: x


@fault("unit-heads-in-every-layer", "normalizes the heads in layers that do not rotate, too", "llama4")
def _(e):
    def turn(inner, il, q, k, positions):
        return inner(il, q, k, positions) if e.turns[il] else (e.unit(q), e.unit(k))
    wrap(e, "turn", turn)


@fault("unit-heads-of-length-one", "gives heads the length 1 in place of the mean square 1", "llama4")
def _(e):
    wrap(e, "unit", lambda inner, x: inner(x) / np.asarray(np.sqrt(x.shape[-1]), x.dtype))


@fault("rope-in-layers-without", "rotates in layers that should not", "llama4 cohere2")
def _(e):
    e.ropes = [Rope(frequencies(e.base, e.rope_dims), "interleaved")] * e.layers
    e.turns = [True] * e.layers


@fault("layers-without-rope-counted-from-0", "leaves the rotation out of the first of four layers, not the fourth",
       "llama4 cohere2")
def _(e):
    rope = e.ropes[0]
    e.turns = [il % 4 != 0 for il in range(e.layers)]
    e.ropes = [rope if turns else None for turns in e.turns]


@fault("router-of-llama4-by-softmax", "weighs the chosen expert by the softmax over all", "llama4")
def _(e):
    e.weigh = lambda probs, top: np.take_along_axis(softmax(probs), top, -1)


@fault("router-of-llama4-not-squashed", "weighs the chosen expert by its logit", "llama4")
def _(e):
    e.weigh = lambda probs, top: np.take_along_axis(probs, top, -1)


@fault("weights-behind-the-experts", "multiplies the experts' outputs with the weights, not their inputs", "llama4")
def _(e):
    def mixture(il, x):
        top = e.choose(il, e.route(il, x))
        e.keep(f"ffn_moe_topk-{il}", top)
        weights = e.keep(f"ffn_moe_weights-{il}", sigmoid(np.take_along_axis(e.router_logits, top, -1)))
        out = e.keep(f"ffn_moe_out-{il}", (e.experts(il, x, top) * weights[..., None]).sum(1))
        return e.keep(f"ffn_out-{il}", out + e.shared(il, x))
    e.mixture = mixture


@fault("dense-layers-skipped", "skips the dense layers' feed-forward", "llama4 glm4moe")
def _(e):
    wrap(e, "ffn", lambda inner, il, x: inner(il, x) * (f"blk.{il}.ffn_gate_inp.weight" in e.w))


@fault("parallel-mamba-left-out", "runs attention alone where Mamba 2 runs beside it", "falcon-h1")
def _(e):
    e.mixer = e.attention


@fault("parallel-attention-left-out", "runs Mamba 2 alone where attention runs beside it", "falcon-h1")
def _(e):
    e.mixer = lambda il, x, positions: e.mamba2(il, x)


@fault("mamba-behind-attention", "gives Mamba 2 the output of attention where both have the same input", "falcon-h1")
def _(e):
    def mixer(il, x, positions):
        a = e.attention(il, x, positions)
        return a + e.mamba2(il, a)
    e.mixer = mixer


@fault("two-mixers-averaged", "takes the mean of attention and Mamba 2 for their sum", "falcon-h1")
def _(e):
    wrap(e, "mixer", lambda inner, il, x, positions: inner(il, x, positions) / 2)


@fault("alibi-on-one-side", "adds a bias that favours later tokens in an encoder", "jina-bert-v2")
def _(e):
    e.alibi = lambda positions, at: e.slopes[:, None, None] * (at[None, None, :] - positions[None, :, None])


@fault("encoder-norms-without-bias", "normalizes behind the blocks without the bias", "nomic-bert jina-bert-v2")
def _(e):
    wrap(e, "norm", lambda inner, name, x: layer_norm(x, e.w[name + ".weight"], None, np.asarray(e.eps, x.dtype)))
