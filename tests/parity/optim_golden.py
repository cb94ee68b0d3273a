# SPDX-License-Identifier: Apache-2.0
"""Writes optim_golden.json: what PyTorch's optimizers do in 100 steps, in fp64.

Run with the Python of `./dev deps --peers` when a case is added:

    python tests/parity/optim_golden.py > tests/parity/optim_golden.json

Start values and gradients are formulas, so that the file holds results only; the test that reads it
(tests/plugins/optimizers_test.cpp) has the same formulas.
"""

import json
import math

import torch

STEPS = 100
KEPT_STEPS = [1, 2, 10, 100]
SHAPES = [[3, 5], [7]]

CASES = [
    ("adamw defaults", "adamw", {"lr": 1e-3}),
    ("adamw of language models", "adamw", {"lr": 2e-3, "betas": [0.9, 0.95], "weight_decay": 0.1}),
    ("adamw without decay, large eps", "adamw", {"lr": 1e-2, "eps": 1e-3, "weight_decay": 0.0}),
    ("adamw with amsgrad", "adamw", {"lr": 1e-2, "amsgrad": True}),
    ("adam with decay", "adam", {"lr": 2e-3, "weight_decay": 0.1}),
    ("adam with amsgrad and decay", "adam", {"lr": 1e-2, "amsgrad": True, "weight_decay": 0.01}),
    ("adagrad", "adagrad", {"lr": 0.05}),
    ("adagrad, all options", "adagrad",
     {"lr": 0.05, "lr_decay": 0.02, "weight_decay": 0.01, "initial_accumulator_value": 0.1,
      "eps": 1e-6}),
    ("sgd plain", "sgd", {"lr": 0.05}),
    ("sgd with decay", "sgd", {"lr": 0.05, "weight_decay": 0.01}),
    ("sgd with momentum", "sgd", {"lr": 0.05, "momentum": 0.9}),
    ("sgd with nesterov momentum and decay", "sgd",
     {"lr": 0.02, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("sgd with dampening", "sgd", {"lr": 0.05, "momentum": 0.8, "dampening": 0.3}),
    ("sgd with dampening and decay", "sgd",
     {"lr": 0.05, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.02}),
]


def start(piece: int, i: int) -> float:
    return math.sin(1.0 + i + 10.0 * piece)


def gradient(piece: int, i: int, step: int, value: float) -> float:
    return 0.5 * value + math.cos(0.3 * i + 0.7 * step + piece)


def factor(step: int) -> float:
    return 1.0 - (step - 1) / (2.0 * STEPS)


def run(kind: str, options: dict) -> dict:
    parameters = []
    for piece, shape in enumerate(SHAPES):
        values = [start(piece, i) for i in range(math.prod(shape))]
        parameters.append(torch.tensor(values, dtype=torch.float64).reshape(shape).requires_grad_())
    made = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "adagrad": torch.optim.Adagrad,
            "sgd": torch.optim.SGD}[kind](parameters, **options)
    kept = {}
    for step in range(1, STEPS + 1):
        for piece, parameter in enumerate(parameters):
            values = parameter.detach().flatten().tolist()
            grads = [gradient(piece, i, step, value) for i, value in enumerate(values)]
            parameter.grad = torch.tensor(grads, dtype=torch.float64).reshape(SHAPES[piece])
        made.param_groups[0]["lr"] = options["lr"] * factor(step)
        made.step()
        if step in KEPT_STEPS:
            kept[str(step)] = [parameter.detach().flatten().tolist() for parameter in parameters]
    return kept


def main() -> None:
    cases = []
    for name, kind, options in CASES:
        case = {"name": name, "type": kind, "options": options, "values": run(kind, options)}
        cases.append("  " + json.dumps(case))
    print("{")
    print(f' "torch": {json.dumps(torch.__version__)},')
    print(f' "shapes": {json.dumps(SHAPES)},')
    print(' "cases": [\n' + ",\n".join(cases) + "\n ]")
    print("}")


if __name__ == "__main__":
    main()
