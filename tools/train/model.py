"""The built-in model: a small `llama` (RMSNorm, interleaved RoPE, grouped-query
attention, SwiGLU, tied embeddings) in plain PyTorch.

The names of the parameters follow GGUF, so that export.py is a straight copy.
"""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab: int = 2048
    context: int = 512
    dim: int = 192
    layers: int = 6
    heads: int = 6
    kv_heads: int = 3
    ffn: int = 512
    rope_base: float = 10000.0
    eps: float = 1e-5

    @property
    def head_dim(self):
        return self.dim // self.heads


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * self.weight).to(x.dtype)


def rope_tables(cfg):
    """cos and sin, [context, head_dim / 2]."""
    pair = torch.arange(cfg.head_dim // 2, dtype=torch.float32)
    freq = cfg.rope_base ** (-2.0 * pair / cfg.head_dim)
    angle = torch.outer(torch.arange(cfg.context, dtype=torch.float32), freq)
    return angle.cos(), angle.sin()


def rope(x, cos, sin):
    """Rotate the pairs (2i, 2i+1) of the last axis; x is [batch, position, head, head_dim]."""
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    c, s = cos[None, :, None, :], sin[None, :, None, :]
    return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2).to(x.dtype)


def future(new, total):
    """True where one of the `new` last positions of `total` must not look."""
    return torch.ones(new, total, dtype=torch.bool).triu(total - new + 1)


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        kv = cfg.kv_heads * cfg.head_dim
        self.attn_norm = RMSNorm(cfg.dim, cfg.eps)
        self.attn_q = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.attn_k = nn.Linear(cfg.dim, kv, bias=False)
        self.attn_v = nn.Linear(cfg.dim, kv, bias=False)
        self.attn_output = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.ffn_norm = RMSNorm(cfg.dim, cfg.eps)
        self.ffn_gate = nn.Linear(cfg.dim, cfg.ffn, bias=False)
        self.ffn_up = nn.Linear(cfg.dim, cfg.ffn, bias=False)
        self.ffn_down = nn.Linear(cfg.ffn, cfg.dim, bias=False)

    def forward(self, x, cos, sin, cache=None):
        """One layer. With `cache` (a dict that keeps k and v) x is the new positions only."""
        c = self.cfg
        n, t, _ = x.shape
        h = self.attn_norm(x)
        q = rope(self.attn_q(h).view(n, t, c.heads, c.head_dim), cos, sin).transpose(1, 2)
        k = rope(self.attn_k(h).view(n, t, c.kv_heads, c.head_dim), cos, sin).transpose(1, 2)
        v = self.attn_v(h).view(n, t, c.kv_heads, c.head_dim).transpose(1, 2)
        if cache is not None:
            if "k" in cache:
                k, v = torch.cat((cache["k"], k), 2), torch.cat((cache["v"], v), 2)
            cache["k"], cache["v"] = k, v
        group = c.heads // c.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        # plain matrix products: on a CPU their backward pass is faster than that of the fused attention
        score = q @ k.transpose(-1, -2) * c.head_dim ** -0.5
        if t > 1:
            score = score.masked_fill(future(t, k.shape[2]), -1e9)
        a = score.softmax(-1).to(v.dtype) @ v
        x = x + self.attn_output(a.transpose(1, 2).reshape(n, t, c.dim))
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))


class Model(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.token_embd = nn.Embedding(cfg.vocab, cfg.dim)
        self.blk = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.output_norm = RMSNorm(cfg.dim, cfg.eps)
        cos, sin = rope_tables(cfg)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)
            if name.endswith(("attn_output.weight", "ffn_down.weight")):
                nn.init.zeros_(p)

    def forward(self, ids, cache=None, start=0):
        """Logits of every position of ids [batch, position]; cache is a list of one dict per layer."""
        t = ids.shape[1]
        cos, sin = self.cos[start:start + t], self.sin[start:start + t]
        x = self.token_embd(ids)
        for i, block in enumerate(self.blk):
            x = block(x, cos, sin, None if cache is None else cache[i])
        return F.linear(self.output_norm(x), self.token_embd.weight)

    def new_cache(self):
        return [{} for _ in self.blk]
