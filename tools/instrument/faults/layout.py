"""Matrices read in another order than they were written in."""

import numpy as np

from .tools import change, fault, matching, wrap

MATRICES = r"(attn|ffn|ssm)_(q|k|v|qkv|output|gate|up|down|in|out|x)\.weight"


def column_order(w):
    """Read memory that holds [out, in] as [in, out]."""
    return w.reshape(*w.shape[:-2], w.shape[-1], w.shape[-2]).swapaxes(-1, -2)


@fault("matrices-in-column-order", "reads every matrix of the layers as [in, out] in memory",
       "llama qwen3 gemma2 bert mamba llama-q8_0 glm4 deepseek2-v2 dbrx")
def _(e):
    change(e, MATRICES, column_order)


@fault("ffn-down-in-column-order", "reads the matrix of ffn_down as [in, out] in memory", "llama phi3 gpt2 gemma3")
def _(e):
    change(e, r"ffn_down\.weight", column_order)


@fault("square-matrix-transposed", "multiplies with the transpose of the attention's output matrix",
       "llama qwen2 gpt2 gptneox bert")
def _(e):
    change(e, r"attn_output\.weight", lambda w: w.T)


@fault("conv1d-taken-for-linear", "transposes GPT-2's matrices once too often", "gpt2")
def _(e):
    change(e, r"(attn_qkv|attn_output|ffn_up|ffn_down)\.weight", column_order)


@fault("experts-in-column-order", "reads the matrix of each expert as [in, out] in memory", "mixtral gpt-oss qwen3moe")
def _(e):
    change(e, r"ffn_(gate|up|down)_exps\.weight", column_order)


@fault("embedding-in-column-order", "reads the embedding as [width, tokens] in memory", "llama gemma3 command-r")
def _(e):
    e.w["token_embd.weight"] = column_order(e.w["token_embd.weight"])


def split_by_head(e, qkv):
    """Take q, k and v from each head in turn, though they lie one behind the other."""
    parts = qkv.reshape(len(qkv), e.heads, 3, -1)
    return tuple(parts[:, :, i].reshape(len(qkv), -1) for i in range(3))


@fault("qkv-split-by-head", "splits a fused q/k/v product head by head, as GPT-NeoX's own files have it",
       "gptneox gpt2 bloom mpt nomic-bert")
def _(e):
    e.split_qkv = lambda il, qkv: split_by_head(e, qkv)


@fault("qkv-split-by-group", "splits a fused q/k/v product by group of heads, as Falcon's own files have it",
       "falcon-40b phi3")
def _(e):
    def split(il, qkv):
        groups = qkv.reshape(len(qkv), e.kv_heads[il], -1, e.head_dim)
        return tuple(part.reshape(len(qkv), -1) for part in (groups[:, :, :-2], groups[:, :, -2], groups[:, :, -1]))
    e.split_qkv = split


@fault("q-and-k-exchanged", "takes k for q and q for k in a fused product", "gpt2 gptneox mpt")
def _(e):
    wrap(e, "split_qkv", lambda split, il, x: [split(il, x)[i] for i in (1, 0, 2)])


@fault("k-and-v-exchanged", "takes v for k and k for v in a fused product", "gpt2 phi3 falcon bloom dbrx starcoder")
def _(e):
    wrap(e, "split_qkv", lambda split, il, x: [split(il, x)[i] for i in (0, 2, 1)])


@fault("v-before-q", "takes the first third of a fused product for v", "gpt2 gptneox")
def _(e):
    wrap(e, "split_qkv", lambda split, il, x: [split(il, x)[i] for i in (1, 2, 0)])


@fault("k-and-v-matrices-exchanged", "loads the matrices of k and v each in the other's place", "llama qwen2 gemma2")
def _(e):
    for name in matching(e, r"attn_k\.(weight|bias)"):
        other = name.replace("attn_k", "attn_v")
        e.w[name], e.w[other] = e.w[other], e.w[name]


@fault("fused-gate-and-up-exchanged", "takes the second half of a fused product for the gate", "phi3 glm4 modernbert")
def _(e):
    wrap(e, "split_gate_up", lambda split, x: split(x)[::-1])


@fault("fused-gate-and-up-interleaved", "takes every other number of a fused product for the gate", "phi3 glm4")
def _(e):
    e.split_gate_up = lambda x: (x[..., 0::2], x[..., 1::2])


def reorder_rows(e, part, order):
    """Reorder the rows of each head of q or k."""
    def edit(w):
        return w.reshape(-1, e.head_dim, *w.shape[1:])[:, order].reshape(w.shape)
    change(e, rf"attn_{part}\.weight", edit)


@fault("rows-not-paired", "loads q and k in the order of halves and turns interleaved pairs", "llama granite mixtral")
def _(e):
    order = np.concatenate([np.arange(0, e.head_dim, 2), np.arange(1, e.head_dim, 2)])
    reorder_rows(e, "q", order)
    reorder_rows(e, "k", order)


@fault("rows-paired-twice", "reorders the rows of q and k for interleaved pairs a second time", "llama minicpm")
def _(e):
    order = np.arange(e.head_dim).reshape(2, -1).T.reshape(-1)
    reorder_rows(e, "q", order)
    reorder_rows(e, "k", order)


@fault("only-q-rows-paired", "reorders the rows of q for interleaved pairs a second time, and not those of k",
       "llama granite")
def _(e):
    reorder_rows(e, "q", np.arange(e.head_dim).reshape(2, -1).T.reshape(-1))


