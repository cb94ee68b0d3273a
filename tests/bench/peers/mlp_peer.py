# SPDX-License-Identifier: Apache-2.0
"""The `mlp` workload in Python: 64-128-10, batch 32, AdamW 1e-3, rows in memory, no clipping.

usage: mlp_peer.py bare|fused|compile|lightning|hf WARMUP STEPS     (prints a line of JSON)

compile is torch.compile with fused AdamW.
"""
import os
import sys
import warnings

warnings.filterwarnings("ignore")
os.environ.update(CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1")
import torch
from torch import nn
from torch.nn import functional as F

from clock import Clock

peer, warmup, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
torch.manual_seed(0)
X, Y = torch.randn(4096, 64), torch.randint(0, 10, (4096,))
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
clock = Clock(warmup, steps)


def batches():
    step = 0
    while True:
        first = step % 128 * 32
        step += 1
        yield X[first : first + 32], Y[first : first + 32]


if peer in ("bare", "fused", "compile"):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=None if peer == "bare" else True)
    output_of = torch.compile(net) if peer == "compile" else net
    for step, (x, y) in enumerate(batches(), 1):
        F.cross_entropy(output_of(x), y).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if clock.tick(step):
            break
elif peer == "lightning":
    import lightning

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return batches()

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net

        def training_step(self, batch, _):
            return F.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

        def on_train_batch_end(self, outputs, batch, index):
            clock.tick(index + 1)

    lightning.Trainer(
        max_steps=warmup + steps, max_epochs=-1, accelerator="cpu", devices=1, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    ).fit(Module(), torch.utils.data.DataLoader(Stream(), batch_size=None))
elif peer == "hf":
    import tempfile

    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x, labels):
            logits = self.net(x)
            return {"loss": F.cross_entropy(logits, labels), "logits": logits}

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 4096

        def __getitem__(self, i):
            return {"x": X[i], "labels": Y[i]}

    class Ticks(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            clock.tick(state.global_step)

    with tempfile.TemporaryDirectory() as folder:
        Trainer(
            model=Model(),
            args=TrainingArguments(
                output_dir=folder, max_steps=warmup + steps, per_device_train_batch_size=32,
                learning_rate=1e-3, lr_scheduler_type="constant", weight_decay=0.01,
                max_grad_norm=0.0, optim="adamw_torch", logging_strategy="no", save_strategy="no",
                report_to=[], use_cpu=True, disable_tqdm=True, dataloader_num_workers=0,
                logging_nan_inf_filter=False, dataloader_pin_memory=False),
            train_dataset=Rows(), callbacks=[Ticks()]).train()
else:
    sys.exit(f"unknown peer {peer}")
clock.report()
