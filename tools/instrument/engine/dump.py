"""Write values as safetensors, in F32, F16 or BF16, or as lines of a log."""

import json

import numpy as np

from .arithmetic import to_bf16


def encode(x, storage):
    """Return safetensors' name of a type and the bytes of `x` in it."""
    x = np.asarray(x)
    with np.errstate(over="ignore"):
        if storage == "f16":
            return "F16", x.astype(np.float16).tobytes()
        if storage == "bf16":
            return "BF16", (to_bf16(x).view(np.uint32) >> 16).astype(np.uint16).tobytes()
        return "F32", x.astype(np.float32).tobytes()


def write_safetensors(path, values, storage, metadata):
    """Write values with their metadata."""
    header, parts, offset = {"__metadata__": metadata}, [], 0
    for name, x in values.items():
        kind, data = encode(x, storage)
        header[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": [offset, offset + len(data)]}
        parts.append(data)
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def read_safetensors(path):
    """Return the tensors of a file that are in F32, and its metadata."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__", {})
    read = lambda t: np.frombuffer(data[8 + size:][slice(*t["data_offsets"])], "<f4").reshape(t["shape"])
    return {name: read(t) for name, t in header.items() if t["dtype"] == "F32"}, metadata


def write_log(path, values, row, count=8):
    """Write the first numbers of one row of each value, one value a line."""
    lines = [f"{name} pos {row}: [{', '.join(format(float(v), '.6f') for v in x[row][:count])}]"
             for name, x in values.items()]
    path.write_text("\n".join(lines) + "\n")
