"""Read a GGUF file: its parameters, and its weights as float64 arrays of shape [out, in]."""

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize


class File:
    """The parameters and weights of one GGUF file."""

    def __init__(self, path):
        reader = GGUFReader(str(path))
        self.fields = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
        self.arch = self.fields["general.architecture"]
        self.raw = {t.name: t for t in reader.tensors}

    def get(self, key, default=None):
        """Return a parameter of the architecture, such as `attention.head_count`."""
        return self.fields.get(f"{self.arch}.{key}", default)

    def per_layer(self, key, layers, default=None):
        """Return a parameter that is one number or one number a layer, as a list."""
        value = self.get(key, default)
        return list(value) if isinstance(value, list) else [value] * layers

    def weights(self):
        """Return all weights, dequantized."""
        return {
            name: np.asarray(dequantize(t.data, t.tensor_type), dtype=np.float64)
            .reshape([int(n) for n in reversed(t.shape)])
            for name, t in self.raw.items()
        }

    def with_bytes(self, name, change):
        """Return one tensor, dequantized after `change` has edited a flat copy of its bytes."""
        tensor = self.raw[name]
        data = np.array(tensor.data)
        flat = data.reshape(-1).view(np.uint8)
        change(flat)
        return np.asarray(dequantize(data, tensor.tensor_type), dtype=np.float64).reshape(
            [int(n) for n in reversed(tensor.shape)])