@fault("heads-cut-across", "cuts a row into [head width, heads] in place of [heads, head width]",
       "llama gpt2 bert phi3")
def _(e):
    def cut(project, il, x):
        return [part.reshape(len(x), part.shape[2], part.shape[1]).swapaxes(1, 2) for part in project(il, x)]
    wrap(e, "project", cut)


@fault("heads-not-moved-back", "joins the heads' outputs without moving the tokens to the front",
       "qwen2 gpt2 stablelm bert")
def _(e):
    def join(attend, il, q, k, v, positions, at):
        o = attend(il, q, k, v, positions, at)
        return o.reshape(len(q), q.shape[1], -1).swapaxes(0, 1).reshape(len(q), -1)
    wrap(e, "attend", join)


@fault("layers-exchanged", "gives the last two layers each the other's feed-forward", "llama qwen3 bert")
def _(e):
    a, b = f"blk.{e.layers - 2}.", f"blk.{e.layers - 1}."
    for name in [n for n in e.w if n.startswith(a + "ffn_")]:
        other = b + name[len(a):]
        e.w[name], e.w[other] = e.w[other], e.w[name]


@fault("experts-shifted", "uses the matrices of the next expert", "mixtral qwen2moe deepseek2-v2")
def _(e):
    change(e, r"ffn_(gate|up|down)_exps\.weight", lambda w: np.roll(w, -1, 0))


@fault("expert-gate-and-up-exchanged", "loads the experts' gate in the place of up and up in that of the gate",
       "mixtral gpt-oss llama4 dbrx")
def _(e):
    for name in matching(e, r"ffn_gate_exps\.(weight|bias)"):
        other = name.replace("gate", "up")
        e.w[name], e.w[other] = e.w[other], e.w[name]


def zero_tail(w, fraction):
    """Zero all elements from a fraction of the tensor on."""
    flat = w.reshape(-1).copy()
    flat[int(fraction * flat.size):] = 0
    return flat.reshape(w.shape)


def register_tails():
    """Register tensors that were loaded up to a fraction."""
    places = {12: ("ffn_up", "llama gpt2 nemotron"), 31: ("attn_q", "qwen2 gemma2"), 39: ("ffn_down", "qwen3 stablelm"),
              47: ("attn_output", "llama granite"), 83: ("ffn_down", "llama bert")}
    for percent, (part, wirings) in places.items():
        @fault(f"tensor-zero-from-{percent}-percent", f"has only the first {percent} % of the elements of {part}",
               wirings)
        def _(e, part=part, percent=percent):
            change(e, part + r"\.weight", lambda w: zero_tail(w, percent / 100))
    for percent, wirings in {12: "llama-q8_0", 39: "llama-q4_0 llama-q8_0", 47: "llama-q4_k llama-q8_0"}.items():
        @fault(f"bytes-zero-from-{percent}-percent", f"has only the first {percent} % of the bytes of each matrix",
               wirings)
        def _(e, percent=percent):
            def cut(data):
                data[int(percent / 100 * data.size):] = 0
            for name in matching(e, MATRICES):
                e.w[name] = e.file.with_bytes(name, cut).astype(e.w[name].dtype)


register_tails()


def edit_blocks(e, kind, size, edit):
    """Edit the bytes of all matrices of one quantized type, block by block."""
    names = [n for n in matching(e, MATRICES) if e.file.raw[n].tensor_type.name == kind]
    if not names:
        raise LookupError(kind)
    for name in names:
        e.w[name] = e.file.with_bytes(name, lambda data: edit(data.reshape(-1, size))).astype(e.w[name].dtype)


@fault("nibbles-exchanged", "takes the high half of each byte of Q4_0 first", "llama-q4_0")
def _(e):
    def edit(blocks):
        blocks[:, 2:] = (blocks[:, 2:] >> 4) | (blocks[:, 2:] << 4)
    edit_blocks(e, "Q4_0", 18, edit)


@fault("nibbles-side-by-side", "takes the two halves of a byte of Q4_0 for neighbours", "llama-q4_0")
def _(e):
    def edit(blocks):
        data = blocks[:, 2:]
        numbers = np.stack([data & 15, data >> 4], -1).reshape(len(data), 32)
        blocks[:, 2:] = numbers[:, :16] | (numbers[:, 16:] << 4)
    edit_blocks(e, "Q4_0", 18, edit)


@fault("zero-point-missing", "does not subtract 8 from the numbers of Q4_0", "llama-q4_0")
def _(e):
    for name in matching(e, MATRICES):
        scale = np.array(e.file.raw[name].data).reshape(-1, 18)[:, :2].copy().view(np.float16).astype(np.float64)
        blocks = e.w[name].reshape(-1, 32) + 8 * scale
        e.w[name] = blocks.reshape(e.w[name].shape).astype(e.w[name].dtype)


@fault("minima-missing", "leaves out the minima of Q4_K", "llama-q4_k")
def _(e):
    def edit(blocks):
        blocks[:, 2:4] = 0
    edit_blocks(e, "Q4_K", 144, edit)


@fault("q8-signs-lost", "takes the numbers of Q8_0 for unsigned", "llama-q8_0")
def _(e):
    for name in matching(e, MATRICES):
        blocks = np.array(e.file.raw[name].data).reshape(-1, 34)
        scale = blocks[:, :2].copy().view(np.float16).astype(np.float64)
        e.w[name] = (blocks[:, 2:].astype(np.float64) * scale).reshape(e.w[name].shape).astype(e.w[name].dtype)
