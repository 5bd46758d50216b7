"""Steps of llama.cpp's converter that are left out or done wrongly, and the repair that has to name each.

A fault is a function of the converter's class that returns patches: of the class, of its writer, of what it makes of a tensor.
"""

from contextlib import ExitStack
from unittest import mock

import gguf
import torch

Writer = gguf.GGUFWriter


def patched(patches):
    """A context in which all patches hold."""
    stack = ExitStack()
    for target, name, new in patches:
        stack.enter_context(mock.patch.object(target, name, new))
    return stack


def unwritten(method):
    """A number that is not written."""
    return lambda cls: [(Writer, method, lambda self, *args: None)]


def written(**numbers):
    """Numbers that are written in place of the right ones."""

    def put(method, value):
        right = getattr(Writer, method)
        return (Writer, method, lambda self, *args: right(self, value))

    return lambda cls: [put(method, value) for method, value in numbers.items()]


def added(**numbers):
    """Numbers that are written besides."""

    def patches(cls):
        right = cls.set_gguf_parameters

        def wrong(self):
            right(self)
            for method, value in numbers.items():
                getattr(self.gguf_writer, method)(value)

        return [(cls, "set_gguf_parameters", wrong)]

    return patches


def tensors(change):
    """Each tensor as `change(name, tensor)` makes it of what the converter gives, under GGUF's name."""

    def patches(cls):
        right = cls.modify_tensors

        def wrong(self, data, name, bid):
            for new, tensor in right(self, data, name, bid):
                changed = change(self, new, tensor)
                if changed is not None:
                    yield changed

        return [(cls, "modify_tensors", wrong)]

    return patches


def named(a, b):
    """Two tensors, of each layer where they are in layers, under each other's names."""

    def change(_, name, tensor):
        parts = name.split(".")
        parts[-2] = {a: b, b: a}.get(parts[-2], parts[-2])
        return ".".join(parts), tensor

    return tensors(change)


def of(parts, function):
    """A function of the tensors whose names, less the layer, begin with one of these parts."""

    def change(self, name, tensor):
        own = name.split(".", 2)[2] if name.startswith("blk.") else name
        return name, function(self, tensor) if own.startswith(tuple(parts)) else tensor

    return tensors(change)


def layers(by):
    """Layers under the numbers of others."""

    def change(self, name, tensor):
        parts = name.split(".")
        if parts[0] == "blk":
            parts[1] = str((int(parts[1]) + by) % self.block_count)
        return ".".join(parts), tensor

    return tensors(change)


def shifted(_, tensor):
    """Rows one later than their tokens."""
    return torch.cat([tensor[:1], tensor[:-1]])


def stale(self, tensor):
    """A head that training never saw, as checkpoints have that tie it when they are loaded."""
    return torch.randn(tensor.shape, generator=torch.Generator().manual_seed(1)) * 0.02


def stale_head(cls):
    """Tied embeddings, and besides them an old head that is written all the same."""
    right = cls.modify_tensors

    def wrong(self, data, name, bid):
        for new, tensor in right(self, data, name, bid):
            yield new, tensor
            if new == "token_embd.weight":
                yield "output.weight", stale(self, tensor)

    return [(cls, "modify_tensors", wrong)]


def permute(times_q, times_k, heads_of_q=False):
    """Rows of queries and keys reordered as often as this."""

    def patches(cls):
        right = cls.permute

        def wrong(weights, n_head, n_head_kv):
            # The converter gives queries their own number twice.
            for _ in range(times_q if n_head == n_head_kv else times_k):
                weights = right(weights, n_head, n_head if heads_of_q else n_head_kv)
            return weights

        return [(cls, "permute", staticmethod(wrong))]

    return patches


def llama_order(self, tensor):
    """Rows in the order of llama's files, which other architectures do not have; queries have more heads than keys."""
    heads = tensor.shape[0] // self.hparams.get("head_dim", self.hparams["hidden_size"] // self.hparams["num_attention_heads"])
    return tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, *tensor.shape[1:]).swapaxes(1, 2).reshape(tensor.shape)


def raw_qkv(cls):
    """The fused matrix as the checkpoint has it: head by head."""
    base = cls.__mro__[1]
    return [(cls, "modify_tensors", lambda self, data, name, bid: base.modify_tensors(self, data, name, bid))]


def thirds(order):
    """The thirds of the fused matrix in another order."""

    def change(_, tensor):
        parts = tensor.chunk(3)
        return torch.cat([parts[at] for at in order])

    return of(["attn_qkv"], change)


def heads(count, kv, width):
    """Another number of heads of the same width together."""
    return written(
        add_head_count=count,
        add_head_count_kv=kv,
        add_key_length=width,
        add_value_length=width,
        add_rope_dimension_count=width,
    )


def shift_of_norms(shift):
    """What is added to norm weights."""
    return lambda cls: [(cls, "norm_shift", shift)]


ATTENTION = ("attn_q.", "attn_k.")

