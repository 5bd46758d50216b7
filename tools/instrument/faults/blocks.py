"""Blocks put together in another order, and residual connections."""

import numpy as np

from .tools import drop, fault, wrap


@fault("sequential-for-parallel", "runs attention and feed-forward one behind the other",
       "gptneox command-r falcon phi2 cohere2")
def _(e):
    def block(il, x, positions):
        x = e.add(x, e.mixer(il, e.pre_norm(il, x), positions))
        name = "ffn_norm" if f"blk.{il}.ffn_norm.weight" in e.w else "attn_norm"
        return e.keep(f"l_out-{il}", e.add(x, e.ffn(il, e.norm(f"blk.{il}.{name}", x))))
    e.parallel_block = block


@fault("parallel-for-sequential", "gives attention and feed-forward the same input",
       "stablelm llama gptneox-seq nemotron")
def _(e):
    e.parallel = True


@fault("one-norm-for-both", "gives the feed-forward the norm that attention has", "gptneox falcon-40b")
def _(e):
    if e.file.arch == "falcon":
        wrap(e, "pre_norm", lambda inner, il, x: [inner(il, x), e.for_ffn][1])
    else:
        drop(e, r"ffn_norm\.(weight|bias)")


@fault("parallel-norms-exchanged", "gives attention the norm of the feed-forward, and the reverse",
       "gptneox falcon-40b")
def _(e):
    other = "attn_norm_2" if e.file.arch == "falcon" else "ffn_norm"
    for il in range(e.layers):
        for kind in ("weight", "bias"):
            a, b = f"blk.{il}.attn_norm.{kind}", f"blk.{il}.{other}.{kind}"
            e.w[a], e.w[b] = e.w[b], e.w[a]


@fault("attention-residual-left-out", "does not add attention's output to the stream but replaces it",
       "llama gpt2 qwen2moe")
def _(e):
    def block(il, x, positions):
        x = e.keep(f"{e.names['ffn_inp']}-{il}", e.mixer(il, e.pre_norm(il, x), positions))
        return e.keep(f"l_out-{il}", x + e.ffn(il, e.ffn_norm(il, x)))
    e.sequential_block = block


@fault("ffn-residual-left-out", "hands on the feed-forward's output without the stream",
       "qwen2 gemma2 mixtral stablelm")
def _(e):
    def block(il, x, positions):
        a = e.post_norm(il, e.mixer(il, e.pre_norm(il, x), positions), "post_attention_norm", "attn_post")
        x = e.keep(f"{e.names['ffn_inp']}-{il}", x + a)
        y = e.post_norm(il, e.ffn(il, e.ffn_norm(il, x)), "post_ffw_norm", "ffn_post")
        return e.keep(f"l_out-{il}", y)
    e.sequential_block = block


@fault("ffn-added-to-block-input", "adds the feed-forward's output to the stream before attention", "llama glm4")
def _(e):
    def block(il, x, positions):
        a = e.post_norm(il, e.mixer(il, e.pre_norm(il, x), positions), "post_attention_norm", "attn_post")
        middle = e.keep(f"{e.names['ffn_inp']}-{il}", x + a)
        y = e.post_norm(il, e.ffn(il, e.ffn_norm(il, middle)), "post_ffw_norm", "ffn_post")
        return e.keep(f"l_out-{il}", x + y)
    e.sequential_block = block


@fault("attention-added-twice", "adds attention's output in the middle and at the end of a block", "qwen3 phi3")
def _(e):
    def block(il, x, positions):
        a = e.mixer(il, e.pre_norm(il, x), positions)
        x = e.keep(f"{e.names['ffn_inp']}-{il}", x + a)
        return e.keep(f"l_out-{il}", x + e.ffn(il, e.ffn_norm(il, x)) + a)
    e.sequential_block = block


@fault("parallel-attention-not-added", "adds the feed-forward of a parallel block and not its attention",
       "gptneox command-r")
def _(e):
    def block(il, x, positions):
        h = e.pre_norm(il, x)
        e.mixer(il, h, positions)
        y = e.ffn(il, e.ffn_norm(il, x) if f"blk.{il}.ffn_norm.weight" in e.w else h)
        return e.keep(f"l_out-{il}", x + y)
    e.parallel_block = block


@fault("residual-scale-left-out", "adds what blocks compute without its scale",
       "granite minicpm granitemoe granitehybrid")
def _(e):
    e.residual_scale = None


@fault("residual-scale-on-the-stream", "scales the sum in place of what is added", "granite minicpm")
def _(e):
    e.add = lambda x, y: (x + y) * np.asarray(e.residual_scale, x.dtype)


@fault("residual-scale-on-attention-only", "scales attention's output and not the feed-forward's", "granite")
def _(e):
    wrap(e, "ffn", lambda inner, il, x: inner(il, x) / np.asarray(e.residual_scale, x.dtype))


@fault("last-layer-left-out", "stops one layer early", "llama gpt2 mamba rwkv6 lfm2")
def _(e):
    e.layers -= 1


@fault("layers-in-reverse", "runs the layers from the last to the first", "qwen2")
def _(e):
    wrap(e, "layer", lambda inner, il, x, positions: inner(e.layers - 1 - il, x, positions))
