"""Writes crates/tokenizer/tests/goldens/random.json: digests of the ids that llama.cpp gives for random Unicode.

    python tools/goldens/tokenizers.py write crates/tokenizer/tests/goldens/random.json
    CANDOR_TEST_STRINGS=all CANDOR_TOKENIZER_DUMP=FOLDER cargo test -p candor-tokenizer --test tokenizer random::; python tools/goldens/tokenizers.py compare FOLDER

Needs llama-cpp-python 0.3.36 (llama.cpp 0c1e57098, built with libstdc++). CANDOR_FIXTURES says where the fixtures are, by
default ../shared/fixtures beside the repository.

Vocabularies: those of the fixtures; changed ones made of them (another flag, another algorithm over the same tokens); and
for every name of a pre-tokenizer a byte-level BPE vocabulary whose merges join any two bytes, so that a cut in another
place gives other ids. Each gets 5,000 strings as plain text (no BOS, specials are text) and 5,000 as prompts (BOS and EOS
as the file says, specials are read). The strings come from a generator that the Rust test repeats, so that the file
holds digests only: one for every 500 strings. Where decoding is not the inverse of encoding there are digests of it, too.

What llama.cpp does on purpose otherwise than Candor is undone here: see `expected`.
"""

import ctypes
import json
import os
import struct
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

import llama_cpp as lc

VERSION = "llama-cpp-python 0.3.36 (llama.cpp 0c1e57098)"
BLOCK, BLOCKS = 500, 10
MASK = (1 << 64) - 1

# --- The strings. tests/random/strings.rs repeats all of this. ---

RANGES = [
    [(0x61, 0x7A)], [(0x41, 0x5A), (0x61, 0x7A)], [(0x30, 0x39)], [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)],
    [(0x20, 0x20)], [(0x09, 0x0D), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x2000, 0x200A), (0x2028, 0x2029), (0x3000, 0x3000)],
    [(0x0A, 0x0A), (0x0D, 0x0D), (0x20, 0x20)], [(0x80, 0xFF)], [(0xC0, 0x24F), (0x1E00, 0x1EFF)], [(0x370, 0x3FF), (0x1F00, 0x1FFF)],
    [(0x400, 0x52F)], [(0x531, 0x556), (0x561, 0x587), (0x10A0, 0x10FF)], [(0x590, 0x6FF)], [(0x900, 0xD7F)], [(0xE01, 0xEFF)],
    [(0x1000, 0x109F), (0x1780, 0x17FF)], [(0x1100, 0x11FF), (0x3131, 0x318E)], [(0xAC00, 0xD7A3)], [(0x3041, 0x30FF)],
    [(0x3105, 0x312F), (0x31A0, 0x31BF)], [(0x4E00, 0x9FFF)], [(0x3400, 0x4DBF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2FA1F)],
    [(0x300, 0x36F), (0x1AB0, 0x1AC0), (0x20D0, 0x20F0)], [(0x660, 0x669), (0x966, 0x96F), (0xFF10, 0xFF19), (0x1D7CE, 0x1D7FF)],
    [(0xB2, 0xB3), (0xBC, 0xBE), (0x2150, 0x218B), (0x2460, 0x249B)], [(0x1F300, 0x1F6D7), (0x1F900, 0x1F9FF), (0x200D, 0x200D), (0xFE0F, 0xFE0F), (0x1F3FB, 0x1F3FF)],
    [(0x2010, 0x205E), (0x20A0, 0x20BF), (0x2100, 0x214F), (0x2190, 0x23FF), (0x2500, 0x27BF)], [(0x3001, 0x303F), (0xFE30, 0xFE4F)],
    [(0xFF01, 0xFFEE)], [(0x00, 0x1F), (0x7F, 0x9F)], [(0xAD, 0xAD), (0x200B, 0x200F), (0x2060, 0x2064), (0xFEFF, 0xFEFF), (0xFFFD, 0xFFFD)],
    [(0xE000, 0xE0FF), (0xFDD0, 0xFDEF), (0x10FFF0, 0x10FFFF), (0x378, 0x379), (0xA500, 0xA62B), (0xA722, 0xA787)],
    [(0xFB00, 0xFB06), (0xFB13, 0xFB17), (0x1D400, 0x1D454), (0x10400, 0x1044F), (0x1E900, 0x1E943)],
    [(0x27, 0x27), (0x64, 0x64), (0x6C, 0x6D), (0x72, 0x76), (0x44, 0x44), (0x4C, 0x4D), (0x52, 0x56), (0x65, 0x65), (0x45, 0x45)],
    [(0x30, 0x33), (0x61, 0x63), (0x41, 0x43), (0x20, 0x20), (0x2E, 0x2F), (0x7E, 0x7E), (0x0A, 0x0A), (0xC9, 0xC9), (0x301, 0x301), (0x4E2D, 0x4E2D)],
]
WORDS = [
    "hello", " world", "The ", "return ", "def ", "  ", "    ", "\n\n", "\r\n", "I'm", "don't", "IT'S", " we'll", "'Ve", "über", "naïve",
    " Straße", "日本語", "中文", "한국어", "Привет ", "مرحبا", "שלום", "हिन्दी", "ไทย", "ελληνικά", "1234567", " 12", "3.14159", "100%", "0x1F",
    "e.g.", "://", "->", "!=", "</", "…", "。", "❤️", "👩‍👩‍👧", "é", "①", "▁", "▁▁a", "##ing", "Ġ", "Ċ", "<0x41>", "IMGIMGABCZ", "<sentinel:12>",
    "ｆｕｌｌ", "ﬁ", "ǅ", "İ", "ß", "ſ", "K", "\u2126", "\u0344", "\u1100\u1161\u11A8",
]
SPECIALS = [
    "<s>", "</s>", "<unk>", "<mask>", "<pad>", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|end|>",
    "<|user|>", "<bos>", "<eos>", "<|turn>", "<turn|>", "<|begin_of_text|>", "<|eot_id|>", " <mask> ", "<s> ", " </s>",
]


