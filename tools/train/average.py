"""The weighted mean of two checkpoints, to go on from.

    python average.py FIRST.pt 0.4 SECOND.pt 0.6 OUT.pt
"""
import sys

import torch

first, a, second, b, out = sys.argv[1:]
mean, other = torch.load(first), torch.load(second)
for name in mean["model"]:
    mean["model"][name] = mean["model"][name] * float(a) + other["model"][name] * float(b)
torch.save(mean, out)
