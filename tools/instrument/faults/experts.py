"""Mixtures: routers, choices, weights, shared experts."""

import numpy as np

from engine.parts import sigmoid, softmax

from .tools import drop, fault, wrap


@fault("expert-weights-not-normalized", "does not divide the chosen weights by their sum",
       "mixtral qwen3moe granitemoe deepseek2-v3 glm4moe lfm2moe minimax-m2 ernie-moe dbrx")
def _(e):
    e.normalize_weights = False


@fault("expert-weights-normalized", "divides the chosen weights by their sum where the wiring does not",
       "qwen2moe deepseek2-v2 jamba olmoe")
def _(e):
    e.normalize_weights = True


@fault("softmax-over-all-experts", "takes the softmax over all experts where it is over the chosen", "gpt-oss")
def _(e):
    e.gating = "softmax"


@fault("router-by-sigmoid", "turns the router's logits into weights by the sigmoid", "mixtral qwen3moe qwen2moe")
def _(e):
    e.gating = "sigmoid"


@fault("router-by-softmax", "turns the router's logits into weights by the softmax where it is the sigmoid",
       "deepseek2-v3 glm4moe minimax-m2 lfm2moe")
def _(e):
    e.gating = "softmax"


@fault("second-and-third-expert", "leaves the best expert out and takes the next ones",
       "mixtral qwen2moe gpt-oss deepseek2-v2 dbrx olmoe ernie-moe")
def _(e):
    e.choose = lambda il, s: np.argsort(-s, -1, kind="stable")[:, 1:e.used + 1]


@fault("worst-experts", "takes the experts with the smallest weights", "mixtral granitemoe")
def _(e):
    e.choose = lambda il, s: np.argsort(s, -1, kind="stable")[:, :e.used]


@fault("first-experts-always", "takes the first experts whatever the router says", "qwen3moe jamba")
def _(e):
    e.choose = lambda il, s: np.tile(np.arange(e.used), (len(s), 1))


@fault("one-expert-fewer", "takes one expert less than the file says", "qwen3moe mixtral")
def _(e):
    e.used -= 1


@fault("one-expert-more", "takes one expert more than the file says", "qwen2moe granitemoe")
def _(e):
    e.used += 1


@fault("weights-of-other-experts", "weighs each chosen expert with the weight of the other",
       "mixtral qwen3moe deepseek2-v2 gpt-oss glm4moe dbrx")
def _(e):
    wrap(e, "add_up", lambda inner, il, out, w: inner(il, out, w[:, ::-1]))


@fault("experts-all-weighted-alike", "gives all chosen experts the same weight", "mixtral qwen3moe")
def _(e):
    wrap(e, "weigh", lambda inner, probs, top: np.full_like(inner(probs, top), 1 / e.used))


@fault("experts-not-weighted", "adds the chosen experts without weights", "granitemoe qwen2moe")
def _(e):
    wrap(e, "weigh", lambda inner, probs, top: np.ones_like(inner(probs, top)))


@fault("best-expert-alone-added", "adds the best expert with its weight and drops the others", "mixtral gpt-oss")
def _(e):
    wrap(e, "add_up", lambda inner, il, out, w: inner(il, out[:, :1], w[:, :1]))


@fault("weights-of-logits", "weighs the chosen experts with the router's logits", "mixtral granitemoe")
def _(e):
    logits = {}

    def dot(inner, x):
        logits["last"] = x
        return inner(x)
    wrap(e, "gate_logits", dot)
    e.weigh = lambda probs, top: np.take_along_axis(logits["last"], top, -1)


@fault("weights-squared", "multiplies with the weights before and behind the experts", "qwen2moe gpt-oss")
def _(e):
    wrap(e, "add_up", lambda inner, il, out, w: inner(il, out, w * w))


@fault("weights-inside-the-experts", "multiplies the experts' input with the weights, as Llama 4 does",
       "mixtral qwen3moe")
def _(e):
    def experts(inner, il, x, top):
        return inner_with(il, x, top)

    def inner_with(il, x, top):
        rows = x[:, None] * e.last_weights[..., None]
        gate = e.keep(f"ffn_moe_gate-{il}", e.expert_linear(il, "ffn_gate_exps", rows, top))
        up = e.keep(f"ffn_moe_up-{il}", e.expert_linear(il, "ffn_up_exps", rows, top))
        hidden = e.keep(f"{e.expert_act_name}-{il}", e.expert_gate(gate, up))
        return e.keep(f"ffn_moe_down-{il}", e.expert_linear(il, "ffn_down_exps", hidden, top))

    def weigh(inner, probs, top):
        e.last_weights = inner(probs, top)
        return e.last_weights
    wrap(e, "experts", experts)
    wrap(e, "weigh", weigh)
    e.add_up = lambda il, out, w: e.keep(f"ffn_moe_weighted-{il}", out).sum(1)


