# SPDX-License-Identifier: Apache-2.0
"""Exports a small PyTorch module for recipes/exported-torchscript.json and exported-aot.json.

    python recipes/data/iris_net.py        (torch 2.11.0, g++)

Writes iris_net.pt, a TorchScript module, and iris_net, compiled ahead of time for processors with
AVX2. Both have the same initial parameters.
"""
import pathlib
import shutil
import sys

import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent


class IrisNet(nn.Module):
    """A layer with a gated residual connection between two linear layers."""

    def __init__(self, width=16):
        super().__init__()
        self.enter = nn.Linear(4, width)
        self.norm = nn.LayerNorm(width)
        self.gated = nn.Linear(width, 2 * width)
        self.leave = nn.Linear(width, 3)

    def forward(self, x):
        h = self.enter(x)
        value, gate = self.gated(self.norm(h)).chunk(2, dim=-1)
        return self.leave(h + value * torch.sigmoid(gate))


def made():
    torch.manual_seed(1)
    return IrisNet()


def main():
    sys.path.insert(0, str(HERE.parent.parent / "plugins/models/aot"))
    import tenon_aot

    torch.jit.script(made()).save(HERE / "iris_net.pt")
    shutil.rmtree(HERE / "iris_net", ignore_errors=True)
    tenon_aot.export(made(), {"x": torch.randn(24, 4)}, HERE / "iris_net", axes={"x": {0: "B"}})


if __name__ == "__main__":
    main()
