"""Write a checkpoint as a GGUF file: matrices in Q8_0, norms in F32.

    python export.py --checkpoint checkpoint.pt --tokenizer tokenizer.model --out candor-tiny.gguf
"""
import argparse

import gguf
import torch
from gguf import GGMLQuantizationType as Q
from gguf import TokenType
from gguf.quants import quantize

import vocabulary
from chat_format import END, TEMPLATE
from model import Config


def entries(sp):
    tokens, scores, kinds = [], [], []
    for i in range(sp.vocab_size()):
        tokens.append(sp.id_to_piece(i).encode())
        scores.append(sp.get_score(i))
        if sp.is_unknown(i):
            kind = TokenType.UNKNOWN
        elif sp.is_control(i):
            kind = TokenType.CONTROL
        elif sp.is_byte(i):
            kind = TokenType.BYTE
        else:
            kind = TokenType.NORMAL
        kinds.append(kind)
    return tokens, scores, kinds


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--checkpoint", required=True)
    ap.add_argument("--tokenizer", required=True)
    ap.add_argument("--out", required=True)
    args = ap.parse_args()
    data = torch.load(args.checkpoint, map_location="cpu", weights_only=True)
    cfg = Config(**data["config"])
    sp = vocabulary.load(args.tokenizer)

    w = gguf.GGUFWriter(args.out, "llama")
    w.add_name("Candor Tiny")
    w.add_description("The small built-in chat model of Candor: simple English small talk, short stories, simple facts.")
    w.add_license("MIT OR Apache-2.0")
    w.add_type("model")
    w.add_languages(["en"])
    w.add_size_label(f"{sum(t.numel() for t in data['model'].values()) / 1e6:.1f}M")
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    w.add_vocab_size(cfg.vocab)
    w.add_context_length(cfg.context)
    w.add_embedding_length(cfg.dim)
    w.add_block_count(cfg.layers)
    w.add_feed_forward_length(cfg.ffn)
    w.add_head_count(cfg.heads)
    w.add_head_count_kv(cfg.kv_heads)
    w.add_layer_norm_rms_eps(cfg.eps)
    w.add_rope_dimension_count(cfg.head_dim)
    w.add_rope_freq_base(cfg.rope_base)

    tokens, scores, kinds = entries(sp)
    assert len(tokens) == cfg.vocab
    end = sp.piece_to_id(END)
    w.add_tokenizer_model("llama")
    w.add_tokenizer_pre("default")
    w.add_token_list(tokens)
    w.add_token_scores(scores)
    w.add_token_types(kinds)
    w.add_bos_token_id(sp.bos_id())
    w.add_eos_token_id(end)
    w.add_eot_token_id(end)
    w.add_unk_token_id(sp.unk_id())
    w.add_add_bos_token(True)
    w.add_add_eos_token(False)
    w.add_add_space_prefix(False)
    w.add_chat_template(TEMPLATE)

    for name, tensor in data["model"].items():
        array = tensor.float().numpy()
        if array.ndim == 2:
            w.add_tensor(name, quantize(array, Q.Q8_0), raw_dtype=Q.Q8_0)
        else:
            w.add_tensor(name, array)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    main()