@fault("shared-expert-left-out", "does not add the shared expert",
       "qwen2moe deepseek2-v2 qwen3next glm4moe ernie-moe llama4 granitehybrid")
def _(e):
    e.shared = lambda il, x: np.zeros_like(x)


@fault("shared-gate-left-out", "adds the shared expert without its gate", "qwen2moe qwen3next")
def _(e):
    drop(e, r"ffn_gate_inp_shexp\.weight")


@fault("shared-gate-not-squashed", "multiplies the shared expert with its gate's logit", "qwen2moe qwen3next")
def _(e):
    e.shared_gate = lambda il, logit: logit


@fault("shared-gate-by-silu", "multiplies the shared expert with the SiLU of its gate", "qwen2moe")
def _(e):
    e.shared_gate = lambda il, logit: logit * sigmoid(logit)


@fault("shared-expert-scaled-too", "scales the shared expert as the routed ones", "deepseek2-v2 deepseek2-v3")
def _(e):
    wrap(e, "shared", lambda inner, il, x: inner(il, x) * np.asarray(e.weights_scale, x.dtype))


@fault("shared-expert-of-the-stream", "gives the shared expert the stream without its norm", "qwen2moe deepseek2-v2")
def _(e):
    wrap(e, "shared", lambda inner, il, x: inner(il, e.stream))
    wrap(e, "ffn_norm", lambda inner, il, x: [setattr(e, "stream", x), inner(il, x)][1])


@fault("bias-inside-the-weights", "weighs experts with the numbers by which they were chosen, bias and all",
       "deepseek2-v3 glm4moe ernie-moe")
def _(e):
    def selection(inner, il, probs):
        e.biased = inner(il, probs)
        return e.biased
    wrap(e, "selection", selection)
    wrap(e, "weigh", lambda inner, probs, top: inner(e.biased, top))


@fault("choice-bias-left-out", "chooses experts without the correction bias",
       "deepseek2-v3 glm4moe lfm2moe minimax-m2 ernie-moe")
def _(e):
    drop(e, r"exp_probs_b\.bias")


@fault("routed-scale-left-out", "does not scale the routed experts", "deepseek2-v2 deepseek2-v3 deepseek2-lite glm4moe")
def _(e):
    e.weights_scale = 1.0


@fault("routed-scale-squared", "scales the routed experts twice", "deepseek2-v3")
def _(e):
    e.weights_scale **= 2


@fault("expert-groups-left-out", "chooses among all experts though groups come first", "deepseek2-v3")
def _(e):
    e.groups = 1


@fault("groups-judged-by-best-expert", "judges a group by its best expert, not by its best two", "deepseek2-v3")
def _(e):
    def choose(il, s):
        groups = s.reshape(len(s), e.groups, -1)
        best = np.argsort(-groups.max(-1), -1, kind="stable")[:, :e.groups_used]
        allowed = np.zeros(groups.shape[:2], bool)
        np.put_along_axis(allowed, best, True, -1)
        left = np.where(allowed[..., None], groups, -np.inf).reshape(s.shape)
        return np.argsort(-left, -1, kind="stable")[:, :e.used]
    e.choose = choose


@fault("one-group-alone", "chooses experts of the best group only", "deepseek2-v3")
def _(e):
    e.groups_used = 1


@fault("router-before-the-norm", "gives the router the stream without its norm", "mixtral qwen3moe")
def _(e):
    wrap(e, "ffn_norm", lambda inner, il, x: [setattr(e, "stream", x), inner(il, x)][1])
    wrap(e, "route", lambda inner, il, x: inner(il, e.stream))


@fault("router-bias-for-choice-only", "adds the router's bias for the choice and not for the weights", "gpt-oss")
def _(e):
    def weigh(probs, top):
        plain = probs - e.w[f"blk.{e.at}.ffn_gate_inp.bias"]
        return softmax(np.take_along_axis(plain, top, -1))
    wrap(e, "route", lambda inner, il, x: [setattr(e, "at", il), inner(il, x)][1])
    e.weigh = weigh


@fault("router-logits-in-quarters", "rounds the router's logits to quarters", "mixtral qwen3moe")
def _(e):
    wrap(e, "gate_logits", lambda inner, x: inner(np.round(x * 4) / 4))


@fault("softmax-twice-in-the-router", "takes the softmax of the router's softmax", "qwen2moe jamba")
def _(e):
    wrap(e, "gate_logits", lambda inner, x: softmax(inner(x)))
