"""Embeddings: scales, learned positions, token types."""

import math

import numpy as np

from .tools import decoding, fault, wrap


@fault("embedding-scale-left-out", "does not scale the embedding", "gemma2 gemma3 granite minicpm gemma granitehybrid")
def _(e):
    e.embed_scale = 1.0


@fault("embedding-scaled-twice", "scales the embedding twice", "gemma3 granite")
def _(e):
    e.embed_scale **= 2


@fault("embedding-scaled-by-width", "scales the embedding by the width in place of its root", "gemma2")
def _(e):
    e.embed_scale = float(e.width)


@fault("embedding-divided", "divides the embedding by its scale", "gemma3 minicpm")
def _(e):
    e.embed_scale = 1 / e.embed_scale


@fault("embedding-scaled-without-need", "scales the embedding by the root of the width as Gemma does",
       "llama qwen2 glm4")
def _(e):
    e.embed_scale = math.sqrt(e.width)


@fault("embedding-of-next-id", "looks up the row behind that of the token", "llama mamba gpt2 bert")
def _(e):
    e.w["token_embd.weight"] = np.roll(e.w["token_embd.weight"], -1, 0)


@fault("learned-positions-left-out", "does not add the learned positions", "gpt2 bert roberta starcoder distilbert")
def _(e):
    e.learned_positions = lambda positions: np.zeros((len(positions), e.width), e.arith.dtype)


@fault("learned-positions-from-1", "counts learned positions from 1", "gpt2 bert starcoder")
def _(e):
    wrap(e, "learned_positions", lambda inner, positions: inner(positions + 1))


@fault("learned-positions-from-2", "counts learned positions from 2, as OPT and RoBERTa do", "gpt2 roberta bert")
def _(e):
    wrap(e, "learned_positions", lambda inner, positions: inner(positions + 2))


@fault("learned-positions-begin-again", "counts learned positions of decoded tokens from 0", "gpt2")
def _(e):
    wrap(e, "learned_positions", lambda inner, p: inner(p - e.prompt if decoding(e) else p))


@fault("learned-positions-stand-still", "gives all tokens the learned position 0", "gpt2 bert")
def _(e):
    wrap(e, "learned_positions", lambda inner, positions: inner(0 * positions))


@fault("token-types-left-out", "does not add the row of the token type", "bert roberta nomic-bert jina-bert-v2")
def _(e):
    del e.w["token_types.weight"]


@fault("token-type-of-second-sentence", "adds the row of the second sentence to all tokens", "bert")
def _(e):
    e.w["token_types.weight"] = e.w["token_types.weight"][::-1].copy()
