# SPDX-License-Identifier: Apache-2.0
"""Writes steps_golden.json: 100 steps of PyTorch with clipping, accumulation, losses and metrics.

Run with the Python of `./dev deps --peers` when a case is added:

    python tests/parity/steps_golden.py > tests/parity/steps_golden.json

Data and first parameters are formulas, which are also those of the tests' plugins (`windows`, `plant_at`). Clipping is that of
torch.nn.utils, norm before value. Each case has the recipe's patch that makes the host do the same.
"""

import json
import math

import torch
from torch import nn
from torch.nn import functional as F

STEPS = 100
SAMPLES = 24
BATCH = 4

SGD = {"type": "sgd", "options": {"lr": 0.1, "momentum": 0.9}}
ADAMW = {"type": "adamw", "options": {"lr": 0.01, "weight_decay": 0.0}}  # the host decays no biases
CE = {"type": "cross_entropy", "options": {"ignore_index": 0}}

CASES = [
    ("clip_grad_norm", {"loss": CE, "optimizer": SGD, "train": {"clip_grad_norm": 0.05}}),
    ("clip_grad_norm that seldom binds", {"loss": CE, "optimizer": SGD, "train": {"clip_grad_norm": 0.3}}),
    ("clip_grad_value", {"loss": CE, "optimizer": SGD, "train": {"clip_grad_value": 0.01}}),
    ("clip_grad_norm over three microbatches",
     {"loss": CE, "optimizer": ADAMW, "train": {"clip_grad_norm": 0.05, "gradient_accumulation": 3}}),
    ("clip_grad_value over three microbatches",
     {"loss": CE, "optimizer": SGD, "train": {"clip_grad_value": 0.02, "gradient_accumulation": 3}}),
    ("both clips, label smoothing",
     {"loss": {"type": "cross_entropy", "options": {"label_smoothing": 0.1, "ignore_index": 0}}, "optimizer": ADAMW,
      "train": {"clip_grad_norm": 0.2, "clip_grad_value": 0.03, "gradient_accumulation": 2}}),
    ("mean squared error",
     {"model": {"options": {"out_features": 1}}, "loss": {"type": "mse", "inputs": {"targets": "y"}},
      "optimizer": {"type": "sgd", "options": {"lr": 0.02}}, "train": {"clip_grad_norm": 0.5}}),
    ("binary cross-entropy",
     {"model": {"options": {"out_features": 1}}, "loss": {"type": "bce_with_logits", "options": {"pos_weight": [2.0]}},
      "data": {"train": {"options": {"num_classes": 2}}}, "optimizer": ADAMW, "train": {"clip_grad_norm": 1.0}}),
]


def sample(number: int, classes: int) -> tuple[list[float], float, int]:
    x = [math.sin(0.1 * (number + 1) * (d + 1)) for d in range(4)]
    return x, sum(x) / 4, number % classes


def run(patch: dict, dtype: torch.dtype) -> dict:
    out = patch.get("model", {}).get("options", {}).get("out_features", 3)
    classes = patch.get("data", {}).get("train", {}).get("options", {}).get("num_classes", 3)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, out)).to(dtype)
    with torch.no_grad():
        for k, parameter in enumerate(model.parameters()):
            places = torch.arange(parameter.numel(), dtype=torch.float64)
            parameter.copy_((torch.sin(places + 1 + 10 * k) / 2).view_as(parameter))
    optimizer = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[patch["optimizer"]["type"]](
        model.parameters(), **patch["optimizer"]["options"])
    loss_type = patch["loss"]["type"]
    options = patch["loss"].get("options", {})
    train = patch["train"]
    next_sample = 0
    figures = {"loss": [], "grad_norm": [], "accuracy": [], "perplexity": []}

    def sum_and_count(logits, x, y, labels):
        if loss_type == "cross_entropy":
            total = F.cross_entropy(logits, labels, ignore_index=options["ignore_index"], reduction="sum",
                                    label_smoothing=options.get("label_smoothing", 0.0))
            return total, (labels != options["ignore_index"]).sum().item()
        if loss_type == "mse":
            return F.mse_loss(logits.squeeze(-1), y, reduction="sum"), y.numel()
        weight = torch.tensor(options["pos_weight"], dtype=dtype)
        total = F.binary_cross_entropy_with_logits(logits.squeeze(-1), labels.to(dtype), pos_weight=weight, reduction="sum")
        return total, labels.numel()

    for _ in range(STEPS):
        batches = []
        for _ in range(train.get("gradient_accumulation", 1)):
            if next_sample == SAMPLES:
                next_sample = 0
            rows = [sample(next_sample + b, classes) for b in range(BATCH)]
            next_sample += BATCH
            # The dataset writes fp32.
            batches.append((torch.tensor([r[0] for r in rows], dtype=torch.float32).to(dtype),
                            torch.tensor([r[1] for r in rows], dtype=torch.float32).to(dtype),
                            torch.tensor([r[2] for r in rows])))
        optimizer.zero_grad()
        sums, count, hits, nll = [], 0, 0, 0.0
        for x, y, labels in batches:
            logits = model(x)
            total, n = sum_and_count(logits, x, y, labels)
            sums.append(total)
            count += n
            if loss_type == "cross_entropy":
                kept = labels != 0
                hits += (logits.argmax(-1)[kept] == labels[kept]).sum().item()
                nll += F.cross_entropy(logits.double(), labels, ignore_index=0, reduction="sum").item()
        for total in sums:
            (total / count).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), train.get("clip_grad_norm", math.inf))
        if "clip_grad_value" in train:
            nn.utils.clip_grad_value_(model.parameters(), train["clip_grad_value"])
        optimizer.step()
        figures["loss"].append(sum(t.item() for t in sums) / count)
        if "clip_grad_norm" in train:
            figures["grad_norm"].append(norm.item())
        if loss_type == "cross_entropy":
            figures["accuracy"].append(hits / count)
            figures["perplexity"].append(math.exp(nll / count))
    return {name: values for name, values in figures.items() if values}


def main() -> None:
    cases = []
    for name, patch in CASES:
        case = {"name": name, "patch": patch,
                "fp64": run(patch, torch.float64), "fp32": run(patch, torch.float32)}
        # How far PyTorch's own rounding goes: a case in which that is much is no test of fp32.
        far = max(abs(a - b) for a, b in zip(case["fp64"]["loss"], case["fp32"]["loss"]))
        case["fp32_rounding"] = far
        del case["fp32"]
        cases.append("  " + json.dumps(case))
    print("{")
    print(f' "torch": {json.dumps(torch.__version__)},')
    print(' "cases": [\n' + ",\n".join(cases) + "\n ]")
    print("}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
