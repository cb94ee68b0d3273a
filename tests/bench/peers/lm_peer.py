# SPDX-License-Identifier: Apache-2.0
"""The `lm` workload in Python: a llama of 0.9 M parameters on the bytes of data/kjv.txt, 16 windows
of 128 a step, AdamW 3e-4, clipped at 1.0, fp32.

usage: lm_peer.py bare|compile|onednn|compile-onednn|lightning|hf THREADS WARMUP STEPS
(prints a line of JSON)

Each peer is set up as its users do: bare and lightning with the default torch.optim.AdamW, compile
with fused AdamW, hf with its own model and its own choice of AdamW. onednn is bare, and
compile-onednn is compile, with the linear layers of onednn.py. Times are CLOCK_MONOTONIC, as is
BENCH_STARTED_NS.
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
from torch import nn

import llama
import onednn

SHAPE = llama.Shape(dim=128, layers=4, heads=4, hidden=352, seq=128, batch=16)

peer, threads, warmup, steps = sys.argv[1], *(int(word) for word in sys.argv[2:5])
torch.set_num_threads(threads)
torch.manual_seed(1)
times = {}


def tick(step):  # from 1
    if step in (1, warmup, warmup + steps):
        times[step] = time.monotonic()


def adamw(parameters, fused=None):
    return torch.optim.AdamW(parameters, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=fused)


if peer in ("bare", "compile", "onednn", "compile-onednn"):
    is_compiled = peer.startswith("compile")
    model = llama.Model(SHAPE, onednn.Linear if peer.endswith("onednn") else nn.Linear)
    optimizer = adamw(model.parameters(), fused=True if is_compiled else None)
    loss_of = torch.compile(model) if is_compiled else model
    for step, (ids, labels) in enumerate(llama.batches(SHAPE), 1):
        loss_of(ids, labels).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        tick(step)
        if step == warmup + steps:
            break
elif peer == "lightning":
    import lightning

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return llama.batches(SHAPE)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = llama.Model(SHAPE)

        def training_step(self, batch, _):
            return self.model(*batch)

        def configure_optimizers(self):
            return adamw(self.parameters())

        def on_train_batch_end(self, outputs, batch, index):
            tick(index + 1)

    lightning.Trainer(
        max_steps=warmup + steps, max_epochs=-1, accelerator="cpu", devices=1, gradient_clip_val=1.0,
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    ).fit(Module(), torch.utils.data.DataLoader(Stream(), batch_size=None))
elif peer == "hf":
    import tempfile

    from transformers import (LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback,
                              TrainingArguments)

    class Windows(torch.utils.data.Dataset):
        """Labels are the ids: the model shifts them, and predicts one position less."""

        def __init__(self):
            self.first = torch.randint(0, len(llama.TEXT) - SHAPE.seq, ((warmup + steps) * SHAPE.batch,)).tolist()

        def __len__(self):
            return len(self.first)

        def __getitem__(self, i):
            ids = llama.TEXT[self.first[i] : self.first[i] + SHAPE.seq].long()
            return {"input_ids": ids, "labels": ids}

    class Clock(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            tick(state.global_step)

    config = LlamaConfig(
        vocab_size=SHAPE.vocab, hidden_size=SHAPE.dim, intermediate_size=SHAPE.hidden,
        num_hidden_layers=SHAPE.layers,
        num_attention_heads=SHAPE.heads, num_key_value_heads=SHAPE.heads, max_position_embeddings=SHAPE.seq,
        tie_word_embeddings=False, rms_norm_eps=1e-5, use_cache=False,
        bos_token_id=None, eos_token_id=None, pad_token_id=None)
    with tempfile.TemporaryDirectory() as folder:
        Trainer(
            model=LlamaForCausalLM(config),
            args=TrainingArguments(
                output_dir=folder, max_steps=warmup + steps, per_device_train_batch_size=SHAPE.batch,
                learning_rate=3e-4, lr_scheduler_type="constant", adam_beta1=0.9, adam_beta2=0.95,
                weight_decay=0.1, max_grad_norm=1.0, logging_strategy="no", save_strategy="no",
                report_to=[], use_cpu=True, disable_tqdm=True, dataloader_num_workers=0,
                dataloader_pin_memory=False),
            train_dataset=Windows(), callbacks=[Clock()]).train()
else:
    sys.exit(f"unknown peer {peer}")

# VmHWM: ru_maxrss would be inherited from the parent process.
status = pathlib.Path("/proc/self/status").read_text()
peak_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
print(json.dumps({
    "step_s": (times[warmup + steps] - times[warmup]) / steps,
    "first_step_s": times[1] - int(os.environ.get("BENCH_STARTED_NS", times[1] * 1e9)) * 1e-9,
    "peak_mib": peak_kib / 1024,
}))
