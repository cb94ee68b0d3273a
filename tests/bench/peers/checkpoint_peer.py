# SPDX-License-Identifier: Apache-2.0
"""A state of tensors of 4 Mi floats saved, durably, and loaded from a cold cache.

usage: checkpoint_peer.py torch|dcp|safetensors FOLDER TENSORS     (prints a line of JSON; the folder is to be empty)
"""
import json
import logging
import os
import pathlib
import sys
import time
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
os.environ.update(CUDA_VISIBLE_DEVICES="")
import torch

ELEMENTS = 4 << 20
peer, folder, num_tensors = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(0)
base = torch.rand(ELEMENTS)
state = {f"values.{i}": base + i for i in range(num_tensors)}


def files():
    return [path for path in folder.rglob("*") if path.is_file()]


def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def drop_from_cache():
    for path in files():
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


if peer == "torch":
    def save():
        torch.save(state, folder / "state.pt")

    def load():
        return torch.load(folder / "state.pt", weights_only=True)
elif peer == "safetensors":
    from safetensors.torch import load_file, save_file

    def save():
        save_file(state, folder / "state.safetensors")

    def load():
        return load_file(folder / "state.safetensors")
elif peer == "dcp":
    import torch.distributed.checkpoint as dcp

    room = {name: torch.ones_like(tensor) for name, tensor in state.items()}

    def save():
        dcp.save(state, storage_writer=dcp.FileSystemWriter(folder / "state", sync_files=True), no_dist=True)

    def load():
        dcp.load(room, storage_reader=dcp.FileSystemReader(folder / "state"), no_dist=True)
        return room
else:
    sys.exit(f"unknown peer {peer}")

os.sync()
begin = time.perf_counter()
save()
for path in files():
    sync(path)
sync(folder)
save_s = time.perf_counter() - begin
drop_from_cache()
begin = time.perf_counter()
loaded = load()
touched = sum(float(tensor.view(-1)[::1024].sum()) for tensor in loaded.values())  # a float of each page
load_s = time.perf_counter() - begin
if not all(torch.equal(loaded[name], tensor) for name, tensor in state.items()):
    sys.exit("the loaded tensors differ from the saved tensors")
print(json.dumps({"save_s": save_s, "load_s": load_s, "touched": touched}))
