# SPDX-License-Identifier: Apache-2.0
"""Writes loss_scale_golden.json: what torch.amp.GradScaler does with a row of overflows.

.deps/peers/bin/python tests/parity/loss_scale_golden.py
"""
import json
import pathlib
import random

import torch

OPTIONS = {"init_scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 5}


def main():
    random.seed(5)
    overflows = [int(random.random() < 0.15) for _ in range(100)]
    scaler = torch.amp.GradScaler("cpu", **OPTIONS)
    parameter = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scales = []
    for overflow in overflows:
        loss = (parameter * 1.0).sum()
        scaler.scale(loss).backward()
        if overflow:
            parameter.grad[1] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        scales.append(scaler.get_scale())
    golden = {"torch": torch.__version__, "options": OPTIONS, "overflows": overflows, "scales": scales,
              "updates": int(-parameter[0].item())}
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
