"""The formulas that all wirings share: norms, activations, rotations, soft maxima."""

import math
from dataclasses import dataclass

import numpy as np

erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x):
    """Return 1 / (1 + exp(-x)) without overflow."""
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def softplus(x):
    """Return ln(1 + exp(x))."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def softmax(x):
    """Return the soft maximum over the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu_tanh(x):
    """Return GELU by the tanh formula (Hendrycks & Gimpel)."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


ACTIVATIONS = {
    "silu": lambda x: x * sigmoid(x),
    "gelu": gelu_tanh,
    "gelu-erf": lambda x: (0.5 * x * (1 + erf(x / math.sqrt(2)))).astype(x.dtype),
    "gelu-quick": lambda x: x * sigmoid(1.702 * x),
    "relu": lambda x: np.maximum(x, 0),
    "relu-squared": lambda x: np.maximum(x, 0) ** 2,
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "none": lambda x: x,
}


def rms_norm(x, weight, eps):
    """Divide by the root of the mean square, then multiply with the weight."""
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return y if weight is None else y * weight


def layer_norm(x, weight, bias, eps):
    """Remove the mean, divide by the standard deviation, then apply weight and bias."""
    centred = x - x.mean(-1, keepdims=True)
    y = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def l2_norm(x, eps):
    """Divide by the length."""
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + eps)


def frequencies(base, dims):
    """Return the angle per position of each pair."""
    return base ** (-np.arange(0, dims, 2) / dims)


def yarn_ramp(base, dims, context, fast, slow, whole=True):
    """Return for each pair how far it is interpolated, 0 to 1 (YaRN, Peng et al. 2023, section 3.2)."""
    def dim(turns):
        return dims * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = dim(fast), dim(slow)
    if whole:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    return np.clip((np.arange(dims // 2) - low) / max(high - low, 0.001), 0, 1)


@dataclass
class Rope:
    """A rotation of the first `dims` numbers of each head."""

    freq: np.ndarray
    pairs: str                 # "interleaved": (0, 1), (2, 3) ...; "half": (0, d/2), (1, d/2 + 1) ...
    magnitude: float = 1.0
    start: int = 0             # the first number that is rotated

    def __call__(self, x, positions):
        """Rotate x of [tokens, heads, head]."""
        dims = 2 * len(self.freq)
        angle = positions[:, None, None] * self.freq
        cos = (np.cos(angle) * self.magnitude).astype(x.dtype)
        sin = (np.sin(angle) * self.magnitude).astype(x.dtype)
        part = x[..., self.start:self.start + dims]
        if self.pairs == "interleaved":
            a, b = part[..., 0::2], part[..., 1::2]
        else:
            a, b = part[..., :dims // 2], part[..., dims // 2:]
        left, right = a * cos - b * sin, a * sin + b * cos
        out = x.copy()
        if self.pairs == "interleaved":
            out[..., self.start:self.start + dims:2] = left
            out[..., self.start + 1:self.start + dims:2] = right
        else:
            out[..., self.start:self.start + dims // 2] = left
            out[..., self.start + dims // 2:self.start + dims] = right
        return out
