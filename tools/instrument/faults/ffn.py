"""Feed-forward: activation functions and gates."""

import numpy as np

from engine.parts import ACTIVATIONS, sigmoid

from .tools import fault


def activation(id, says, name, wirings):
    """Register a fault that takes another activation function."""
    @fault(id, says, wirings)
    def _(e):
        e.activation = name


activation("gelu-for-silu", "takes GELU for SiLU", "gelu", "llama qwen2 mixtral deepseek2-v2 ernie falcon-h1")
activation("silu-for-gelu", "takes SiLU for GELU", "silu", "gemma2 gpt2 bert falcon jina-bert-v2")
activation("relu-for-gelu", "takes ReLU for GELU", "relu", "gpt2 starcoder2 modernbert")
activation("relu-for-silu", "takes ReLU for SiLU", "relu", "llama granite")
activation("quick-gelu-for-gelu", "takes x * sigmoid(1.702 x) for GELU", "gelu-quick", "gpt2 bert gemma3 phi2")
activation("quick-gelu-for-silu", "takes x * sigmoid(1.702 x) for SiLU", "gelu-quick", "phi3 stablelm")
activation("relu-not-squared", "does not square the ReLU", "relu", "nemotron nemotron-h")
activation("silu-for-squared-relu", "takes SiLU for the squared ReLU", "silu", "nemotron")
activation("sigmoid-for-silu", "takes the sigmoid alone for SiLU", "sigmoid", "qwen3 glm4 mixtral")
activation("tanh-for-silu", "takes tanh for SiLU", "tanh", "command-r")
activation("activation-left-out", "applies no activation function", "none", "llama gpt2 bert qwen3moe")


@fault("up-activated-in-place-of-gate", "applies the activation to up and multiplies with the gate",
       "llama gemma3 qwen2 mixtral")
def _(e):
    e.gate_up = lambda gate, up: e.act(up) * gate


@fault("up-left-out", "takes the activated gate without up", "llama gemma2 granite gemma nomic-bert")
def _(e):
    e.gate_up = lambda gate, up: e.act(gate)


@fault("gate-left-out", "takes up without the gate", "granite qwen3")
def _(e):
    e.gate_up = lambda gate, up: up


@fault("gate-not-multiplied-but-added", "adds the activated gate to up", "qwen2 phi3")
def _(e):
    e.gate_up = lambda gate, up: e.act(gate) + up


@fault("both-activated", "applies the activation to gate and up", "llama gemma2")
def _(e):
    e.gate_up = lambda gate, up: e.act(gate) * e.act(up)


@fault("product-activated", "applies the activation to the product of gate and up", "glm4 llama")
def _(e):
    e.gate_up = lambda gate, up: e.act(gate * up)


@fault("gate-clipped-at-one", "cuts the gate off at 1", "stablelm phi3")
def _(e):
    e.gate_up = lambda gate, up: e.act(np.minimum(gate, 1)) * up


@fault("up-shift-left-out", "does not add 1 to up in the experts", "gpt-oss")
def _(e):
    e.shift = 0.0


@fault("alpha-of-one", "gates the experts with the plain SiLU", "gpt-oss")
def _(e):
    e.alpha = 1.0


@fault("clamp-left-out", "does not clamp the experts' gate and up", "gpt-oss-large")
def _(e):
    e.limit = np.inf


@fault("clamp-of-one", "clamps the experts' gate and up at 1", "gpt-oss")
def _(e):
    e.limit = 1.0


@fault("expert-activation-of-llama", "computes the experts as silu(gate) * up", "gpt-oss")
def _(e):
    e.expert_gate = lambda gate, up: ACTIVATIONS["silu"](gate) * up


@fault("alpha-on-the-input-too", "multiplies the gate with alpha before its sigmoid and behind it", "gpt-oss")
def _(e):
    def gated(gate, up):
        gate, up = np.minimum(gate, e.limit), np.clip(up, -e.limit, e.limit)
        scaled = np.asarray(e.alpha, gate.dtype) * gate
        return (up + np.asarray(e.shift, up.dtype)) * scaled * sigmoid(scaled)
    e.expert_gate = gated


@fault("shift-on-the-gate", "adds 1 to the gate in place of up", "gpt-oss")
def _(e):
    def gated(gate, up):
        gate, up = np.minimum(gate, e.limit), np.clip(up, -e.limit, e.limit)
        return up * (gate * sigmoid(np.asarray(e.alpha, gate.dtype) * gate) + 1)
    e.expert_gate = gated
