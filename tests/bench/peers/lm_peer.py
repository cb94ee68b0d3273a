# SPDX-License-Identifier: Apache-2.0
"""The `lm` workload in Python: a llama of 0.9 M parameters on the bytes of data/kjv.txt, 16 windows
of 128 a step, AdamW 3e-4, clipped at 1.0, fp32.

usage: lm_peer.py bare|compile|lightning|hf THREADS WARMUP STEPS     (prints a line of JSON)

Each peer is set up as its users do: bare and lightning with torch.optim.AdamW as it comes, compile
with the fused one, hf with its own model and its own choice of AdamW. Times are CLOCK_MONOTONIC, as
is BENCH_STARTED_NS.
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
from torch.nn import functional as F

VOCAB, DIM, LAYERS, HEADS, HIDDEN, SEQ, BATCH = 256, 128, 4, 4, 352, 128, 16

peer, threads, warmup, steps = sys.argv[1], *(int(word) for word in sys.argv[2:5])
torch.set_num_threads(threads)
torch.manual_seed(1)
text = torch.frombuffer(
    bytearray(pathlib.Path(__file__).resolve().parents[3].joinpath("data/kjv.txt").read_bytes()),
    dtype=torch.uint8)
times = {}


def tick(step):  # from 1
    if step in (1, warmup, warmup + steps):
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
        yield windows[:, :-1], windows[:, 1:]


def adamw(parameters, fused=None):
    return torch.optim.AdamW(parameters, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=fused)


if peer in ("bare", "compile"):
    model = Model()
    optimizer = adamw(model.parameters(), fused=True if peer == "compile" else None)
    loss_of = torch.compile(model) if peer == "compile" else model
    for step, (ids, labels) in enumerate(batches(), 1):
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
            return batches()

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Model()

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
        """Labels are the ids: the model shifts them, and so predicts one position less."""

        def __init__(self):
            self.first = torch.randint(0, len(text) - SEQ, ((warmup + steps) * BATCH,)).tolist()

        def __len__(self):
            return len(self.first)

        def __getitem__(self, i):
            ids = text[self.first[i] : self.first[i] + SEQ].long()
            return {"input_ids": ids, "labels": ids}

    class Clock(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            tick(state.global_step)

    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=DIM, intermediate_size=HIDDEN, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=HEADS, max_position_embeddings=SEQ,
        tie_word_embeddings=False, rms_norm_eps=1e-5, use_cache=False,
        bos_token_id=None, eos_token_id=None, pad_token_id=None)
    with tempfile.TemporaryDirectory() as folder:
        Trainer(
            model=LlamaForCausalLM(config),
            args=TrainingArguments(
                output_dir=folder, max_steps=warmup + steps, per_device_train_batch_size=BATCH,
                learning_rate=3e-4, lr_scheduler_type="constant", adam_beta1=0.9, adam_beta2=0.95,
                weight_decay=0.1, max_grad_norm=1.0, logging_strategy="no", save_strategy="no",
                report_to=[], use_cpu=True, disable_tqdm=True, dataloader_num_workers=0,
                dataloader_pin_memory=False),
            train_dataset=Windows(), callbacks=[Clock()]).train()
else:
    sys.exit(f"no peer is called {peer}")

# VmHWM: ru_maxrss would be inherited from whoever started the process.
status = pathlib.Path("/proc/self/status").read_text()
peak_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
print(json.dumps({
    "step_s": (times[warmup + steps] - times[warmup]) / steps,
    "first_step_s": times[1] - int(os.environ.get("BENCH_STARTED_NS", times[1] * 1e9)) * 1e-9,
    "peak_mib": peak_kib / 1024,
}))
