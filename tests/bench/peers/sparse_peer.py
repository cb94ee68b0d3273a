# SPDX-License-Identifier: Apache-2.0
"""The `sparse` workload in Python: rows of 16 for 26 columns of ids, dense layers 429-512-256-1 and the sum over pairs of
rows, batches of 2048, binary cross-entropy, AdamW for the dense part. Two passes over 97 batches; the second is timed.

usage: sparse_peer.py PEER THREADS BATCHES [--sparse-only]        (prints a line of JSON)

embedding-bag  26 EmbeddingBags of a million rows, sparse gradients, SparseAdam
tbe            FBGEMM's fused tables of a million rows, row-wise Adagrad
torchrec       TorchRec's DistributedModelParallel over these, on one rank
NAME+compile   the same, with dense layers by torch.compile
NAME+onednn    the same, with the linear layers of onednn.py

AdamW of the dense layers is fused.

Their tables have a fixed number of rows: ids are taken modulo a million. --sparse-only skips the dense part: rows are read,
receive a gradient of ones, and are updated.
"""
import json
import logging
import os
import sys
import time
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np
import torch
from torch import nn
from torch.nn import functional

import onednn
from clock import peak_mib

COLUMNS, DIM, NUMBERS, BATCH, ROWS, FIRST = 26, 16, 13, 2048, 1_000_000, 0.01
(peer, *parts), threads, batches = sys.argv[1].split("+"), int(sys.argv[2]), int(sys.argv[3])
is_sparse_only = "--sparse-only" in sys.argv
torch.set_num_threads(threads)
torch.manual_seed(0)


def mixed(x):
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def clicks(samples):
    """As random_clicks.hpp: ids [samples, columns], numbers, labels."""
    random = np.random.default_rng(1)
    ids = np.empty((samples, COLUMNS), np.int64)
    for column, a in enumerate(np.linspace(1.05, 1.2, COLUMNS)):
        rank = np.floor((1 - random.random(samples) * (1 - 1e7 ** (1 - a))) ** (1 / (1 - a))).clip(1, 1e7)
        ids[:, column] = mixed(rank.astype(np.uint64) | np.uint64((column + 1) << 40)) >> np.uint64(1)
    numbers = random.standard_normal((samples, NUMBERS)).astype(np.float32)
    return (torch.from_numpy(array)
            for array in (ids, numbers, (random.random(samples) < 0.25).astype(np.float32)))


class Top(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.mlp = nn.Sequential(linear(COLUMNS * DIM + NUMBERS, 512), nn.ReLU(), linear(512, 256), nn.ReLU(),
                                 nn.Linear(256, 1))

    def forward(self, rows, numbers):
        vectors = rows.view(-1, COLUMNS, DIM)
        pairs = 0.5 * (vectors.sum(1).square() - vectors.square().sum(1)).sum(1)
        return self.mlp(torch.cat([rows, numbers], 1)).squeeze(1) + pairs


def embedding_bags():
    tables = nn.ModuleList(
        nn.EmbeddingBag(ROWS, DIM, mode="sum", sparse=True, _weight=torch.empty(ROWS, DIM).uniform_(-FIRST, FIRST))
        for _ in range(COLUMNS))
    optimizer = torch.optim.SparseAdam(list(tables.parameters()), lr=1e-3)
    offsets = torch.arange(BATCH)

    def look_up(ids):
        columns = (ids % ROWS).t().contiguous()
        return torch.cat([table(column, offsets) for table, column in zip(tables, columns)], 1)

    return look_up, optimizer


def tbe():
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import (ComputeDevice, EmbeddingLocation,
                                                                        SplitTableBatchedEmbeddingBagsCodegen)
    tables = SplitTableBatchedEmbeddingBagsCodegen(
        [(ROWS, DIM, EmbeddingLocation.HOST, ComputeDevice.CPU)] * COLUMNS,
        optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD, learning_rate=0.01, eps=1e-8, device=torch.device("cpu"))
    tables.init_embedding_weights_uniform(-FIRST, FIRST)
    offsets = torch.arange(COLUMNS * BATCH + 1)
    return lambda ids: tables((ids % ROWS).t().contiguous().view(-1), offsets), None


def torchrec_parallel():
    import torchrec
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from torch import distributed
    from torchrec.distributed import DistributedModelParallel
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    keys = [f"c{column}" for column in range(COLUMNS)]
    configs = [torchrec.EmbeddingBagConfig(name=f"t{column}", embedding_dim=DIM, num_embeddings=ROWS,
                                           feature_names=[key], pooling=torchrec.PoolingType.SUM)
               for column, key in enumerate(keys)]
    sharder = EmbeddingBagCollectionSharder(
        fused_params={"optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD, "learning_rate": 0.01, "eps": 1e-8})
    tables = DistributedModelParallel(torchrec.EmbeddingBagCollection(tables=configs, device=torch.device("meta")),
                                      device=torch.device("cpu"), sharders=[sharder])
    lengths = torch.ones(COLUMNS * BATCH, dtype=torch.int64)
    offsets = torch.arange(COLUMNS * BATCH + 1)

    def look_up(ids):
        values = (ids % ROWS).t().contiguous().view(-1)
        jagged = torchrec.KeyedJaggedTensor(keys=keys, values=values, lengths=lengths, offsets=offsets)
        return tables(jagged).wait().values()

    return look_up, None


PEERS = {"embedding-bag": embedding_bags, "tbe": tbe, "torchrec": torchrec_parallel}
if peer not in PEERS:
    sys.exit(f"unknown peer {peer}")
ids, numbers, labels = clicks(batches * BATCH)
look_up, row_optimizer = PEERS[peer]()
top = Top(onednn.Linear if "onednn" in parts else nn.Linear)
optimizer = torch.optim.AdamW(top.parameters(), lr=1e-3, fused=True)
output_of = torch.compile(top) if "compile" in parts else top
started = int(os.environ.get("BENCH_STARTED_NS", time.monotonic_ns()))
first_step_s = None
for _ in range(2):
    begin, cpu_begin = time.monotonic(), time.process_time()
    for first in range(0, batches * BATCH, BATCH):
        some = slice(first, first + BATCH)
        rows = look_up(ids[some])
        if is_sparse_only:
            rows.backward(torch.ones_like(rows))
        else:
            functional.binary_cross_entropy_with_logits(output_of(rows, numbers[some]), labels[some]).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if row_optimizer is not None:
            row_optimizer.step()
            row_optimizer.zero_grad(set_to_none=True)
        if first_step_s is None:
            first_step_s = (time.monotonic_ns() - started) * 1e-9
    step_s, cpu_step_s = ((end - start) / batches for start, end in
                          ((begin, time.monotonic()), (cpu_begin, time.process_time())))
print(json.dumps({"step_s": step_s, "cpu_step_s": cpu_step_s, "first_step_s": first_step_s, "peak_mib": peak_mib()}))
sys.stdout.flush()
os._exit(0)  # some threads of the packages are not joined on the way out
