"""From the last layer to the logits."""

import numpy as np

from .tools import fault, wrap


@fault("final-cap-left-out", "does not cap the logits", "gemma2")
def _(e):
    e.final_cap = None


@fault("final-cap-of-30", "caps logits at 30 where the file says 3", "gemma2")
def _(e):
    e.final_cap = 30.0


@fault("final-cap-not-multiplied-back", "takes the tanh of capped logits without the factor behind it", "gemma2")
def _(e):
    wrap(e, "cap", lambda inner, x, limit: np.tanh(x / limit) if x.ndim == 2 else inner(x, limit))


@fault("final-cap-on-a-model-without", "caps logits at 1.5 though the file has no cap", "gemma3 llama")
def _(e):
    e.final_cap = 1.5


@fault("logit-scale-left-out", "does not scale the logits",
       "granite command-r minicpm granitemoe granitehybrid cohere2")
def _(e):
    e.logit_scale = None


@fault("logit-scale-inverted", "divides logits where it should multiply, or the reverse", "granite command-r minicpm")
def _(e):
    e.logit_scale = 1 / e.logit_scale


@fault("logit-scale-twice", "scales the logits twice", "command-r granite")
def _(e):
    e.logit_scale **= 2


@fault("output-norm-left-out", "gives the head the last layer as it is",
       "llama gpt2 mamba granite command-r olmo3 rwkv7 bamba lfm2")
def _(e):
    e.final_norm = lambda x: x


@fault("output-norm-twice", "normalizes twice before the head", "qwen2 stablelm phi3")
def _(e):
    wrap(e, "final_norm", lambda inner, x: inner(inner(x)))


@fault("head-tied-to-embedding", "takes the embedding for the head though the file has one",
       "llama qwen2 gptneox mamba olmoe jamba rwkv6")
def _(e):
    e.w["output.weight"] = e.w["token_embd.weight"]


@fault("tied-head-scaled-as-embedding", "scales a tied head as the embedding", "gemma3")
def _(e):
    wrap(e, "logits", lambda inner, x: inner(x) * np.asarray(e.embed_scale, x.dtype))


@fault("log-probabilities-for-logits", "hands out log-probabilities", "llama gpt2")
def _(e):
    wrap(e, "logits", lambda inner, x: (lambda y: y - np.log(np.exp(y).sum(-1, keepdims=True)))(inner(x)))


@fault("logits-one-row-late", "hands out the logits of the token before", "qwen3")
def _(e):
    def logits(inner, x):
        y = inner(x)
        return np.concatenate([y[:1], y[:-1]]) if len(y) > 1 else y
    wrap(e, "logits", logits)


@fault("temperature-in-the-logits", "divides logits by a temperature of 0.8", "phi3 bloom")
def _(e):
    wrap(e, "logits", lambda inner, x: inner(x) / np.asarray(0.8, x.dtype))


@fault("output-norm-of-the-wrong-weight", "takes the last block's norm for the output's", "llama stablelm")
def _(e):
    e.w["output_norm.weight"] = e.w[f"blk.{e.layers - 1}.ffn_norm.weight"]


@fault("head-rows-from-the-next", "takes each token's row of the head from the next token", "llama gpt2")
def _(e):
    name = "output.weight" if "output.weight" in e.w else "token_embd.weight"
    e.w["output.weight"] = np.roll(e.w[name], -1, 0)