# For each model: the fault, the repair that names it, and how it is made.
FAULTS = {
    "llama": [
        ("rows of q and k not reordered", "qk-pairing", permute(0, 0)),
        ("rows of q and k reordered twice", "qk-pairing", permute(2, 2)),
        ("rows of q alone reordered", "qk-pairing", permute(1, 0)),
        ("rows of k alone reordered", "qk-pairing", permute(0, 1)),
        ("rows of k reordered with the heads of q", "key-heads", permute(1, 1, heads_of_q=True)),
        ("rope base not written", "rope-base", unwritten("add_rope_freq_base")),
        ("linear scaling written", "rope-scaling", added(add_rope_scaling_type=gguf.RopeScalingType.LINEAR, add_rope_scaling_factor=4.0)),
        ("half of each head rotated", "rope-dimensions", written(add_rope_dimension_count=8)),
        ("twice as many heads", "head-count", heads(8, 4, 8)),
        ("gate and up in each other's place", "swapped-names", named("ffn_gate", "ffn_up")),
        ("keys and values in each other's place", "swapped-names", named("attn_k", "attn_v")),
        ("norms of a layer in each other's place", "swapped-names", named("attn_norm", "ffn_norm")),
        ("embeddings and output in each other's place", "tied-output", named("token_embd", "output")),
        ("attention's output transposed", "transposed", of(["attn_output"], lambda _, tensor: tensor.T.contiguous())),
        ("layers counted from 1", "layer-order", layers(1)),
        ("rows of the vocabulary one off", "vocabulary-shift", of(["token_embd", "output.weight"], shifted)),
        ("epsilon 1e-12", "norm-epsilon", written(add_layer_norm_rms_eps=1e-12)),
    ],
    "gemma3": [
        ("1 not added to norms", "norm-shift", shift_of_norms(lambda self, name: 0.0)),
        ("1 added to norms twice", "norm-shift", shift_of_norms(lambda self, name: 2.0 if name.endswith("norm.weight") else 0.0)),
        ("1 not added to norms of q and k", "norm-shift", shift_of_norms(lambda self, name: 1.0 if name.endswith("norm.weight") and "q_norm" not in name and "k_norm" not in name else 0.0)),
        ("1 not added to the last norm", "norm-shift", shift_of_norms(lambda self, name: 1.0 if name.endswith("norm.weight") and name != "model.norm.weight" else 0.0)),
        ("window not written", "sliding-window", unwritten("add_sliding_window")),
        ("half of the window written", "sliding-window", written(add_sliding_window=16)),
        ("base of windows is the other one", "rope-base-of-windows", written(add_rope_freq_base_swa=1_000_000.0)),
        ("rope base not written", "rope-base", unwritten("add_rope_freq_base")),
        ("embeddings scaled", "embedding-scale", of(["token_embd"], lambda self, tensor: tensor * self.hparams["hidden_size"] ** 0.5)),
        ("norms around attention in each other's place", "swapped-names", named("post_attention_norm", "ffn_norm")),
        ("norms after halves in each other's place", "swapped-names", named("post_attention_norm", "post_ffw_norm")),
        ("norms of q and k in each other's place", "swapped-names", named("attn_q_norm", "attn_k_norm")),
        ("rows of q and k as llama's", "qk-pairing", of(ATTENTION, llama_order)),
    ],
    "qwen2": [
        ("rows of q and k as llama's", "qk-pairing", of(ATTENTION, llama_order)),
        ("biases of q and k as llama's", "qk-pairing", of(("attn_q.bias", "attn_k.bias"), llama_order)),
        ("rope base not written", "rope-base", unwritten("add_rope_freq_base")),
        ("an old head besides tied embeddings", "tied-output", stale_head),
        ("keys and values in each other's place", "swapped-names", named("attn_k", "attn_v")),
        ("gate and up in each other's place", "swapped-names", named("ffn_gate", "ffn_up")),
        ("norm weights less 1", "norm-shift", of(["attn_norm", "ffn_norm", "output_norm"], lambda _, tensor: tensor - 1)),
        ("a window of 32 written", "sliding-window", added(add_sliding_window=32)),
        ("layers counted from 1", "layer-order", layers(1)),
    ],
    "gptneox": [
        ("the fused matrix as it was", "qkv-split", raw_qkv),
        ("the fused matrix as k, q, v", "qkv-split", thirds([1, 0, 2])),
        ("the fused matrix as q, v, k", "qkv-split", thirds([0, 2, 1])),
        ("halves one after the other", "switches", written(add_parallel_residual=False)),
        ("whole heads rotated", "rope-dimensions", written(add_rope_dimension_count=16)),
        ("norms of a layer in each other's place", "swapped-names", named("attn_norm", "ffn_norm")),
        ("attention's output transposed", "transposed", of(["attn_output.weight"], lambda _, tensor: tensor.T.contiguous())),
        ("embeddings and output in each other's place", "tied-output", named("token_embd", "output")),
        ("rows of the output one off", "vocabulary-shift", of(["output.weight"], shifted)),
    ],
}
