"""Kinds of arithmetic: how numbers are kept, and what products do to their inputs.

Every result of an operation passes through `out`, every product through `dot`. The exact kind does nothing in both.
"""

import numpy as np


def to_bf16(x):
    """Round to bfloat16, ties to even."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return np.where(np.isfinite(x), bits.astype(np.uint32).view(np.float32), np.asarray(x, np.float32))


def to_f16(x):
    """Round to half precision; what is too large becomes infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(x).astype(np.float16).astype(np.float32)


def to_tf32(x):
    """Round to 10 bits of mantissa, ties to even."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0xFFF + ((bits >> 13) & 1)) & 0xFFFFE000
    return bits.astype(np.uint32).view(np.float32)


def to_q8(x, half_scale):
    """Round to 8 bits in blocks of 32 with one scale each; a scale of 16 bits is what Q8_0 has."""
    if x.shape[-1] % 32:
        return x
    blocks = np.asarray(x, dtype=np.float32).reshape(*x.shape[:-1], -1, 32)
    scale = np.abs(blocks).max(-1, keepdims=True) / np.float32(127)
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    steps = blocks * inverse
    whole = np.sign(steps) * np.floor(np.abs(steps) + np.float32(0.5))
    return (whole * (to_f16(scale) if half_scale else scale)).reshape(x.shape)


def same(x):
    """Return `x`."""
    return x


class Arithmetic:
    """One kind of arithmetic."""

    def __init__(self, dtype=np.float64, weight=same, out=same, factor=same, both=False, cache=same):
        self.dtype, self.weight, self.out, self.factor, self.both, self.cache = dtype, weight, out, factor, both, cache

    def load(self, weights):
        """Return the weights as this arithmetic keeps them."""
        return {name: np.asarray(self.weight(w), dtype=self.dtype) for name, w in weights.items()}

    def dot(self, x, w):
        """Return x times the transpose of w, for x of [..., in] and w of [out, in]."""
        factors = np.asarray(self.factor(x), self.dtype)
        matrix = np.asarray(self.factor(w), self.dtype) if self.both else w
        return factors @ np.swapaxes(matrix, -1, -2)


F32 = np.float32
KINDS = {
    "f64": Arithmetic(),
    "f32": Arithmetic(F32),
    "q8": Arithmetic(F32, factor=lambda x: to_q8(x, True)),
    "q8-f32-scale": Arithmetic(F32, factor=lambda x: to_q8(x, False)),
    "bf16": Arithmetic(F32, weight=to_bf16, out=to_bf16, cache=to_bf16),
    "f16": Arithmetic(F32, weight=to_f16, out=to_f16, cache=to_f16),
    "tf32": Arithmetic(F32, factor=to_tf32, both=True),
    "kv-f16": Arithmetic(F32, cache=to_f16),
}