class Random:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return ((z ^ (z >> 31)) >> 11) % n


def string(random, specials):
    parts = []
    for _ in range(1 + random.below(6)):
        choice = random.below(10)
        if specials and choice == 0:
            parts.append(SPECIALS[random.below(len(SPECIALS))])
        elif choice < 3:
            parts.append(WORDS[random.below(len(WORDS))])
        else:
            ranges = RANGES[random.below(len(RANGES))]
            count = 1 + random.below(60 if random.below(20) == 0 else 6)
            same = random.below(8) == 0
            c = ""
            for i in range(count):
                if i == 0 or not same:
                    first, last = ranges[random.below(len(ranges))]
                    c = chr(first + random.below(last - first + 1))
                parts.append(c)
    return "".join(parts)


def strings(name, specials):
    """The strings of a vocabulary, by its name and mode."""
    random = Random(fnv((name + (" prompt" if specials else " text")).encode()))
    return [string(random, specials) for _ in range(BLOCK * BLOCKS)]


def fnv(data, state=0xCBF29CE484222325):
    for byte in data:
        state = ((state ^ byte) * 0x100000001B3) & MASK
    return state


def digest(lists):
    state = 0xCBF29CE484222325
    for ids in lists:
        for value in [*ids, 0xFFFFFFFF]:
            state = ((state ^ value) * 0x100000001B3) & MASK
    return f"{state:016x}"


# --- Vocabularies ---

STRING, ARRAY, BOOL, U32, I32, F32 = 8, 9, 7, 4, 5, 6
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def array(kind, values):
    items = b"".join(text(v) for v in values) if kind == STRING else struct.pack(f"<{len(values)}{'i' if kind == I32 else 'f'}", *values)
    return struct.pack("<IQ", kind, len(values)) + items


def read(path):
    """The metadata of a GGUF file: key to type and bytes."""
    data = Path(path).read_bytes()
    _, _, _, count = struct.unpack_from("<IIQQ", data)
    at = 24

    def skip(kind, at):
        if kind == STRING:
            return at + 8 + struct.unpack_from("<Q", data, at)[0]
        if kind == ARRAY:
            kind, n = struct.unpack_from("<IQ", data, at)
            at += 12
            if kind in SIZES:
                return at + n * SIZES[kind]
            for _ in range(n):
                at = skip(kind, at)
            return at
        return at + SIZES[kind]

    metadata = {}
    for _ in range(count):
        end = skip(STRING, at)
        key = data[at + 8:end].decode()
        (kind,) = struct.unpack_from("<I", data, end)
        at = skip(kind, end + 4)
        metadata[key] = (kind, data[end + 4:at])
    return metadata


