"""Writes a BERT encoder of Hugging Face's layout as GGUF, with the gguf package. Shared by minilm.py and cross_encoder.py."""

import gguf
import numpy as np

CONTROL, UNUSED, NORMAL = gguf.TokenType.CONTROL, gguf.TokenType.UNUSED, gguf.TokenType.NORMAL


def spelled(token):
    """GGUF marks the beginning of a word where BERT's list marks the continuation."""
    if token.startswith("[") and token.endswith("]"):
        return token
    return token[2:] if token.startswith("##") else "\u2581" + token


def kind(token):
    if token.startswith("[unused"):
        return UNUSED
    return CONTROL if token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") else NORMAL


def write(path, config, tokens, tensors, pooling, half=False, extra=None):
    """`tensors` are by Hugging Face's names without a prefix; `extra` are by GGUF's."""
    writer = gguf.GGUFWriter(str(path), "bert")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(pooling)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([spelled(token) for token in tokens])
    writer.add_token_types([kind(token) for token in tokens])
    writer.add_token_type_count(config["type_vocab_size"])
    # As the converter reads them off BERT's templates, [CLS] A [SEP] and [CLS] A [SEP] B [SEP].
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)
    writer.add_add_sep_token(False)
    for name, add in [("[UNK]", writer.add_unk_token_id), ("[SEP]", writer.add_sep_token_id),
                      ("[SEP]", writer.add_eos_token_id), ("[PAD]", writer.add_pad_token_id), ("[CLS]", writer.add_bos_token_id),
                      ("[MASK]", writer.add_mask_token_id)]:
        add(tokens.index(name))
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, config["num_hidden_layers"])
    named = {}
    for name, values in tensors.items():
        if name.startswith("pooler.") or name.endswith("position_ids"):
            continue  # what embeddings do without
        named[names.get_name(name, try_suffixes=(".weight", ".bias"))] = values
    named.update(extra or {})
    for name, values in named.items():
        wanted = np.float16 if half and values.ndim > 1 else np.float32
        writer.add_tensor(name, np.ascontiguousarray(values.astype(wanted)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
