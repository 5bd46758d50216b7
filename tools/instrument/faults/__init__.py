"""Faults: each an id, a sentence, the wirings it is planted in, and a small change of a healthy engine.

A fault is written down from what people get wrong when they port a wiring. It changes an engine that has been built and
has not run yet: its weights, its attributes or its methods.
"""

from .tools import FAULTS, held_out
from . import attention, biases, blocks, cache, delta, embedding, experts, ffn, latent, layout, norms  # noqa: F401
from . import numbers, output, recurrent, rope, rwkv, special  # noqa: F401
from .second import SECOND
from .third import THIRD

__all__ = ["FAULTS", "SECOND", "THIRD", "held_out"]