def write(path, metadata):
    out = [struct.pack("<IIQQ", 0x46554747, 3, 0, len(metadata))]
    out += [text(key) + struct.pack("<I", kind) + value for key, (kind, value) in metadata.items()]
    Path(path).write_bytes(b"".join(out))


FIXTURES = [
    "aquila", "baichuan", "bert-bge", "deepseek-llm", "falcon", "gemma-4", "gpt-2", "gpt-neox", "llama-bpe", "llama-spm", "mpt",
    "nomic-bert-moe", "phi-3", "qwen2", "qwen35", "starcoder", "stories260K-f32",
]
KEY = "tokenizer.ggml."
# A vocabulary of the fixtures with some keys changed.
CHANGED = {
    "bert-bge cased": ("bert-bge", {KEY + "normalizer.lowercase": False}),
    "bert-bge accents": ("bert-bge", {KEY + "normalizer.lowercase": True, KEY + "normalizer.strip_accents": False}),
    "nomic-bert-moe all spaces": ("nomic-bert-moe", {KEY + "remove_extra_whitespaces": False}),
    "nomic-bert-moe bare": ("nomic-bert-moe", {KEY + "remove_extra_whitespaces": False, KEY + "add_space_prefix": False}),
    "llama-spm bare": ("llama-spm", {KEY + "add_space_prefix": False, KEY + "add_eos_token": True}),
    "llama-spm plamo2": ("llama-spm", {KEY + "model": "plamo2"}),
    "gemma-4 sarvam": ("gemma-4", {KEY + "model": "gpt2", KEY + "pre": "sarvam-moe"}),
    "gemma-4 granite": ("gemma-4", {KEY + "model": "gpt2", KEY + "pre": "granite-embed-multi-311m", KEY + "add_bos_token": False}),
    "gemma-4 words": ("gemma-4", {KEY + "model": "whitespace", KEY + "pre": "whitespace"}),
    "gemma-4 small words": ("gemma-4", {KEY + "model": "whitespace", KEY + "pre": "whitespace", KEY + "normalizer.lowercase": True}),
    "gpt-2 jina": ("gpt-2", {KEY + "pre": "jina-v2-code", KEY + "seperator_token_id": 50256}),
}
# Every name of `tokenizer.ggml.pre` with a byte alphabet.
PRES = """default minicpm5 llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano deepseek-llm deepseek-coder
deepseek-v3 spark2_5 youtu falcon mpt starcoder gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum
modern-bert jais-2 jina-v1-en jina-v2-code roberta-bpe refact command-r qwen2 deepseek-r1-qwen kormo f2llmv2 qwen35 stablelm2
olmo dbrx smaug-bpe poro-chat glm4 glm5 chatglm-bpe viking jais tekken smollm codeshell bloom gpt3-finnish exaone exaone4
exaone-moe chameleon minerva-7b megrez gpt-4o llama4 kanana2 talkie granite-embed-multi-97m tiny_aya cohere2moe superbpe trillion
granite-docling bailingmoe bailingmoe2 llada-moe seed-coder hunyuan hunyuan-dense hy_v4 joyai-llm kimi-k2 ufakzeka grok-2 afmoe
laguna minimax-m2 solar-open mellum2""".split()


def byte_char(byte):
    """GPT-2's printable character of a byte."""
    prints = lambda b: 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or 0xAE <= b <= 0xFF
    return chr(byte) if prints(byte) else chr(256 + sum(not prints(b) for b in range(byte)))


CHARS = [byte_char(byte) for byte in range(256)]


def pairs(pre):
    """All bytes, all pairs of bytes with a merge for each, and the words without one."""
    tokens = CHARS + [a + b for a in CHARS for b in CHARS]
    known = set(tokens)
    for word in WORDS:
        spelled = "".join(CHARS[byte] for byte in word.encode())
        if spelled not in known:
            known.add(spelled)
            tokens.append(spelled)
    return {
        "general.architecture": (STRING, text("llama")),
        KEY + "model": (STRING, text("gpt2")),
        KEY + "pre": (STRING, text(pre)),
        KEY + "tokens": (ARRAY, array(STRING, tokens)),
        KEY + "token_type": (ARRAY, array(I32, [1] * len(tokens))),
        KEY + "merges": (ARRAY, array(STRING, [f"{a} {b}" for a in CHARS for b in CHARS])),
        **{KEY + name: (U32, struct.pack("<I", 0)) for name in ("bos_token_id", "eos_token_id", "seperator_token_id")},
    }


