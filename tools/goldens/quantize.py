#!/usr/bin/env python3
"""Makes crates/quant/tests/goldens/encoded.txt: what ggml's ggml_quantize_chunk makes of rows that Rust makes, too.
And errors.txt beside it: how far what it makes in formats of codebooks is from the rows.

    python tools/goldens/quantize.py LIBRARY [FOLDER]

LIBRARY is a shared library of ggml.c, ggml-quants.c and ggml-threading.cpp, compiled for plain x86-64 with
-O2 -DNDEBUG -ffp-contract=off. Needs numpy.
A line of encoded.txt holds: format, kind of row, whether with importance, the bytes' FNV-1a hash, the first block's bytes.
One of errors.txt: format, kind, whether with importance, and of each row the sum of weight * (value - decoded)^2, decoded
by ggml. Weights are what ggml's encoder counts with. "fails" stands where ggml aborts or makes infinite scales.
"""

import ctypes
import os
import sys
from pathlib import Path

import numpy as np

COLUMNS, ROWS = 1024, 12
FORMATS = {
    "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q2_K": 10, "Q3_K": 11, "Q4_K": 12, "Q5_K": 13,
    "Q6_K": 14, "IQ4_NL": 20, "IQ4_XS": 23, "BF16": 30, "TQ1_0": 34, "TQ2_0": 35, "MXFP4": 39, "NVFP4": 40, "Q1_0": 41,
    "Q2_0": 42,
}  # fmt: skip
# Blocks as ggml has them: elements, bytes.
BLOCKS = {
    "F16": (1, 2), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34),
    "Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210),
    "IQ4_NL": (32, 18), "IQ4_XS": (256, 136), "BF16": (1, 2), "TQ1_0": (256, 54), "TQ2_0": (256, 66), "MXFP4": (32, 17),
    "NVFP4": (64, 36), "Q1_0": (128, 18), "Q2_0": (64, 18),
}  # fmt: skip
# Formats of codebooks: ggml's number, bytes of a block, the name of the decoder, and how much the mean square of a block counts
# in weights, with importance and alone (none where ggml needs importance).
CODEBOOKS = {
    "IQ2_XXS": (16, 66, "iq2_xxs", 1.0, None), "IQ2_XS": (17, 74, "iq2_xs", 1.0, None),
    "IQ3_XXS": (18, 98, "iq3_xxs", 2.0, 0.0), "IQ1_S": (19, 50, "iq1_s", 2.0, None),
    "IQ3_S": (21, 110, "iq3_s", 2.0, 0.0), "IQ2_S": (22, 82, "iq2_s", 2.0, 0.5), "IQ1_M": (29, 56, "iq1_m", 2.0, 0.0),
}  # fmt: skip
KINDS = ["normal", "heavy", "mixed", "constant", "zero", "sparse", "small", "subnormal", "large", "grid", "hundreds"]
MASK = (1 << 64) - 1


def numbers(seed: int, count: int) -> np.ndarray:
    """SplitMix64, the upper 24 bits of each number as a fraction from 0 to 1."""
    out = np.empty(count, dtype=np.float32)
    for i in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        out[i] = np.float32((z ^ (z >> 31)) >> 40) * np.float32(2.0**-24)
    return out


