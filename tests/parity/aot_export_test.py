# SPDX-License-Identifier: Apache-2.0
"""Exports modules with tenon_aot.py, trains them in the host, and compares losses with PyTorch's.

    python aot_export_test.py HOST PLUGINS        (torch 2.11, as `./dev deps --peers` installs it)

The module has what that of the recipe lacks: batch norm, so that training and evaluation differ and
buffers change; a parameter that is used twice; a frozen one; and a second output without a loss.
"""
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "plugins/models/aot"))
import tenon_aot

BATCH, STEPS = 24, 25


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(4, 16, bias=False)  # a bias would have gradients of rounding errors
        self.norm = nn.BatchNorm1d(16)
        self.twice = nn.Linear(16, 16, bias=False)
        self.again = self.twice
        self.fixed = nn.Linear(16, 16)
        self.fixed.requires_grad_(False)
        self.leave = nn.Linear(16, 3)

    def forward(self, x):
        h = torch.relu(self.norm(self.enter(x)))
        h = h + torch.tanh(self.again(torch.tanh(self.twice(h)))) + self.fixed(h)
        return self.leave(h), h.mean(-1)


def rows(name):
    with open(ROOT / "recipes/data" / name, newline="") as file:
        table = [[float(value) for value in row.values()] for row in csv.DictReader(file)]
    return torch.tensor([row[:4] for row in table]), torch.tensor([int(row[4]) for row in table])


def losses_of_torch(module):
    decayed = [p for p in module.parameters() if p.dim() > 1 and p.requires_grad]
    others = [p for p in module.parameters() if p.dim() <= 1 and p.requires_grad]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01},
                                   {"params": others, "weight_decay": 0.0}], lr=0.02)
    x, labels = rows("iris-train.csv")
    losses = []
    for step in range(STEPS):
        at = slice(step * BATCH % len(x), step * BATCH % len(x) + BATCH)
        loss = nn.functional.cross_entropy(module(x[at])[0], labels[at])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    module.eval()
    x, labels = rows("iris-eval.csv")
    with torch.no_grad():
        losses.append(nn.functional.cross_entropy(module(x)[0], labels).item())
    return losses


def losses_of_host(host, plugins, folder):
    recipe = json.loads("\n".join(
        line for line in (ROOT / "recipes/exported-aot.json").read_text().splitlines()
        if not line.strip().startswith("//")))
    recipe["model"]["options"]["path"] = str(folder / "net")
    recipe["data"]["shuffle"] = False
    for part in ("train", "eval"):
        recipe["data"][part]["options"]["files"] = [str(ROOT / f"recipes/data/iris-{part}.csv")]
    recipe["train"] = {"steps": STEPS, "log_every": 1}
    recipe["eval"] = {"at_end": True}
    (folder / "recipe.json").write_text(json.dumps(recipe))
    subprocess.run([host, "--recipe", folder / "recipe.json", "--plugin-dir", plugins, "--run-dir",
                    folder / "run", "--quiet"], check=True)
    records = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    losses = [record["loss"] for record in records if "loss" in record]
    return [*losses, json.loads((folder / "run/summary.json").read_text())["metrics"]["eval/loss"]]


def refusals(folder):
    """What the exporter refuses, with what its message says."""
    net, x = Net(), torch.randn(8, 4)
    cases = [
        (lambda: tenon_aot.export(net, {"x": x}, folder / "bad", isa="avx9"), "expected one of sse"),
        (lambda: tenon_aot.export(net, {"x": x}, folder), "exists; remove it"),
        (lambda: tenon_aot.export(net, {"x": 3}, folder / "bad"), "expected a tensor"),
        (lambda: tenon_aot.export(net, {"x": x}, folder / "bad", axes={"y": {0: "B"}}),
         "which are not inputs"),
        (lambda: tenon_aot.export(net, {"x": x}, folder / "bad", outputs=["logits"]),
         "expected 2 different names"),
        (lambda: tenon_aot.export(nn.ReLU(), {"input": x}, folder / "bad"), "no parameter"),
    ]
    for call, text in cases:
        try:
            call()
        except tenon_aot.ExportError as error:
            assert text in str(error), f"the message is: {error}"
        else:
            raise AssertionError(f"nothing was refused (expected: {text})")


def main(host, plugins):
    torch.set_num_threads(1)
    torch.manual_seed(2)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        refusals(folder)
        module = Net()
        tenon_aot.export(module, {"x": torch.randn(8, 4)}, folder / "net", axes={"x": {0: "B"}},
                         outputs=["logits", "mean"])
        names = {path.name for path in (folder / "net").iterdir()}
        assert names == {"forward.so", "backward.so", "evaluate.so", "model.json",
                         "weights.safetensors"}, names
        wanted = losses_of_torch(module)
        found = losses_of_host(host, plugins, folder)
    assert len(found) == len(wanted), (found, wanted)
    worst = max(abs(a - b) / max(b, 1e-3) for a, b in zip(found, wanted))
    print(f"{STEPS} steps and an evaluation: losses differ by {worst:.1e} at most, relatively")
    assert worst < 1e-3, (found, wanted)


if __name__ == "__main__":
    main(*sys.argv[1:])
