"""Writes crates/candor/tests/goldens/samplers.json: what llama.cpp's samplers leave of random logits.

    python tools/goldens/samplers.py crates/candor/tests/goldens/samplers.json

Needs llama-cpp-python 0.3.36 (llama.cpp 0c1e57098, built with libstdc++) and numpy; the vocabulary for DRY's sequence
breakers is fixtures/models/stories260K-f32.gguf, of which the file keeps what the test needs. CANDOR_FIXTURES says where
the fixtures are, by default ../shared/fixtures beside the repository.

A case is a chain (settings by the names of Candor's `Sampling`), tokens accepted beforehand, and one or more steps: a
vector of logits, given by the formula of `logits` below, which the Rust test repeats, and the candidates that are left.
All their ids are held by a count and a digest, 40 at most with their probabilities as the bits of an f32, and then the
token that llama.cpp drew, which is accepted before the next step.

Cases whose outcome depends on less than 1e-5 of a logit are passed over for another seed, since rounding may differ.
"""

import ctypes
import json
import os
import random
import struct
import sys
from pathlib import Path

import llama_cpp as lc
import numpy as np

VERSION = "llama-cpp-python 0.3.36 (llama.cpp 0c1e57098)"
VECTORS = 100
NEVER = float("-inf")
DEFAULTS = {
    "temperature": 0.8, "dynatemp_range": 0.0, "dynatemp_exp": 1.0, "top_k": 40, "top_p": 0.95, "min_p": 0.05,
    "typical_p": 1.0, "top_n_sigma": -1.0, "xtc_probability": 0.0, "xtc_threshold": 0.1, "repeat_penalty": 1.0,
    "repeat_last_n": 64, "presence_penalty": 0.0, "frequency_penalty": 0.0, "dry_multiplier": 0.0, "dry_base": 1.75,
    "dry_allowed_length": 2, "dry_penalty_last_n": 64, "dry_sequence_breakers": ["\n", ":", "\"", "*"], "mirostat": 0,
    "mirostat_tau": 5.0, "mirostat_eta": 0.1, "logit_bias": [], "min_keep": 0,
    "samplers": ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"],
}


def logits(shape, seed, scale, n):
    """splitmix64 numbers u0..u3 in [0, 1) for each token, and a bell, spikes on a bell, or a plain from them."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, 4 * n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    u = (z >> np.uint64(11)).astype(np.float64) * 2.0**-53
    a, b, c, d = u.reshape(n, 4).T
    if shape == "flat":
        return (a * scale).astype(np.float32)
    x = (a + b + c + d - 2.0) * scale
    if shape == "spiky":
        square = a * a
        square = square * square
        square = square * square
        x = x + square * square * 2.0 * scale
    return x.astype(np.float32)


class Vocabulary:
    def __init__(self, path):
        lc.llama_backend_init()
        params = lc.llama_model_default_params()
        params.vocab_only = True
        self.model = lc.llama_model_load_from_file(str(path).encode(), params)
        assert self.model, path
        self.vocab = lc.llama_model_get_vocab(self.model)
        self.size = lc.llama_vocab_n_tokens(self.vocab)
        self.pieces = [self.detokenize(i) for i in range(self.size)]

    def detokenize(self, token):
        buffer = ctypes.create_string_buffer(256)
        one = (lc.llama_token * 1)(token)
        length = lc.llama_detokenize(self.vocab, one, 1, buffer, 256, False, True)
        assert length >= 0
        return buffer.raw[:length]

    def tokenize(self, text):
        out = (lc.llama_token * 256)()
        raw = text.encode()
        length = lc.llama_tokenize(self.vocab, raw, len(raw), out, 256, False, False)
        assert length >= 0
        return list(out[:length])


def chain(settings, n, vocabulary):
    """The chain that llama.cpp's programs make of these settings (common_sampler_init)."""
    s = {**DEFAULTS, **settings}
    made = lc.llama_sampler_chain_init(lc.llama_sampler_chain_default_params())
    add = lambda sampler: lc.llama_sampler_chain_add(made, sampler)
    if s["logit_bias"]:
        biases = [lc.llama_logit_bias(i, NEVER if b is False else b) for i, b in s["logit_bias"]]
        add(lc.llama_sampler_init_logit_bias(n, len(biases), (lc.llama_logit_bias * len(biases))(*biases)))
    seed, keep = s["seed"], s["min_keep"]
    if s["mirostat"]:
        add(lc.llama_sampler_init_temp(s["temperature"]))
        if s["mirostat"] == 1:
            add(lc.llama_sampler_init_mirostat(n, seed, s["mirostat_tau"], s["mirostat_eta"], 100))
        else:
            add(lc.llama_sampler_init_mirostat_v2(seed, s["mirostat_tau"], s["mirostat_eta"]))
        return made
    breakers = [text.encode() for text in s["dry_sequence_breakers"]]
    make = {
        "penalties": lambda: lc.llama_sampler_init_penalties(
            n, s["repeat_last_n"], s["repeat_penalty"], s["frequency_penalty"], s["presence_penalty"]),
        "dry": lambda: lc.llama_sampler_init_dry(
            vocabulary.vocab, s["dry_multiplier"], s["dry_base"], s["dry_allowed_length"], s["dry_penalty_last_n"],
            (ctypes.c_char_p * len(breakers))(*breakers), len(breakers)),
        "top_n_sigma": lambda: lc.llama_sampler_init_top_n_sigma(s["top_n_sigma"]),
        "top_k": lambda: lc.llama_sampler_init_top_k(s["top_k"]),
        "typ_p": lambda: lc.llama_sampler_init_typical(s["typical_p"], keep),
        "top_p": lambda: lc.llama_sampler_init_top_p(s["top_p"], keep),
        "min_p": lambda: lc.llama_sampler_init_min_p(s["min_p"], keep),
        "xtc": lambda: lc.llama_sampler_init_xtc(s["xtc_probability"], s["xtc_threshold"], keep, seed),
        "temperature": lambda: lc.llama_sampler_init_temp_ext(
            s["temperature"], s["dynatemp_range"], s["dynatemp_exp"]),
    }
    for name in s["samplers"]:
        add(make[name]())
    add(lc.llama_sampler_init_dist(seed))
    return made


