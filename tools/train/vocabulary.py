"""Loads a sentencepiece vocabulary: a tokenizer.model, or the one inside a GGUF file that export.py wrote."""
from pathlib import Path

import sentencepiece as spm
from gguf import GGUFReader, TokenType
from sentencepiece import sentencepiece_model_pb2 as proto

KINDS = {
    TokenType.NORMAL: proto.ModelProto.SentencePiece.NORMAL,
    TokenType.UNKNOWN: proto.ModelProto.SentencePiece.UNKNOWN,
    TokenType.CONTROL: proto.ModelProto.SentencePiece.CONTROL,
    TokenType.BYTE: proto.ModelProto.SentencePiece.BYTE,
}


def load(path):
    """A SentencePieceProcessor."""
    path = Path(path)
    if path.suffix != ".gguf":
        return spm.SentencePieceProcessor(model_file=str(path))
    fields = GGUFReader(path).fields
    model = proto.ModelProto()
    for name in ("tokens", "scores", "token_type"):
        assert f"tokenizer.ggml.{name}" in fields, f"{path} has no vocabulary"
    rows = zip(*(fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "scores", "token_type")))
    for text, score, kind in rows:
        model.pieces.add(piece=text, score=score, type=KINDS[TokenType(kind)])
    model.trainer_spec.model_type = proto.TrainerSpec.BPE
    model.trainer_spec.byte_fallback = True
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = False
    model.normalizer_spec.remove_extra_whitespaces = False
    return spm.SentencePieceProcessor(model_proto=model.SerializeToString())
