#!/usr/bin/env python3
"""What the faults of transformers_attention.py and transformers_layers.py change a Transformers model with."""

import re
import sys

import torch


class Patch:
    """A model, the source that it was made from, and what has to be put back afterwards."""

    def __init__(self, model):
        self.model, self.config, self.base = model, model.config, model.base_model
        self.kind = self.config.model_type
        self.code = sys.modules[type(model).__module__]
        self.late, self.undo = [], []

    def replace(self, name, function):
        """Puts `function(inner, ...)` in the place of a function of the model's source."""
        inner = getattr(self.code, name)
        self.undo.append((name, inner))
        setattr(self.code, name, lambda *args, **kwargs: function(inner, *args, **kwargs))

    def restore(self):
        for name, inner in reversed(self.undo):
            setattr(self.code, name, inner)

    def modules(self, pattern):
        """Modules whose name ends with the pattern, on a dot."""
        found = [m for name, m in self.model.named_modules() if re.search(rf"(^|\.)(?:{pattern})$", name)]
        if not found:
            raise LookupError(f"{self.kind}: no module {pattern}")
        return found

    def layers(self):
        return self.modules(r"(?:layers|h|layer|blocks)\.\d+")

    def attentions(self):
        return self.modules(r"self_attn|attention|attn|self_attention|attention\.self")

    def skip(self, pattern):
        for module in self.modules(pattern):
            module.forward = lambda x, *args, **kwargs: x

    def set(self, pattern, **attributes):
        for module in self.modules(pattern):
            for name, value in attributes.items():
                if not hasattr(module, name):
                    raise LookupError(f"{self.kind}: {pattern} has no {name}")
                setattr(module, name, value)

    def zero(self, pattern, name="bias"):
        for module in self.modules(pattern):
            if getattr(module, name, None) is None:
                raise LookupError(f"{self.kind}: {pattern} has no {name}")
            getattr(module, name).data.zero_()

    def frequencies(self, function, only=""):
        """Replaces each buffer of rotary frequencies: function(module, frequencies)."""
        for module in self.model.modules():
            for name, buffer in list(module.named_buffers(recurse=False)):
                if name.endswith("inv_freq") and "original" not in name and only in name:
                    setattr(module, name, function(module, buffer).to(buffer.dtype))

    def attend(self, function):
        """Puts function(inner, module, q, k, v, mask, **kwargs) in the place of attention."""
        self.replace("eager_attention_forward", function)

    def rotate(self, function):
        """Puts function(inner, q, k, cos, sin, ...) in the place of rope."""
        name = "apply_rotary_pos_emb" if hasattr(self.code, "apply_rotary_pos_emb") else "apply_rotary_emb"
        self.replace(name, function)

    def positions(self, function):
        """Changes the positions that rope is given: function(position_ids)."""
        for module in self.modules("rotary_emb"):
            inner = module.forward
            module.forward = lambda x, position_ids, *args, inner=inner, **kwargs: inner(
                x, function(position_ids), *args, **kwargs
            )

    def learned_positions(self, function):
        for module in self.modules("wpe|position_embeddings"):
            inner = module.forward
            module.forward = lambda ids, *args, inner=inner: inner(function(ids), *args)

    def norms(self):
        named = [module for module in self.model.modules() if "Norm" in type(module).__name__]
        return [module for module in named if getattr(module, "weight", None) is not None]


def rms(x, eps):
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def epsilon(module):
    return next(getattr(module, name) for name in ("variance_epsilon", "eps", "epsilon") if hasattr(module, name))
