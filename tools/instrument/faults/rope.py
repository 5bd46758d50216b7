"""Rotary positions: base, pairs, part of a head, scaling, and counting."""

from dataclasses import replace

import numpy as np

from engine.parts import Rope, frequencies, yarn_ramp
from engine.decoders import yarn

from .tools import decoding, fault, wrap


def each_rope(e, edit):
    """Edit the rotation of every layer that has one."""
    e.ropes = [edit(r) if r is not None else None for r in e.ropes]


def rebase(e, base):
    """Rotate with another base and without scaling."""
    each_rope(e, lambda r: replace(r, freq=frequencies(base, 2 * len(r.freq))))


@fault("rope-left-out", "does not rotate q and k", "llama qwen2 gptneox gemma2 phi3 nomic-bert ernie falcon-h1")
def _(e):
    e.ropes = [None] * e.layers


@fault("rope-base-of-10000", "rotates with the base 10000 in place of the file's",
       "qwen2 qwen3 qwen3moe olmo2 lfm2 gpt-oss")
def _(e):
    if e.base == 10000:
        raise LookupError("base")
    rebase(e, 10000.0)


@fault("rope-base-of-a-million", "rotates with the base 1000000 where the file says 10000", "llama phi3 glm4 stablelm")
def _(e):
    rebase(e, 1e6)


@fault("rope-base-of-500000", "rotates with the base 500000 where the file says 10000", "granite gptneox command-r")
def _(e):
    rebase(e, 5e5)


@fault("rope-base-of-12345", "rotates with the base 12345", "llama qwen3")
def _(e):
    rebase(e, 12345.0)


@fault("local-layers-take-global-base", "rotates local layers with the base of global ones", "gemma3 modernbert")
def _(e):
    e.ropes = [next(r for r, local in zip(e.ropes, e.local) if not local) if local else r
               for r, local in zip(e.ropes, e.local)]


@fault("global-layers-take-local-base", "rotates global layers with the base of local ones", "gemma3 modernbert")
def _(e):
    e.ropes = [next(r for r, local in zip(e.ropes, e.local) if local)] * e.layers


@fault("local-layers-take-global-base-unscaled", "rotates local layers with the global base and no scale", "gemma3")
def _(e):
    plain = Rope(frequencies(e.base, e.rope_dims), "half")
    e.ropes = [plain if local else r for r, local in zip(e.ropes, e.local)]


@fault("whole-head-rotated", "rotates the whole head where only a part turns",
       "glm4 stablelm gptneox phi2 nemotron qwen3next glm4moe minimax-m2")
def _(e):
    each_rope(e, lambda r: replace(r, freq=frequencies(e.base, e.head_dim)))


@fault("part-rotated-by-whole-exponents", "rotates the right part with the frequencies of a whole head",
       "glm4 stablelm gptneox phi2")
def _(e):
    each_rope(e, lambda r: replace(r, freq=frequencies(e.base, e.head_dim)[:len(r.freq)]))


@fault("last-part-rotated", "rotates the last part of a head in place of the first", "glm4 stablelm gptneox phi2")
def _(e):
    each_rope(e, lambda r: replace(r, start=e.head_dim - 2 * len(r.freq)))


