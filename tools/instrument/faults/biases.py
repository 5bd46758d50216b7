"""Biases that are forgotten, added twice, or added at the wrong moment."""

from .tools import change, drop, fault, matching, wrap


@fault("qkv-bias-left-out", "does not add the biases of q, k and v",
       "qwen2 stablelm bert gpt2 gptneox gpt-oss qwen2moe glm4 phi2 llama-bias glm4moe distilbert starcoder")
def _(e):
    drop(e, r"attn_(q|k|v|qkv)\.bias")


@fault("k-bias-left-out", "does not add the bias of k", "qwen2 phi2 glm4")
def _(e):
    drop(e, r"attn_k\.bias")


@fault("v-bias-left-out", "does not add the bias of v", "starcoder2 bert stablelm")
def _(e):
    drop(e, r"attn_v\.bias")


@fault("attention-output-bias-left-out", "does not add the bias of attention's output",
       "gpt2 gptneox bert gpt-oss starcoder2 llama-bias")
def _(e):
    drop(e, r"attn_output\.bias")


@fault("ffn-biases-left-out", "does not add the biases of the feed-forward", "gpt2 bert phi2 llama-bias")
def _(e):
    drop(e, r"ffn_(gate|up|down)\.bias")


@fault("ffn-up-bias-left-out", "does not add the bias of ffn_up", "phi2 gptneox bloom")
def _(e):
    drop(e, r"ffn_up\.bias")


@fault("ffn-down-bias-left-out", "does not add the bias of ffn_down", "starcoder2 gptneox bloom roberta")
def _(e):
    drop(e, r"ffn_down\.bias")


@fault("router-bias-left-out", "does not add the router's bias", "gpt-oss")
def _(e):
    drop(e, r"ffn_gate_inp\.bias")


@fault("expert-biases-left-out", "does not add the experts' biases", "gpt-oss")
def _(e):
    drop(e, r"ffn_(gate|up|down)_exps\.bias")


@fault("expert-down-bias-left-out", "does not add the bias of the experts' last matrix", "gpt-oss")
def _(e):
    drop(e, r"ffn_down_exps\.bias")


@fault("expert-bias-not-weighted", "adds the bias of an expert's last matrix behind its weight", "gpt-oss")
def _(e):
    kept = {name: e.w[name] for name in matching(e, r"ffn_down_exps\.bias")}
    drop(e, r"ffn_down_exps\.bias")

    def mixture(inner, il, x, top):
        e.top = top
        return inner(il, x, top)

    def add_up(il, outputs, weights):
        bias = kept[f"blk.{il}.ffn_down_exps.bias"][e.top]
        return e.keep(f"ffn_moe_weighted-{il}", outputs * weights[..., None] + bias).sum(1)
    wrap(e, "experts", mixture)
    e.add_up = add_up


@fault("head-bias-left-out", "does not add the bias of the logits", "phi2")
def _(e):
    del e.w["output.bias"]


@fault("qkv-bias-twice", "adds the biases of q, k and v twice", "qwen2 bert gpt2")
def _(e):
    change(e, r"attn_(q|k|v|qkv)\.bias", lambda b: 2 * b)


@fault("qk-bias-after-rope", "rotates q and k first and adds their biases then", "qwen2 stablelm starcoder2")
def _(e):
    kept = {name: e.w[name] for name in matching(e, r"attn_[qk]\.bias")}
    drop(e, r"attn_[qk]\.bias")

    def rotate(inner, il, x, positions, part):
        return inner(il, x, positions, part) + kept[f"blk.{il}.attn_{part}.bias"].reshape(x.shape[1:])
    wrap(e, "rotate", rotate)


@fault("bias-of-wrong-layer", "adds the biases of the first layer in all layers", "qwen2 gpt2")
def _(e):
    for name in matching(e, r"attn_(q|k|v|qkv)\.bias"):
        e.w[name] = e.w["blk.0." + name.split(".", 2)[2]]
