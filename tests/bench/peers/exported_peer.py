# SPDX-License-Identifier: Apache-2.0
"""The `exported` workload in Python: modules as they are, under torch.compile, and exported for the host.

usage: exported_peer.py net|hf eager|compile WARMUP STEPS     (prints a line of JSON)
       exported_peer.py net|hf export FOLDER ISA              (writes FOLDER/aot, and for net FOLDER/net.pt)

net: four gated residual layers of width 256, batch 256 of 64 numbers. hf: transformers' Llama with the dimensions of
the quickstart, batch 16 of 128 ids. One thread, AdamW 1e-3.
"""
import os
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")
os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1")
import torch
from torch import nn
from torch.nn import functional as F

from clock import Clock

WIDTH, LAYERS, BATCH = 256, 4, 256
IDS = (16, 128)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.gated = nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, h):
        value, gate = self.gated(self.norm(h)).chunk(2, dim=-1)
        return h + F.silu(value) * torch.sigmoid(gate)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(64, WIDTH)
        self.layers = nn.Sequential(*(Gated() for _ in range(LAYERS)))
        self.leave = nn.Linear(WIDTH, 10)

    def forward(self, x):
        return self.leave(self.layers(self.enter(x)))


def made(name):
    """The module, the name of its input, a batch, and its labels."""
    torch.manual_seed(0)
    if name == "net":
        return Net(), "x", torch.randn(BATCH, 64), torch.randint(0, 10, (BATCH,))
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=256, hidden_size=128, intermediate_size=352, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=4, use_cache=False)
    return transformers.LlamaForCausalLM(config), "input_ids", torch.randint(0, 256, IDS), torch.randint(0, 256, IDS)


def train(name, compiles, warmup, steps):
    torch.set_num_threads(1)
    module, field, batch, labels = made(name)
    module.train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True)
    output_of = torch.compile(module) if compiles else module
    clock = Clock(warmup, steps)
    step = 0
    while True:
        step += 1
        output = output_of(**{field: batch}) if name == "hf" else output_of(batch)
        logits = output.logits if name == "hf" else output
        F.cross_entropy(logits.flatten(0, -2), labels.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if clock.tick(step):
            break
    clock.report()


def export(name, folder, isa):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "plugins/models/aot"))
    import tenon_aot

    module, field, batch, _ = made(name)
    if name == "net":
        torch.jit.script(module).save(pathlib.Path(folder, "net.pt"))
    tenon_aot.export(module.train(), {field: batch}, pathlib.Path(folder, "aot"), axes={field: {0: "B"}}, isa=isa)
    print("{}")


if sys.argv[2] == "export":
    export(sys.argv[1], sys.argv[3], sys.argv[4])
else:
    train(sys.argv[1], sys.argv[2] == "compile", int(sys.argv[3]), int(sys.argv[4]))