def digest(ids):
    """FNV-1a over the ascending ids, four bytes each, the low one first."""
    value = 0xCBF29CE484222325
    for byte in b"".join(struct.pack("<I", i) for i in sorted(ids)):
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def shown(left, watched):
    """Which candidates are written with their probabilities: the watched, the likeliest, and some of the rest."""
    ranked = sorted(left, key=lambda i: -left[i])
    rest = ranked[12:]
    some = [i for i in watched if i in left][:20] + ranked[:12] + rest[:: max(1, len(rest) // 8)][:8]
    return list(dict.fromkeys(some))


def run(case, vocabulary, noise):
    """The steps' results; `noise` is added to the logits, and None where two logits are equal."""
    n, made = case["n"], chain(case["settings"], case["n"], vocabulary)
    for token in case["accept"]:
        lc.llama_sampler_accept(made, token)
    results = []
    for step in case["steps"]:
        values = logits(*step["logits"], n)
        if len(np.unique(values)) < n:
            return None
        if noise is not None:
            values = values + noise.uniform(-1e-5, 1e-5, n).astype(np.float32)
        data = (lc.llama_token_data * n)(*[lc.llama_token_data(i, float(x), 0.0) for i, x in enumerate(values)])
        array = lc.llama_token_data_array(data, n, -1, False)
        lc.llama_sampler_apply(made, ctypes.byref(array))
        items = [array.data[i] for i in range(array.size)]
        left = {item.id: item.p for item in items if item.logit != NEVER}
        drawn = array.data[array.selected].id
        results.append((left, drawn))
        lc.llama_sampler_accept(made, drawn)
    lc.llama_sampler_free(made)
    return results


def finish(case, vocabulary, rng):
    """Fills in the results, with other logits until noise does not change them."""
    for _ in range(200):
        for step in case["steps"]:
            step["logits"][1] = rng.getrandbits(48)
        plain = run(case, vocabulary, None)
        if plain is None:
            continue
        same = lambda other: [(set(l), d) for l, d in other] == [(set(l), d) for l, d in plain]
        if all(same(run(case, vocabulary, np.random.default_rng(trial))) for trial in range(3)):
            break
    else:
        raise RuntimeError(f"no stable logits for {case}")
    for step, (left, drawn) in zip(case["steps"], plain):
        ids = shown(left, dict.fromkeys(case["accept"]))
        step["count"] = len(left)
        step["digest"] = digest(left)
        step["ids"] = ids
        step["p"] = "".join(struct.pack(">f", left[i]).hex() for i in ids)
        step["drawn"] = drawn
    return case


def history(rng, alphabet, length, phrases=()):
    """Tokens with many repetitions: what was said said again, words of the alphabet, and now and then a phrase."""
    said = []
    while len(said) < length:
        if phrases and rng.random() < 0.12:
            said += rng.choice(phrases)
        elif said and rng.random() < 0.6:
            start = rng.randrange(len(said))
            said += said[start : start + rng.randint(1, 9)]
        else:
            said += rng.choices(alphabet, k=rng.randint(1, 4))
    return said[:length]


def cases(vocabulary):
    rng = random.Random(20240726)
    pick = rng.choice

    def shape(steep):
        flat = [] if steep else ["flat"]
        return [pick(["bell", "bell", "spiky"] + flat), 0, pick([2.0, 4.0, 8.0] if steep else [0.5, 2.0, 4.0, 8.0])]

    def case(family, n, settings, accept=(), steps=1, draws=True, steep=False):
        settings = {**settings, "seed": rng.getrandbits(31)}
        steps = [{"logits": shape(steep)} for _ in range(steps)]
        made = {"family": family, "n": n, "settings": settings, "accept": list(accept), "draws": draws, "steps": steps}
        return finish(made, vocabulary, rng)

    size = lambda: pick([64, 100, 257, 512, 1100, 2000])
    keep = lambda: pick([0, 0, 1, 5])
    sequence_breakers = [
        DEFAULTS["dry_sequence_breakers"], [], ["the"], ["Once upon", "and"], ["\n", ". The", "ere"], ["lily", "day"],
    ]

    def penalties():
        return {
            "repeat_penalty": pick([1.0, 1.1, 1.3, 0.8]), "repeat_last_n": pick([0, 1, 8, 64, 300]),
            "presence_penalty": pick([0.0, 0.5, -0.4, 2.0]), "frequency_penalty": pick([0.0, 0.3, 1.5, -0.2]),
        }

    def dry():
        return {
            "dry_multiplier": pick([0.8, 0.3, 5.0]), "dry_base": pick([1.75, 1.0, 1.2, 3.0]),
            "dry_allowed_length": pick([0, 1, 2, 4]), "dry_penalty_last_n": pick([0, 16, 64, 500, 500]),
            "dry_sequence_breakers": pick(sequence_breakers),
        }

    def said(settings):
        """A history with the chain's sequence breakers in it, whole tokens and sequences of them."""
        alphabet = rng.sample(range(259, vocabulary.size), 6)
        phrases = []
        for text in settings.get("dry_sequence_breakers", DEFAULTS["dry_sequence_breakers"]):
            text = text.encode()
            whole = [i for i, piece in enumerate(vocabulary.pieces) if text in piece]
            phrases += [[i] for i in rng.sample(whole, min(2, len(whole)))]
            for k in range(1, len(text)):
                heads = [i for i, piece in enumerate(vocabulary.pieces) if piece.endswith(text[:k]) and text not in piece]
                phrases += [[i] + vocabulary.tokenize(text[k:].decode()) for i in heads[-1:]]
        return history(rng, alphabet, pick([3, 20, 70, 200]), phrases)

    def everything(order):
        # Not both: typical sampling over a masked token is not-a-number in llama.cpp, and a sort by it.
        cut = pick([{}, {"top_n_sigma": 2.0}, {"typical_p": 0.9}])
        return {
            **penalties(), **(dry() if rng.random() < 0.7 else {}), **cut, "top_k": pick([20, 40, 200]),
            "top_p": pick([1.0, 0.95, 0.8]), "min_p": pick([0.0, 0.02, 0.1]), "xtc_probability": pick([0.0, 0.5]),
            "temperature": pick([0.0, 0.5, 0.8, 1.4]), "dynatemp_range": pick([0.0, 0.3]), "min_keep": keep(),
            "samplers": order,
        }

    def ordered(s):
        """Whether llama.cpp does not sort what typical sampling has put into its own order (Candor never does)."""
        return s.get("typical_p") is None or s["dynatemp_range"] == 0.0 and s["xtc_probability"] == 0.0

    def shuffled():
        order = [name for name in DEFAULTS["samplers"] if rng.random() < 0.8]
        rng.shuffle(order)
        # Sorted before anything that llama.cpp sorts for and Candor does not: so the draws agree.
        return ["top_k"] + [name for name in order if name != "top_k"]

    for _ in range(VECTORS):
        yield case("temperature", size(), {"temperature": pick([0.0, -1.0, 0.1, 0.5, 0.8, 1.0, 1.5, 3.0]),
                                           "samplers": ["temperature"]})
        # Small, since llama.cpp adds up the entropy in f32: over 2000 tokens that moves probabilities by 6e-5 of them.
        yield case("dynatemp", pick([64, 100, 257]), {"temperature": pick([0.3, 0.8, 1.5]), "dynatemp_range": pick([0.1, 0.5, 1.0]),
                                        "dynatemp_exp": pick([0.5, 1.0, 2.0]), "samplers": ["temperature"]},
                   draws=False)
        yield case("top_k", size(), {"top_k": pick([-1, 0, 1, 2, 10, 40, 63, 200, 5000]), "samplers": ["top_k"]})
        yield case("top_p", size(), {"top_p": pick([0.0, 0.01, 0.3, 0.7, 0.95, 0.99, 1.0]), "min_keep": keep(),
                                     "samplers": ["top_p"]})
        yield case("min_p", size(), {"min_p": pick([0.0, 0.01, 0.05, 0.3, 1.0]), "min_keep": pick([0, 1, 5, 50]),
                                     "samplers": ["min_p"]})
        yield case("typical", size(), {"typical_p": pick([0.05, 0.3, 0.7, 0.95, 1.0]), "min_keep": keep(),
                                       "samplers": ["typ_p"]})
        yield case("top_n_sigma", size(), {"top_n_sigma": pick([-1.0, 0.5, 1.0, 2.0, 3.0]),
                                           "samplers": ["top_n_sigma"]})
        yield case("xtc", size(), {"xtc_probability": pick([0.0, 0.5, 1.0, 1.0, 1.0]), "min_keep": keep(),
                                   "xtc_threshold": pick([0.001, 0.01, 0.05, 0.1, 0.3, 0.6]), "samplers": ["xtc"]},
                   draws=False)
        n = size()
        accept = history(rng, rng.sample(range(n), 8), pick([0, 5, 64, 150]))
        yield case("penalties", n, {**penalties(), "samplers": ["penalties"]}, accept)
        biases = [[i, pick([1.5, -2.0, 8.0, False])] for i in rng.sample(range(64), pick([1, 3, 20]))]
        yield case("logit_bias", size(), {"logit_bias": biases, "samplers": []})
        settings = {**dry(), "samplers": ["dry"]}
        yield case("dry", vocabulary.size, settings, said(settings))
        yield case("default", size(), {})
        for family, order in ("everything", DEFAULTS["samplers"]), ("shuffled", shuffled()):
            settings = everything(order)
            yield case(family, vocabulary.size, settings, said(settings), draws=ordered(settings))
    for version in (1, 2):
        for _ in range(VECTORS // 5):
            settings = {"mirostat": version, "temperature": pick([0.8, 1.0, 0.0]),
                        "mirostat_tau": pick([1.0, 3.0, 5.0]), "mirostat_eta": pick([0.1, 0.5])}
            # Over flat logits version 1 wants more tokens than an int holds, and llama.cpp's conversion is undefined.
            yield case(f"mirostat{version}", size(), settings, steps=5, steep=version == 1)
    for _ in range(VECTORS // 5):
        settings = {**penalties(), **dry(), "xtc_probability": 0.5}
        yield case("sequence", vocabulary.size, settings, said(settings), steps=5)


def main():
    assert lc.__version__ == "0.3.36", lc.__version__
    here = Path(__file__).resolve().parents[2]
    fixtures = Path(os.environ.get("CANDOR_FIXTURES", here.parent / "shared" / "fixtures"))
    quiet = lc.llama_log_callback(lambda *_: None)
    lc.llama_log_set(quiet, None)
    vocabulary = Vocabulary(fixtures / "models" / "stories260K-f32.gguf")
    made = list(cases(vocabulary))
    texts = {text for case in made for text in case["settings"].get("dry_sequence_breakers", DEFAULTS["dry_sequence_breakers"])}
    tails = sorted({text[i:] for text in texts for i in range(1, len(text))})
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in made)
    head = {
        "made_by": f"tools/goldens/samplers.py with {VERSION}",
        "pieces": [piece.hex() for piece in vocabulary.pieces],
        "encoded": {tail: vocabulary.tokenize(tail) for tail in tails},
    }
    text = json.dumps(head, separators=(",", ":"))[:-1] + ',"cases":[\n' + lines + "\n]}\n"
    Path(sys.argv[1]).parent.mkdir(parents=True, exist_ok=True)
    Path(sys.argv[1]).write_text(text)
    vectors = {}
    for case in made:
        vectors[case["family"]] = vectors.get(case["family"], 0) + len(case["steps"])
    print(vectors, len(text), "bytes")


main()
