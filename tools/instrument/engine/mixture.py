"""Mixtures of experts: routers, weights of the chosen, single and shared experts."""

import numpy as np

from .parts import sigmoid, softmax


class Mixture:
    """The mixture of a transformer block."""

    def set_up_mixture(self):
        """Read what the file says of its experts."""
        f = self.file
        self.used = f.get("expert_used_count", 0)
        self.gating = {1: "softmax", 2: "sigmoid"}[f.get("expert_gating_func", 1)]
        self.normalize_weights = f.get("expert_weights_norm", False)
        self.weights_scale = f.get("expert_weights_scale", 1.0)
        self.groups, self.groups_used = f.get("expert_group_count", 1), f.get("expert_group_used_count", 1)
        self.expert_act_name = "ffn_moe_swiglu"

    def mixture(self, il, x):
        """Return the weighted sum of the chosen experts, and the shared expert's."""
        probs = self.route(il, x)
        top = self.choose(il, self.selection(il, probs))
        self.keep(f"ffn_moe_topk-{il}", top)
        weights = self.keep(f"ffn_moe_weights-{il}", self.weigh(probs, top))
        out = self.keep(f"ffn_moe_out-{il}", self.add_up(il, self.experts(il, x, top), weights))
        if f"blk.{il}.ffn_up_shexp.weight" not in self.w:
            return out
        return self.keep(f"ffn_out-{il}", out + self.shared(il, x))

    def route(self, il, x):
        """Return what the router thinks of each expert."""
        p = f"blk.{il}.ffn_gate_inp"
        logits = self.keep(f"ffn_moe_logits-{il}", self.arith.dot(x, self.w[p + ".weight"]))
        if p + ".bias" in self.w:
            logits = self.keep(f"ffn_moe_logits_biased-{il}", logits + self.w[p + ".bias"])
        return self.keep(f"ffn_moe_probs-{il}", self.gate_logits(logits))

    def gate_logits(self, logits):
        """Turn a router's logits into probabilities; a softmax over the chosen alone comes later."""
        return {"softmax": softmax, "sigmoid": sigmoid, "softmax-of-chosen": lambda x: x}[self.gating](logits)

    def selection(self, il, probs):
        """Return the numbers by which experts are chosen."""
        bias = self.w.get(f"blk.{il}.exp_probs_b.bias")
        return probs if bias is None else self.keep(f"ffn_moe_probs_biased-{il}", probs + bias)

    def choose(self, il, selection):
        """Return the best experts of each token, of the best groups only where there are groups."""
        if self.groups > 1:
            groups = selection.reshape(len(selection), self.groups, -1)
            best = np.argsort(-np.sort(groups, -1)[..., -2:].sum(-1), -1, kind="stable")[:, :self.groups_used]
            allowed = np.zeros(groups.shape[:2], bool)
            np.put_along_axis(allowed, best, True, -1)
            selection = np.where(allowed[..., None], groups, -np.inf).reshape(selection.shape)
        return np.argsort(-selection, -1, kind="stable")[:, :self.used]

    def weigh(self, probs, top):
        """Return the weight of each chosen expert."""
        w = np.take_along_axis(probs, top, -1)
        if self.gating == "softmax-of-chosen":
            w = softmax(w)
        if self.normalize_weights:
            w = w / w.sum(-1, keepdims=True)
        return w * np.asarray(self.weights_scale, w.dtype)

    def experts(self, il, x, top):
        """Return the outputs of each token's experts, [tokens, used, width]."""
        gate = self.keep(f"ffn_moe_gate-{il}", self.expert_linear(il, "ffn_gate_exps", x[:, None], top))
        up = self.keep(f"ffn_moe_up-{il}", self.expert_linear(il, "ffn_up_exps", x[:, None], top))
        hidden = self.keep(f"{self.expert_act_name}-{il}", self.expert_gate(gate, up))
        return self.keep(f"ffn_moe_down-{il}", self.expert_linear(il, "ffn_down_exps", hidden, top))

    def expert_linear(self, il, part, x, top):
        """Multiply each token's row, or its row for each expert, with the matrices of its experts."""
        name = f"blk.{il}.{part}"
        rows = np.broadcast_to(x, top.shape + x.shape[-1:])
        y = self.arith.out(self.arith.dot(rows[..., None, :], self.w[name + ".weight"][top])[..., 0, :])
        bias = self.w.get(name + ".bias")
        return y if bias is None else y + bias[top]

    def expert_gate(self, gate, up):
        """Apply an expert's activation."""
        return self.gate_up(gate, up)

    def add_up(self, il, outputs, weights):
        """Weigh the outputs and add them."""
        return self.keep(f"ffn_moe_weighted-{il}", outputs * weights[..., None]).sum(1)

    def shared(self, il, x):
        """Return the shared expert's output, gated where the file has a gate for it."""
        p = f"blk.{il}."
        gate = self.keep(f"ffn_gate-{il}", self.linear(p + "ffn_gate_shexp", x))
        up = self.keep(f"ffn_up-{il}", self.linear(p + "ffn_up_shexp", x))
        hidden = self.keep(f"{self.act_name}-{il}", self.gate_up(gate, up))
        y = self.keep(f"ffn_shexp-{il}", self.linear(p + "ffn_down_shexp", hidden))
        if p + "ffn_gate_inp_shexp.weight" not in self.w:
            return y
        share = self.shared_gate(il, self.arith.dot(x, self.w[p + "ffn_gate_inp_shexp.weight"].reshape(1, -1)))
        return self.keep(f"{self.shared_name}-{il}", y * share)

    shared_name = "ffn_shexp_out"

    def shared_gate(self, il, logit):
        """Squash the shared expert's gate."""
        return sigmoid(logit)
