# SPDX-License-Identifier: Apache-2.0
"""The `gpu` workload in Python: a llama of 125 M parameters on the bytes of data/kjv.txt, 8 windows of
1024 a step, AdamW 3e-4, clipped at 1.0, autocast to bf16, on the first GPU.

usage: gpu_peer.py eager|compile WARMUP STEPS [cpu]     (prints a line of JSON)

Both as their users set them up: fused AdamW, pinned batches that are copied without waiting; compile
with torch.compile over the whole model. "cpu" and a model of one small layer show that the program runs
where there is no GPU. Times are CLOCK_MONOTONIC, as is BENCH_STARTED_NS.
"""
import json
import os
import pathlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

peer, warmup, steps = sys.argv[1], *(int(word) for word in sys.argv[2:4])
device = torch.device("cpu" if sys.argv[4:] == ["cpu"] else "cuda")
VOCAB, DIM, LAYERS, HEADS, HIDDEN, SEQ, BATCH = 256, 768, 18, 12, 1984, 1024, 8
if device.type == "cpu":
    DIM, LAYERS, HEADS, HIDDEN, SEQ = 32, 1, 2, 64, 32

torch.manual_seed(1)
text = torch.frombuffer(
    bytearray(pathlib.Path(__file__).resolve().parents[3].joinpath("data/kjv.txt").read_bytes()),
    dtype=torch.uint8)
times = {}


def tick(step, loss):  # from 1; waits, as the host does at these steps
    if step in (1, warmup, warmup + steps):
        loss.item()
        times[step] = time.monotonic()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(DIM, eps=1e-5), nn.RMSNorm(DIM, eps=1e-5)
        self.q, self.k, self.v, self.o = (nn.Linear(DIM, DIM, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(DIM, HIDDEN, bias=False), nn.Linear(DIM, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, DIM, bias=False)

    def forward(self, x_BTD, cos_TD, sin_TD):
        B, T, _ = x_BTD.shape

        def rotate(x):
            a, b = x.chunk(2, -1)
            return x * cos_TD + torch.cat([-b, a], -1) * sin_TD

        h = self.norm1(x_BTD)
        q, k, v = (f(h).view(B, T, HEADS, DIM // HEADS).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        x_BTD = x_BTD + self.o(y.transpose(1, 2).reshape(B, T, DIM))
        h = self.norm2(x_BTD)
        return x_BTD + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(DIM, eps=1e-5), nn.Linear(DIM, VOCAB, bias=False)
        width = DIM // HEADS
        angles = torch.outer(torch.arange(SEQ).float(), 1e4 ** (-torch.arange(0, width, 2).float() / width))
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
        return F.cross_entropy(self.head(self.norm(x)).view(-1, VOCAB), labels_BT.reshape(-1))


def batches():
    generator = torch.Generator().manual_seed(0)
    offsets = torch.arange(SEQ + 1)
    while True:
        first = torch.randint(0, len(text) - SEQ - 1, (BATCH,), generator=generator)
        windows = text[first[:, None] + offsets].long()
        if device.type == "cuda":
            windows = windows.pin_memory().to(device, non_blocking=True)
        yield windows[:, :-1], windows[:, 1:]


if peer not in ("eager", "compile"):
    sys.exit(f"no peer is called {peer}")
model = Model().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
loss_of = torch.compile(model) if peer == "compile" else model
for step, (ids, labels) in enumerate(batches(), 1):
    with torch.autocast(device.type, torch.bfloat16):
        loss = loss_of(ids, labels)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    tick(step, loss.detach())
    if step == warmup + steps:
        break
print(json.dumps({
    "step_s": (times[warmup + steps] - times[warmup]) / steps,
    "first_step_s": times[1] - int(os.environ.get("BENCH_STARTED_NS", times[1] * 1e9)) * 1e-9,
    "peak_mib": torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else None,
    "parameters": sum(parameter.numel() for parameter in model.parameters()),
}))
