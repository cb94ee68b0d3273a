# SPDX-License-Identifier: Apache-2.0
"""A llama in Python, on the bytes of data/kjv.txt: AdamW 3e-4, clipped at 1.0.

usage: lm_peer.py SHAPE PEER THREADS WARMUP STEPS     (prints a line of JSON)

SHAPE is a name of shapes.py. PEER is lightning, hf, or a loop by its parts, joined by "+":

loop           torch.optim.AdamW as it is by default
fused          fused AdamW
compile        torch.compile; max: with mode="max-autotune"
onednn         the linear layers of onednn.py
bf16_autocast  the model under autocast to bf16
bf16_params    parameters and optimizer state in bf16
"""
import os
import sys
import warnings

warnings.filterwarnings("ignore")
os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
import torch
from torch import nn

import llama
import onednn
from clock import Clock
from shapes import SHAPES

SHAPE = SHAPES[sys.argv[1]]
peer, threads, warmup, steps = sys.argv[2], *(int(word) for word in sys.argv[3:6])
parts = set(peer.split("+"))
torch.set_num_threads(threads)
torch.manual_seed(1)
clock = Clock(warmup, steps)


def adamw(parameters, fused=None):
    return torch.optim.AdamW(parameters, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=fused)


if parts <= {"loop", "fused", "compile", "max", "onednn", "bf16_autocast", "bf16_params"}:
    model = llama.Model(SHAPE, onednn.Linear if "onednn" in parts else nn.Linear)
    if "bf16_params" in parts:
        model = model.bfloat16()
    optimizer = adamw(model.parameters(), fused=True if "fused" in parts else None)
    loss_of = model
    if "compile" in parts:
        loss_of = torch.compile(model, mode="max-autotune" if "max" in parts else None)
    for step, (ids, labels) in enumerate(llama.batches(SHAPE), 1):
        with torch.autocast("cpu", torch.bfloat16, enabled="bf16_autocast" in parts):
            loss = loss_of(ids, labels)
        loss.backward()
        del loss
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if clock.tick(step):
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
            clock.tick(index + 1)

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

    class Ticks(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            clock.tick(state.global_step)

    config = LlamaConfig(
        vocab_size=SHAPE.vocab, hidden_size=SHAPE.dim, intermediate_size=SHAPE.hidden,
        num_hidden_layers=SHAPE.layers,
        num_attention_heads=SHAPE.heads, num_key_value_heads=SHAPE.key_heads, max_position_embeddings=SHAPE.seq,
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
            train_dataset=Windows(), callbacks=[Ticks()]).train()
else:
    sys.exit(f"unknown peer {peer}")

clock.report()
