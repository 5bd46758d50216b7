#!/usr/bin/env python3
"""Checksums of what the `gguf` Python package reads from the fixtures: the golden of tests/gguf/fixtures.rs.

    python3 directories.py directories.tsv FIXTURES [VOCAB]

VOCAB has the unpacked vocabularies. `cargo xtask fixtures` makes a list of the models alone, a few bits of which depend on
the machine (tools/fixtures/README.md).

One line a file: path, number of keys, CRC-32 of all keys and values, number of tensors, CRC-32 of all tensor records
and their data. Numbers are fed to the CRC as little-endian bytes of their own width, strings as UTF-8.
"""

import sys
import zlib
from importlib.metadata import version
from pathlib import Path

import numpy as np
from gguf import GGUFReader, GGUFValueType


def metadata_crc(reader):
    crc, count = 0, 0
    for key, field in reader.fields.items():
        if key.startswith("GGUF."):
            continue  # the header, which this package shows as fields
        count += 1
        kinds = [int(kind) for kind in field.types]
        crc = zlib.crc32(key.encode() + bytes(kinds), crc)
        if field.types[0] == GGUFValueType.ARRAY:
            crc = zlib.crc32(len(field.data).to_bytes(8, "little"), crc)
        for part in field.data:
            crc = zlib.crc32(np.ascontiguousarray(field.parts[part]).tobytes(), crc)
    return count, crc


def tensors_crc(reader):
    crc = 0
    for tensor in reader.tensors:
        shape = [int(n) for n in tensor.shape]
        record = tensor.name.encode() + int(tensor.tensor_type).to_bytes(4, "little")
        record += np.array(shape, "<u8").tobytes() + int(tensor.data_offset).to_bytes(8, "little")
        crc = zlib.crc32(record, crc)
        crc = zlib.crc32(np.ascontiguousarray(tensor.data).tobytes(), crc)
    return len(reader.tensors), crc


def main():
    target, fixtures, *vocabularies = map(Path, sys.argv[1:])
    files = [(path, path.relative_to(fixtures)) for folder in ("models", "arch") for path in fixtures.glob(f"{folder}/**/*.gguf")]
    files += [(path, Path("vocab") / path.name) for folder in vocabularies for path in folder.glob("*.gguf")]
    lines = [f"# made by directories.py with gguf {version('gguf')}: path, keys, CRC-32, tensors, CRC-32\n"]
    for path, name in sorted(files, key=lambda file: file[1]):
        reader = GGUFReader(path)
        keys, keys_crc = metadata_crc(reader)
        tensors, tensors_sum = tensors_crc(reader)
        lines.append(f"{name}\t{keys}\t{keys_crc:08x}\t{tensors}\t{tensors_sum:08x}\n")
    target.write_text("".join(lines), encoding="utf-8")


main()
