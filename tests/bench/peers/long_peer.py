# SPDX-License-Identifier: Apache-2.0
"""One AdamW step on one long sequence, under the memory limit that the caller sets.

usage: long_peer.py make FOLDER                                        (writes a folder with random weights)
       long_peer.py transformers|tuned FOLDER TEXT LENGTH THREADS      (prints a line of JSON)

transformers: its model with gradient checkpointing and its own loss. tuned: its layers, with head and loss in chunks that
are computed again in the backward.
"""
import json
import os
import pathlib
import sys
import time
import warnings

warnings.filterwarnings("ignore")
os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
import torch
import transformers
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

CHUNK = 256


def make(folder):
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=4, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=1 << 22, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e5}, bos_token_id=None, eos_token_id=None)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


def chunk_loss(hidden, weight, labels):
    return F.cross_entropy(hidden @ weight.t(), labels, reduction="sum")


def tuned_loss(model, ids, labels):
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[0]
    total = sum(checkpoint(chunk_loss, h, model.lm_head.weight, l, use_reentrant=False)
                for h, l in zip(hidden.split(CHUNK), labels.split(CHUNK)))
    return total / labels.numel()


def train(name, folder, text, length):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").train()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    window = torch.frombuffer(bytearray(pathlib.Path(text).read_bytes()), dtype=torch.uint8)[:length + 1].long()
    ids, labels = window[None, :-1], window[1:]
    begin = time.monotonic()
    if name == "tuned":
        loss = tuned_loss(model, ids, labels)
    else:
        loss = model(input_ids=ids, labels=ids, shift_labels=labels[None], use_cache=False).loss
    loss.backward()
    optimizer.step()
    print(json.dumps({"losses": [loss.item()], "step_s": time.monotonic() - begin}), flush=True)


if sys.argv[1] == "make":
    make(sys.argv[2])
    print("{}")
else:
    torch.set_num_threads(int(sys.argv[5]))
    train(*sys.argv[1:4], int(sys.argv[4]))
