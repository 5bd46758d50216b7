"""What the faults are written with."""

import hashlib
import re
from dataclasses import dataclass
from typing import Callable


@dataclass
class Fault:
    """One thing that an engine gets wrong."""

    id: str
    says: str
    wirings: tuple
    plant: Callable


def registrar(faults):
    """Return a decorator that registers a function as the fault `id` of the wirings, a string of names."""
    def fault(id, says, wirings):
        def register(plant):
            assert id not in faults, id
            faults[id] = Fault(id, says, tuple(wirings.split()), plant)
            return plant
        return register
    return fault


FAULTS = {}
fault = registrar(FAULTS)


def held_out(id):
    """Say whether a fault is kept from those who work on the catalogue."""
    return int(hashlib.sha256(id.encode()).hexdigest(), 16) % 3 == 0


def matching(e, pattern):
    """Return the names of the layers' tensors that match, without `blk.N.`; fail where there are none."""
    names = [n for n in e.w if re.fullmatch(r"blk\.\d+\.(" + pattern + ")", n)]
    if not names:
        raise LookupError(pattern)
    return names


def change(e, pattern, edit):
    """Edit the weights of all layers that match."""
    for name in matching(e, pattern):
        e.w[name] = edit(e.w[name]).astype(e.w[name].dtype)


def drop(e, pattern):
    """Remove the tensors of all layers that match."""
    for name in matching(e, pattern):
        del e.w[name]


def wrap(e, method, around):
    """Replace a method by `around`, which is given the method itself first."""
    inner = getattr(e, method)
    setattr(e, method, lambda *args: around(inner, *args))


def after(e, method, edit):
    """Edit a method's result."""
    wrap(e, method, lambda inner, *args: edit(inner(*args)))


def decoding(e):
    """Say whether the prompt has been run."""
    return e.call > 0
