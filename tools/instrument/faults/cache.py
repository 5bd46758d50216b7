"""The cache: slots, and what decoding finds in it."""

import numpy as np

from .tools import decoding, fault, wrap


@fault("decoding-overwrites-slot-0", "writes decoded tokens into the cache from its first slot on",
       "llama gemma2 gpt2 qwen3moe starcoder jamba")
def _(e):
    def remember(inner, il, k, v, positions):
        if not decoding(e):
            return inner(il, k, v, positions)
        slot = e.call - 1
        old = [np.array(part) for part in e.cache[il]]
        for part, new in zip(old, (k, v, positions)):
            part[slot:slot + 1] = new
        e.cache[il] = tuple(old)
        return e.cache[il]
    wrap(e, "remember", remember)


@fault("decoding-forgets-the-prompt", "lets decoded tokens see decoded tokens only",
       "qwen2 bloom stablelm falcon-h1 bamba lfm2")
def _(e):
    def remember(inner, il, k, v, positions):
        if e.call == 1:
            e.cache.pop(il, None)
        return inner(il, k, v, positions)
    wrap(e, "remember", remember)


@fault("decoding-sees-itself-only", "gives a decoded token no cache at all", "phi3 gptneox")
def _(e):
    wrap(e, "remember", lambda inner, il, k, v, p: (k, v, p) if decoding(e) else inner(il, k, v, p))


@fault("prompt-end-not-stored", "does not store the last token of the prompt", "granite phi3 command-r")
def _(e):
    def remember(inner, il, k, v, positions):
        if e.call == 1:
            e.cache[il] = tuple(part[:-1] for part in e.cache[il])
        return inner(il, k, v, positions)
    wrap(e, "remember", remember)


@fault("prompt-end-stored-twice", "stores the last token of the prompt twice", "llama gemma3")
def _(e):
    def remember(inner, il, k, v, positions):
        if e.call == 1:
            e.cache[il] = tuple(np.concatenate([part, part[-1:]]) for part in e.cache[il])
        return inner(il, k, v, positions)
    wrap(e, "remember", remember)


@fault("values-not-appended", "stores the values of decoded tokens as zeros", "stablelm qwen3 mixtral")
def _(e):
    wrap(e, "remember", lambda inner, il, k, v, p: inner(il, k, 0 * v if decoding(e) else v, p))


@fault("keys-not-appended", "stores the keys of decoded tokens as zeros", "llama glm4")
def _(e):
    wrap(e, "remember", lambda inner, il, k, v, p: inner(il, 0 * k if decoding(e) else k, v, p))


@fault("cache-of-first-layer-for-all", "reads the first layer's cache in all layers", "llama nemotron")
def _(e):
    def remember(inner, il, k, v, positions):
        inner(il, k, v, positions)
        return e.cache[0]
    wrap(e, "remember", remember)


@fault("unrotated-keys-stored", "stores keys before they are rotated and reads them so when it decodes",
       "qwen2 glm4 llama")
def _(e):
    plain = {}

    def turn(inner, il, q, k, positions):
        plain[il] = k
        return inner(il, q, k, positions)

    def remember(inner, il, k, v, positions):
        full = inner(il, plain[il], v, positions)
        return (k, v, positions) if not decoding(e) else full
    wrap(e, "turn", turn)
    wrap(e, "remember", remember)


@fault("cache-two-slots-apart", "leaves a slot of zeros between the prompt and decoded tokens", "llama gpt2")
def _(e):
    def remember(inner, il, k, v, positions):
        if e.call == 1:
            old = e.cache[il]
            e.cache[il] = tuple(np.concatenate([part, 0 * part[-1:]]) for part in old)
        return inner(il, k, v, positions)
    wrap(e, "remember", remember)


@fault("keys-in-4-bits", "stores keys with four bits per number and one scale a row", "llama qwen3")
def _(e):
    def remember(inner, il, k, v, positions):
        scale = np.abs(k).max(-1, keepdims=True) / 7
        return inner(il, np.round(k / scale) * scale, v, positions)
    wrap(e, "remember", remember)
