# SPDX-License-Identifier: Apache-2.0
"""The model of the `lm`, `lm-large`, `ranks` and `gpu` workloads as PyTorch users write it, and their data."""
import pathlib

import torch
from torch import nn
from torch.nn import functional as F

TEXT = torch.frombuffer(
    bytearray(pathlib.Path(__file__).resolve().parents[3].joinpath("data/kjv.txt").read_bytes()),
    dtype=torch.uint8)


class Block(nn.Module):
    def __init__(self, shape, linear):
        super().__init__()
        self.heads, self.key_heads, self.width = shape.heads, shape.key_heads, shape.dim // shape.heads
        self.norm1, self.norm2 = nn.RMSNorm(shape.dim, eps=1e-5), nn.RMSNorm(shape.dim, eps=1e-5)
        self.q, self.o = (linear(shape.dim, shape.dim, bias=False) for _ in range(2))
        self.k, self.v = (linear(shape.dim, self.key_heads * self.width, bias=False) for _ in range(2))
        self.gate, self.up = linear(shape.dim, shape.hidden, bias=False), linear(shape.dim, shape.hidden, bias=False)
        self.down = linear(shape.hidden, shape.dim, bias=False)

    def forward(self, x_BTD, cos_TD, sin_TD):
        B, T, D = x_BTD.shape

        def rotate(x):
            a, b = x.chunk(2, -1)
            return x * cos_TD + torch.cat([-b, a], -1) * sin_TD

        h = self.norm1(x_BTD)
        q, k, v = (f(h).view(B, T, -1, self.width).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True,
                                           enable_gqa=self.key_heads != self.heads)
        x_BTD = x_BTD + self.o(y.transpose(1, 2).reshape(B, T, D))
        h = self.norm2(x_BTD)
        return x_BTD + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    """`linear` is the class of all linear layers."""

    def __init__(self, shape, linear=nn.Linear):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocab, shape.dim)
        self.blocks = nn.ModuleList(Block(shape, linear) for _ in range(shape.layers))
        self.norm, self.head = nn.RMSNorm(shape.dim, eps=1e-5), linear(shape.dim, shape.vocab, bias=False)
        width = shape.dim // shape.heads
        angles = torch.outer(torch.arange(shape.seq).float(), 1e4 ** (-torch.arange(0, width, 2).float() / width))
        angles = torch.cat([angles, angles], -1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids_BT, labels_BT):
        x = self.embedding(ids_BT)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels_BT.reshape(-1))


def batches(shape, device=torch.device("cpu"), seed=0):
    """An endless stream of windows of the text, as (ids, labels). Copies to a GPU are asynchronous."""
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.arange(shape.seq + 1)
    while True:
        first = torch.randint(0, len(TEXT) - shape.seq - 1, (shape.batch,), generator=generator)
        windows = TEXT[first[:, None] + offsets].long()
        if device.type == "cuda":
            windows = windows.pin_memory().to(device, non_blocking=True)
        yield windows[:, :-1], windows[:, 1:]