@fault("half-a-head-rotated", "rotates the first half of each head where all of it turns", "llama qwen2 phi3")
def _(e):
    each_rope(e, lambda r: replace(r, freq=frequencies(e.base, e.head_dim // 2)))


@fault("halves-for-pairs", "rotates the halves of a head against each other where neighbours belong together",
       "llama command-r granite glm4 deepseek2-v2 mixtral ernie llama4 olmo")
def _(e):
    each_rope(e, lambda r: replace(r, pairs="half"))


@fault("pairs-for-halves", "rotates neighbours where the halves of a head belong together",
       "qwen2 gemma2 phi3 stablelm gptneox gpt-oss qwen3 olmoe nomic-bert falcon-h1")
def _(e):
    each_rope(e, lambda r: replace(r, pairs="interleaved"))


@fault("rope-turns-backwards", "rotates the other way", "llama qwen3 phi2")
def _(e):
    each_rope(e, lambda r: replace(r, freq=-r.freq))


@fault("rope-turns-q-backwards", "rotates q the other way than k", "qwen2 llama")
def _(e):
    wrap(e, "rotate", lambda inner, il, x, p, part: inner(il, x, -p if part == "q" else p, part))


@fault("rope-on-q-only", "rotates q and not k", "qwen2 phi3 granite")
def _(e):
    wrap(e, "rotate", lambda inner, il, x, p, part: inner(il, x, p, part) if part == "q" else x)


@fault("rope-on-k-only", "rotates k and not q", "llama gemma3")
def _(e):
    wrap(e, "rotate", lambda inner, il, x, p, part: inner(il, x, p, part) if part == "k" else x)


@fault("rope-on-v-too", "rotates v as well", "llama stablelm")
def _(e):
    def keep(inner, name, x):
        if name.startswith("Vcur-"):
            il = int(name.rpartition("-")[2])
            heads = x.reshape(len(x), e.kv_heads[il], -1)
            x = e.ropes[il](heads, np.arange(e.start, e.start + len(x))).reshape(x.shape)
        return inner(name, x)

    def forward(inner, ids, start):
        e.start = start
        return inner(ids, start)
    wrap(e, "keep", keep)
    wrap(e, "forward", forward)


@fault("rope-begins-again", "counts positions of decoded tokens from 0", "llama qwen3 glm4 phi3")
def _(e):
    wrap(e, "rotate", lambda inner, il, x, p, part: inner(il, x, p - e.prompt if decoding(e) else p, part))


@fault("rope-one-behind-at-decode", "rotates decoded tokens by one position too few", "qwen2 gemma2 mixtral")
def _(e):
    wrap(e, "rotate", lambda inner, il, x, p, part: inner(il, x, p - 1 if decoding(e) else p, part))


@fault("rope-stands-still-at-decode", "rotates all decoded tokens by the prompt's length", "llama stablelm")
def _(e):
    wrap(e, "rotate", lambda inner, il, x, p, part: inner(il, x, 0 * p + e.prompt if decoding(e) else p, part))


@fault("rope-of-k-one-ahead", "rotates k by one position more than q", "phi3 granite llama")
def _(e):
    wrap(e, "rotate", lambda inner, il, x, p, part: inner(il, x, p + (part == "k"), part))


@fault("rope-twice", "rotates q and k twice", "llama qwen3 gptneox")
def _(e):
    wrap(e, "rotate", lambda inner, il, x, p, part: inner(il, inner(il, x, p, part), p, part))


@fault("rope-of-head-index", "rotates by the number of the head in place of the token's", "llama qwen2")
def _(e):
    wrap(e, "rotate", lambda inner, il, x, p, part:
         inner(il, x.swapaxes(0, 1), np.arange(x.shape[1]), part).swapaxes(0, 1))


@fault("sine-and-cosine-exchanged", "exchanges sine and cosine", "llama qwen2 gemma2")
def _(e):
    quarter = np.pi / 2

    class Turned(Rope):
        def __call__(self, x, positions):
            shifted = Rope(np.ones_like(self.freq), self.pairs, self.magnitude, self.start)
            angles = quarter - positions[:, None] * self.freq
            rows = []
            for row, angle in zip(x, angles):
                rows.append(replace(shifted, freq=angle)(row[None], np.array([1]))[0])
            return np.stack(rows)
    each_rope(e, lambda r: Turned(r.freq, r.pairs, r.magnitude, r.start))


@fault("exponents-of-half-the-head", "divides the exponents by half the width that turns", "llama qwen2")
def _(e):
    each_rope(e, lambda r: replace(r, freq=frequencies(e.base ** 2, 2 * len(r.freq))))


@fault("yarn-left-out", "rotates as if the file had no YaRN", "llama-yarn gpt-oss qwen3-yarn")
def _(e):
    rebase(e, e.base)
    each_rope(e, lambda r: replace(r, magnitude=1.0))


@fault("yarn-magnitude-left-out", "does not stretch q and k by YaRN's magnitude", "llama-yarn gpt-oss qwen3-yarn")
def _(e):
    each_rope(e, lambda r: replace(r, magnitude=1.0))


@fault("yarn-magnitude-squared", "stretches q and k by the square of YaRN's magnitude", "llama-yarn qwen3-yarn")
def _(e):
    each_rope(e, lambda r: replace(r, magnitude=r.magnitude ** 2))


@fault("yarn-ramp-not-rounded", "does not round where YaRN's ramp begins and ends", "llama-yarn qwen3-yarn")
def _(e):
    e.ropes = [yarn(e, r.pairs, whole=False) for r in e.ropes]


@fault("yarn-all-interpolated", "slows all frequencies by YaRN's factor", "llama-yarn gpt-oss")
def _(e):
    e.ropes = [yarn(e, r.pairs, ramp=np.ones(len(r.freq))) for r in e.ropes]


@fault("yarn-ramp-inverted", "slows the fast frequencies and not the slow ones", "llama-yarn qwen3-yarn")
def _(e):
    f = e.file
    ramp = yarn_ramp(e.base, e.rope_dims, f.get("rope.scaling.original_context_length"),
                     f.get("rope.scaling.yarn_beta_fast", 32.0), f.get("rope.scaling.yarn_beta_slow", 1.0))
    e.ropes = [yarn(e, r.pairs, ramp=1 - ramp) for r in e.ropes]


@fault("yarn-of-longer-context", "takes the extended context for the original one", "llama-yarn gpt-oss")
def _(e):
    f = e.file
    ramp = yarn_ramp(e.base, e.rope_dims, f.get("context_length"), f.get("rope.scaling.yarn_beta_fast", 32.0),
                     f.get("rope.scaling.yarn_beta_slow", 1.0))
    e.ropes = [yarn(e, r.pairs, ramp=ramp) for r in e.ropes]


@fault("linear-scale-left-out", "does not slow the rotation by the file's factor", "llama-linear gemma3")
def _(e):
    factor = e.file.get("rope.scaling.factor")
    local = getattr(e, "local", [False] * e.layers)
    e.ropes = [r if here else replace(r, freq=r.freq * factor) for r, here in zip(e.ropes, local)]


@fault("linear-scale-multiplied", "speeds the rotation up by the file's factor", "llama-linear")
def _(e):
    each_rope(e, lambda r: replace(r, freq=r.freq * e.file.get("rope.scaling.factor") ** 2))


@fault("linear-scale-on-local-layers", "slows local layers by the factor of global ones", "gemma3")
def _(e):
    factor = e.file.get("rope.scaling.factor")
    e.ropes = [replace(r, freq=r.freq / factor) if here else r for r, here in zip(e.ropes, e.local)]


@fault("frequency-factors-left-out", "ignores rope_freqs, Llama 3's factors", "llama-llama3")
def _(e):
    rebase(e, e.base)


@fault("frequency-factors-multiplied", "multiplies with Llama 3's factors in place of dividing", "llama-llama3")
def _(e):
    each_rope(e, lambda r: replace(r, freq=r.freq * e.w["rope_freqs.weight"] ** 2))


@fault("longrope-long-for-short", "takes the factors of long texts for a short one", "phi3-longrope")
def _(e):
    each_rope(e, lambda r: replace(r, freq=frequencies(e.base, e.rope_dims) / e.w["rope_factors_long.weight"]))


@fault("longrope-factors-left-out", "ignores the factors of LongRoPE", "phi3-longrope")
def _(e):
    each_rope(e, lambda r: replace(r, freq=frequencies(e.base, e.rope_dims)))


@fault("longrope-factors-multiplied", "multiplies with LongRoPE's factors in place of dividing", "phi3-longrope")
def _(e):
    each_rope(e, lambda r: replace(r, freq=r.freq * e.w["rope_factors_short.weight"] ** 2))


@fault("longrope-magnitude-left-out", "does not stretch q and k as LongRoPE does", "phi3-longrope")
def _(e):
    each_rope(e, lambda r: replace(r, magnitude=1.0))


@fault("rope-where-there-is-none", "rotates q and k of a model without rotary positions",
       "jamba gpt2 mpt bert granitehybrid nemotron-h")
def _(e):
    e.ropes = [Rope(frequencies(10000.0, e.head_dim), "half")] * e.layers