def rwkv():
    """`<s>`, all bytes, and the words with their prefixes, escaped as RWKV's converter does."""
    escape = lambda data: "".join(
        {9: "\\t", 10: "\\n", 13: "\\r", 92: "\\\\", 39: "\\'"}.get(b) or (chr(b) if 32 <= b < 127 else f"\\x{b:02x}") for b in data
    )
    tokens, known = ["<s>"], set()
    for data in [bytes([b]) for b in range(256)] + [w.encode()[:n] for w in WORDS for n in range(2, 9)]:
        if data not in known:
            known.add(data)
            tokens.append(escape(data))
    return {
        "general.architecture": (STRING, text("rwkv6")),
        KEY + "model": (STRING, text("rwkv")),
        KEY + "tokens": (ARRAY, array(STRING, tokens)),
        KEY + "token_type": (ARRAY, array(I32, [3] + [1] * (len(tokens) - 1))),
        **{KEY + name: (U32, struct.pack("<I", 0)) for name in ("bos_token_id", "eos_token_id", "unknown_token_id")},
    }


def value(new):
    if isinstance(new, bool):
        return BOOL, struct.pack("<B", new)
    return (STRING, text(new)) if isinstance(new, str) else (U32, struct.pack("<I", new))


# --- llama.cpp ---


class Oracle:
    def __init__(self, path):
        parameters = lc.llama_model_default_params()
        parameters.vocab_only = True
        self.model = lc.llama_model_load_from_file(str(path).encode(), parameters)
        assert self.model, path
        self.vocab = lc.llama_model_get_vocab(self.model)

    def ids(self, string, prompt):
        data = string.encode()
        room = 4 * len(data) + 16
        out = (lc.llama_token * room)()
        n = lc.llama_tokenize(self.vocab, data, len(data), out, room, prompt, prompt)
        assert n >= 0, string
        return list(out[:n])

    def decoded(self, ids):
        """The text, as a list of bytes to be digested like ids."""
        room = 16 * len(ids) + 64
        while True:
            out = ctypes.create_string_buffer(room)
            n = lc.llama_detokenize(self.vocab, (lc.llama_token * len(ids))(*ids), len(ids), out, room, False, False)
            if n >= 0:
                return list(out.raw[:n].decode(errors="replace").encode())
            room = -n

    def close(self):
        lc.llama_model_free(self.model)


def expected(oracle, string, prompt, kind):
    """The ids that Candor should give. Where it means to differ from llama.cpp:

    - A text that begins with BOS or ends with EOS (`[SEP]`) gets no second one.
    - BERT's accents are stripped by full decomposition, as Hugging Face does it; llama.cpp keeps the first letter of it
      only, which for a Korean syllable loses the rest. So llama.cpp is given the letters one by one.
    - Of marks only those without a width are accents, again as in Hugging Face's; llama.cpp strips the vowels of Hindi
      too. So these are left out of the strings (`lists`), and so they are in the Rust test.
    """
    if kind == "bert":
        string = "".join(jamo(c) for c in string)
    ids = oracle.ids(string, prompt)
    if prompt:
        plain = oracle.ids(string, False) if not string else None
        v = oracle.vocab
        first = lc.llama_vocab_bos(v) if kind.startswith("bert") or lc.llama_vocab_get_add_bos(v) else None
        last = lc.llama_vocab_sep(v) if kind.startswith("bert") else lc.llama_vocab_eos(v) if lc.llama_vocab_get_add_eos(v) else None
        if kind in ("rwkv", "plamo2"):
            first = last = None
        if first is not None and plain is None and ids[1:2] == [first] and starts(oracle, string, first):
            ids = ids[1:]
        if last is not None and plain is None and ids[-2:-1] == [last] and starts(oracle, string, last, True):
            ids = ids[:-1]
    return ids


def starts(oracle, string, id, end=False):
    spelled = lc.llama_vocab_get_text(oracle.vocab, id).decode()
    return string.endswith(spelled) if end else string.startswith(spelled)


