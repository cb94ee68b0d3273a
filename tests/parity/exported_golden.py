# SPDX-License-Identifier: Apache-2.0
"""Makes exported_golden.json: what PyTorch makes of the module of recipes/data/iris_net.py.

    python tests/parity/exported_golden.py > tests/parity/exported_golden.json     (torch 2.11.0)

"logits" and "gradients" are those of the first batch, for the sum of logits times the cosine of
their places. "loss" has the losses of the recipes exported-*.json without shuffling, one per step.
"""
import csv
import importlib.util
import json
import pathlib

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STEPS = 60
BATCH = 24


def module_of_recipe():
    spec = importlib.util.spec_from_file_location("iris_net", ROOT / "recipes/data/iris_net.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found.made()


def numbers(tensor):
    return tensor.detach().double().flatten().tolist()


def main():
    with open(ROOT / "recipes/data/iris-train.csv", newline="") as file:
        rows = [[float(value) for value in row.values()] for row in csv.DictReader(file)]
    x = torch.tensor([row[:4] for row in rows])
    labels = torch.tensor([int(row[4]) for row in rows])
    model = module_of_recipe()
    logits = model(x[:BATCH])
    weights = torch.cos(torch.arange(logits.numel(), dtype=torch.float32)).reshape(logits.shape)
    (logits * weights).sum().backward()
    golden = {"torch": torch.__version__, "logits": numbers(logits),
              "gradients": {name: numbers(p.grad) for name, p in model.named_parameters()}}

    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01},
                                   {"params": others, "weight_decay": 0.0}], lr=0.02)
    losses = []
    for step in range(STEPS):
        at = step * BATCH % len(rows)
        loss = torch.nn.functional.cross_entropy(model(x[at:at + BATCH]), labels[at:at + BATCH])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    golden["loss"] = losses
    golden["parameters"] = {name: numbers(p) for name, p in model.named_parameters()}
    print(json.dumps(golden))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
