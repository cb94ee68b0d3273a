# SPDX-License-Identifier: Apache-2.0
"""The `decoders` workload by transformers: training steps by SGD on one window of bytes.

usage: decoders_peer.py MODEL make FOLDER                               (writes a folder with random weights)
       decoders_peer.py MODEL ATTENTION+EXPERTS FOLDER TEXT WARMUP STEPS THREADS   (prints a line of JSON)

ATTENTION is eager or sdpa; EXPERTS is eager or grouped_mm.
"""
import json
import os
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")
os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "parity"))
import torch
import transformers
from torch.nn import functional as F

import decoders_golden
from clock import Clock
from decoder_shapes import SHAPES, TOKENS

LEARNING_RATE = 0.01


def config_of(name, attention="sdpa", experts="eager"):
    config = decoders_golden.config_of(name, SHAPES[name])
    config._attn_implementation, config._experts_implementation = attention, experts
    return config


def class_of(name):
    default = name.title().replace("_", "") + "ForCausalLM"
    return getattr(transformers, decoders_golden.CLASSES.get(name, ("", default))[1])


def make(name, folder):
    torch.manual_seed(1)
    class_of(name)(config_of(name)).float().save_pretrained(folder)
    print("{}")


def train(name, attention, experts, folder, text, warmup, steps):
    model = class_of(name).from_pretrained(folder, config=config_of(name, attention, experts), dtype=torch.float32).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, foreach=True)
    window = torch.frombuffer(bytearray(pathlib.Path(text).read_bytes()), dtype=torch.uint8)[:TOKENS + 1].long()
    ids, labels = window[None, :-1], window[1:]
    clock, losses = Clock(warmup, steps), []
    for step in range(1, warmup + steps + 1):
        loss = F.cross_entropy(model(input_ids=ids).logits[0], labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        clock.tick(step)
    print(json.dumps({**clock.values(), "losses": losses}), flush=True)


if sys.argv[2] == "make":
    make(sys.argv[1], sys.argv[3])
else:
    torch.set_num_threads(int(sys.argv[7]))
    train(sys.argv[1], *sys.argv[2].split("+"), sys.argv[3], sys.argv[4], int(sys.argv[5]), int(sys.argv[6]))