def jamo(c):
    index = ord(c) - 0xAC00
    if not 0 <= index < 11172:
        return c
    tail = index % 28
    return chr(0x1100 + index // 588) + chr(0x1161 + index % 588 // 28) + (chr(0x11A7 + tail) if tail else "")


def vocabularies(only=()):
    """Names, paths and kinds of all vocabularies, one after the other."""
    fixtures = Path(os.environ.get("CANDOR_FIXTURES", Path(__file__).parents[3] / "shared/fixtures"))
    with tempfile.TemporaryDirectory() as folder:
        plain = fixtures / "vocab"
        if not (plain / "ggml-vocab-gpt-2.gguf").exists():
            subprocess.run([fixtures / "unpack-vocab", folder], check=True)
            plain = Path(folder)
        made = Path(folder) / "made.gguf"

        def file(name):
            return fixtures / f"models/{name}.gguf" if name.startswith("stories") else plain / f"ggml-vocab-{name}.gguf"

        for name in [*FIXTURES, *CHANGED, "rwkv", *(f"pairs {pre}" for pre in PRES)]:
            if only and name not in only:
                continue
            path, entry = made, {}
            if name == "rwkv":
                write(made, rwkv())
            elif name.startswith("pairs "):
                write(made, pairs(name.removeprefix("pairs ")))
            elif name in CHANGED:
                base, changes = CHANGED[name]
                write(made, {**read(file(base)), **{key: value(new) for key, new in changes.items()}})
                entry = {"of": base, "changes": changes}
            else:
                path = file(name)
            metadata = read(path)
            model = metadata[KEY + "model"][1][8:].decode()
            stripped = model == "bert" and (CHANGED.get(name, (0, {}))[1].get(KEY + "normalizer.strip_accents", "cased" not in name))
            yield name, Oracle(path), "bert" if stripped else model if model != "bert" else "bert-cased", entry


def lists(name, oracle, kind):
    """Labels, and for each the strings with the ids expected of them, or the bytes of decoding these."""
    for label in ("text", "prompt"):
        cases = strings(name, label == "prompt")
        if kind == "bert":
            cases = ["".join(c for c in s if not wide_mark(c)) for s in cases]
        cases = [(s, expected(oracle, s, label == "prompt", kind)) for s in cases]
        yield label, cases
        # BPE's and SPM's own decoding is left to round trips: llama.cpp takes back spaces there that were in the text.
        if label == "text" and kind in ("bert", "bert-cased", "t5", "rwkv", "plamo2"):
            texts = [(s, oracle.decoded(ids)) for s, ids in cases]
            # Candor drops the space before the first word of WordPiece, too.
            yield "decoded", [(s, text[kind.startswith("bert") and text[:1] == [32]:]) for s, text in texts]


def wide_mark(c):
    # U+0CF3 is newer than Python's table.
    return unicodedata.category(c) in ("Mc", "Me") or c == "\u0cf3"


def main():
    quiet = lc.llama_log_callback(lambda *_: None)
    lc.llama_log_set(quiet, ctypes.c_void_p(0))
    lc.llama_backend_init()
    command, place, only = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    if command == "write":
        out = {}
        for name, oracle, kind, entry in vocabularies(only):
            for label, cases in lists(name, oracle, kind):
                ids = [ids for _, ids in cases]
                entry[label] = [digest(ids[at:at + BLOCK]) for at in range(0, len(ids), BLOCK)]
            out[name] = entry
            oracle.close()
            print(name, file=sys.stderr)
        lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in out.items())
        place.write_text(f'{{"made_by": "{VERSION}, tools/goldens/tokenizers.py", "block": {BLOCK}, "vocabularies": {{\n{lines}\n}}}}\n')
    else:
        for name, oracle, kind, _ in vocabularies(only):
            for label, cases in lists(name, oracle, kind):
                dumped = place / f"{name} {label}"
                if dumped.exists():
                    got = [[int(id) for id in line.split()] for line in dumped.read_text().split("\n")]
                    report(oracle, f"{name} {label}", [(s, want, have) for (s, want), have in zip(cases, got, strict=True)])
            oracle.close()


def report(oracle, label, cases):
    """Prints how many cases differ, and the shortest of them."""

    def spell(ids):
        if label.endswith(" decoded"):
            return ascii(bytes(ids).decode())
        return " ".join(f"{id}:{lc.llama_vocab_get_text(oracle.vocab, id).decode()!a}" for id in ids)

    wrong = [case for case in cases if case[1] != case[2]]
    print(f"{label}: {len(wrong)} of {len(cases)} differ")
    for s, want, have in sorted(wrong, key=lambda case: len(case[0]))[:4]:
        print(f"  {ascii(s)}\n    llama.cpp {spell(want)}\n    candor    {spell(have)}")


if __name__ == "__main__":
    main()
