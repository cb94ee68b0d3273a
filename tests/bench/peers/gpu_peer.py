# SPDX-License-Identifier: Apache-2.0
"""The `gpu` workload in Python: a llama of 125 M parameters on the bytes of data/kjv.txt, 8 windows of
1024 a step, AdamW 3e-4, clipped at 1.0, autocast to bf16, on the first GPU.

usage: gpu_peer.py eager|compile WARMUP STEPS [cpu]     (prints a line of JSON)

Both as their users set them up: fused AdamW, pinned batches that are copied without waiting; compile
with torch.compile over the whole model. "cpu" runs a model of one small layer without a GPU, as a test. Times are CLOCK_MONOTONIC, as is BENCH_STARTED_NS.
"""
import json
import os
import pathlib
import sys
import time

import torch
from torch import nn

import llama
import shapes

peer, warmup, steps = sys.argv[1], *(int(word) for word in sys.argv[2:4])
device = torch.device("cpu" if sys.argv[4:] == ["cpu"] else "cuda")
SHAPE = shapes.Shape(dim=768, layers=18, heads=12, hidden=1984, seq=1024, batch=8)
if device.type == "cpu":
    SHAPE = shapes.Shape(dim=32, layers=1, heads=2, hidden=64, seq=32, batch=8)

torch.manual_seed(1)
times = {}


def tick(step, loss):  # from 1; waits, as the host does at these steps
    if step in (1, warmup, warmup + steps):
        loss.item()
        times[step] = time.monotonic()


if peer not in ("eager", "compile"):
    sys.exit(f"unknown peer {peer}")
model = llama.Model(SHAPE).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
loss_of = torch.compile(model) if peer == "compile" else model
for step, (ids, labels) in enumerate(llama.batches(SHAPE, device), 1):
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