def values(kind: str) -> np.ndarray:
    """Only sums and products of floats, in this order: other languages make the same bits."""
    count, f = ROWS * COLUMNS, np.float32
    u = numbers(KINDS.index(kind) + 1, 4 * count).reshape(4, count)
    normal = (((u[0] + u[1]) + u[2]) + u[3]) - f(2)  # nearly
    with np.errstate(all="ignore"):
        cube = (normal * normal) * normal
        if kind == "normal":
            return normal * f(0.02)
        if kind == "heavy":
            return (cube * cube) * cube
        if kind == "mixed":  # groups of 16 with scales and offsets of their own
            group = np.arange(count) // 16
            return normal * u[1][group] + (u[2][group] - f(0.5))
        if kind == "constant":  # of the four rows' worth, some negative, some neither
            return np.where(np.arange(count) % COLUMNS < COLUMNS // 2, f(0.3125), f(-0.7)).astype(f)
        if kind == "zero":
            return np.zeros(count, dtype=f)
        if kind == "sparse":
            return np.where(u[0] < f(0.03), normal, f(0)).astype(f)
        if kind == "small":  # scales of halves are subnormal or nothing
            return (normal * f(1e-6)) * u[3]
        if kind == "subnormal":
            return normal * f(1e-39)
        if kind == "large":
            return normal * f(1e30)
        if kind == "hundreds":  # scales of NVFP4 around its greatest
            return normal * f(1500)
        assert kind == "grid"  # many ties
        return (np.floor(u[0] * f(16)) - f(8)).astype(f) * f(0.25)


def importance() -> np.ndarray:
    u = numbers(99, COLUMNS)
    return ((u * u) * u + np.float32(1e-6)).astype(np.float32)


def fnv(data: bytes) -> str:
    """FNV-1a of 64 bits."""
    state = 0xCBF29CE484222325
    for byte in data:
        state = ((state ^ byte) * 0x100000001B3) & MASK
    return f"{state:016x}"


def encoded(chunk, number: int, x: np.ndarray, size: int, weights: np.ndarray | None) -> np.ndarray | None:
    """The bytes, made by a child: ggml ends the process where no point is near. None if it does."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        out = np.zeros(size, dtype=np.uint8)
        chunk(number, x, out.ctypes.data, 0, ROWS, COLUMNS, None if weights is None else weights.ctypes.data)
        with os.fdopen(write, "wb") as pipe:
            pipe.write(out.tobytes())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        out = np.frombuffer(pipe.read(), dtype=np.uint8)
    os.waitpid(child, 0)
    return out if out.size == size else None


def counted(x: np.ndarray, weights: np.ndarray | None, spread: float) -> np.ndarray:
    """How much each element counts."""
    blocks = x.astype(np.float64).reshape(-1, 256)
    squares = spread * (blocks**2).mean(axis=1, keepdims=True) + blocks**2
    if weights is None:
        return squares.reshape(ROWS, COLUMNS)
    return weights.astype(np.float64) * np.sqrt(squares).reshape(ROWS, COLUMNS)


def errors(library: ctypes.CDLL, chunk) -> list[str]:
    weights = importance()
    lines = []
    for name, (number, size, decoder, with_importance, alone) in CODEBOOKS.items():
        library.ggml_quantize_init(number)
        decode = getattr(library, f"dequantize_row_{decoder}")
        decode.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        for kind in KINDS:
            x = values(kind)
            for how, given, spread in (("alone", None, alone), ("importance", weights, with_importance)):
                if spread is None:
                    continue
                out = encoded(chunk, number, x, x.size // 256 * size, given)
                said = "fails"
                if out is not None:
                    back = np.empty(x.size, dtype=np.float32)
                    decode(out.ctypes.data, back.ctypes.data, x.size)
                    if np.isfinite(back).all():
                        off = (back.astype(np.float64) - x.astype(np.float64)).reshape(ROWS, COLUMNS)
                        said = " ".join(f"{e:.9e}" for e in (counted(x, given, spread) * off**2).sum(axis=1))
                lines.append(f"{name} {kind} {how} {said}\n")
    return lines


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    library = ctypes.CDLL(sys.argv[1], mode=os.RTLD_LAZY)
    chunk = library.ggml_quantize_chunk
    chunk.restype = ctypes.c_size_t
    floats = np.ctypeslib.ndpointer(np.float32, flags="C")
    number = ctypes.c_int64
    chunk.argtypes = [ctypes.c_int, floats, ctypes.c_void_p, number, number, number, ctypes.c_void_p]
    weights = importance()
    lines = []
    for name, kind_id in FORMATS.items():
        length, size = BLOCKS[name]
        for kind in KINDS:
            x = values(kind)
            for weighted in (False, True):
                out = np.zeros(ROWS * COLUMNS // length * size, dtype=np.uint8)
                pointer = weights.ctypes.data if weighted else None
                assert chunk(kind_id, x, out.ctypes.data, 0, ROWS, COLUMNS, pointer) == out.size
                digest = fnv(out.tobytes())
                how = "importance" if weighted else "alone"
                lines.append(f"{name} {kind} {how} {digest} {out[:size].tobytes().hex()}\n")
    here = Path(__file__).resolve().parents[2] / "crates" / "quant" / "tests" / "goldens"
    folder = Path(sys.argv[2]) if len(sys.argv) == 3 else here
    (folder / "encoded.txt").write_text("".join(lines))
    (folder / "errors.txt").write_text("".join(errors(library, chunk)))


if __name__ == "__main__":
    main()
