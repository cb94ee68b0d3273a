# SPDX-License-Identifier: Apache-2.0
"""The `ranks` workload in Python: the llama of the `lm` workload on the ranks that torchrun started, one thread each, 8
windows of 128 bytes per rank and step, fused AdamW, clipped at 1.0, fp32, over Gloo.

usage: torchrun --nproc-per-node N ranks_peer.py ddp|fsdp2 WARMUP STEPS        (rank 0 prints a line of JSON)
       ranks_peer.py alone WARMUP STEPS                                        (prints a line of JSON)

ddp is DistributedDataParallel; fsdp2 is fully_shard of each layer and of the whole model; alone is the same training in
one process without communication.
"""
import os
import sys
import warnings

warnings.filterwarnings("ignore")
os.environ.update(CUDA_VISIBLE_DEVICES="")
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import llama
import shapes
from clock import Clock

SHAPE = shapes.Shape(dim=128, layers=4, heads=4, hidden=352, seq=128, batch=8)

peer, warmup, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
torch.manual_seed(1)
rank = 0
if peer != "alone":
    dist.init_process_group("gloo")
    rank = dist.get_rank()
model = llama.Model(SHAPE)
if peer == "alone":
    trained = model
elif peer == "ddp":
    trained = DistributedDataParallel(model, gradient_as_bucket_view=True)
elif peer == "fsdp2":
    for block in model.blocks:
        fully_shard(block)
    trained = fully_shard(model)
else:
    sys.exit(f"unknown peer {peer}")
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
clock = Clock(warmup, steps)
for step, (ids, labels) in enumerate(llama.batches(SHAPE, seed=rank), 1):
    trained(ids, labels).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if clock.tick(step):
        break
if rank == 0:
    clock.report()
if peer != "alone":
    dist.barrier()
os._exit(0)  # DDP does not join all its threads at exit (torch 2.11.0)
