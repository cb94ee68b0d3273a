# SPDX-License-Identifier: Apache-2.0
"""Writes lm_optim_golden.json: what optimizers of language models do in 100 steps, by their authors' packages.

    pip install schedulefree==1.4.1 lion-pytorch==0.2.5 torchao==0.18.0
    python tests/parity/lm_optim_golden.py > tests/parity/lm_optim_golden.json

Muon and Adafactor are PyTorch's. Muon iterates in bf16; here it iterates in fp64, so that its results
do not depend on the machine. The test that reads the file (tests/plugins/lm_optimizers_test.cpp) has
the same formulas for start values and gradients.
"""

import json
import math

import lion_pytorch
import schedulefree
import torch
import torchao.optim.adam
from torchao.optim.subclass_8bit import OptimState8bit

STEPS = 100
KEPT_STEPS = [1, 2, 10, 100]

MIXED = [[3, 5], [7], [2, 3, 4]]
MATRICES = [[3, 5], [6, 4], [5, 5]]

CASES = [
    ("lion", "lion", {"lr": 1e-3}, MIXED, 0),
    ("lion with decay", "lion", {"lr": 2e-3, "betas": [0.95, 0.98], "weight_decay": 0.3}, MIXED, 0),
    ("schedule-free", "schedule_free_adamw", {"lr": 0.01}, MIXED, 0),
    ("schedule-free with a warmup and decay", "schedule_free_adamw",
     {"lr": 0.02, "betas": [0.95, 0.98], "weight_decay": 0.1}, MIXED, 15),
    ("schedule-free with weights", "schedule_free_adamw",
     {"lr": 0.01, "r": 0.5, "weight_lr_power": 1.0, "eps": 1e-6}, MIXED, 8),
    ("adafactor", "adafactor", {"lr": 0.01}, MIXED, 0),
    ("adafactor, all options", "adafactor",
     {"lr": 0.3, "beta2_decay": -0.6, "eps1": 1e-5, "eps2": 0.01, "d": 2.0, "weight_decay": 0.05},
     MIXED, 0),
    ("muon", "muon", {"lr": 0.02}, MATRICES, 0),
    ("muon without nesterov", "muon",
     {"lr": 0.01, "momentum": 0.9, "nesterov": False, "weight_decay": 0.0,
      "lr_factor": "match_rms_adamw"}, MATRICES, 0),
    ("muon, all options", "muon",
     {"lr": 0.05, "ns_coefficients": [2.0, -1.5, 0.5], "ns_steps": 9, "eps": 1e-3}, MATRICES, 0),
]

# 4500 elements do not fill their last block; torchao takes them with zeros behind.
BLOCK = 256
QUANTIZED = [4864, 4500]
KEPT_ELEMENTS = 23


def start(piece: int, i: int) -> float:
    return math.sin(1.0 + i + 10.0 * piece)


def gradient(piece: int, i: int, step: int, value: float) -> float:
    return 0.5 * value + math.cos(0.3 * i + 0.7 * step + piece)


def factor(step: int, warmup: int) -> float:
    return min(1.0, step / warmup) if warmup > 0 else 1.0 - (step - 1) / (2.0 * STEPS)


def quantized_gradient(piece: int, i: int, step: int) -> float:
    return math.cos(0.3 * i + 0.7 * step + piece) * 10.0 ** (-(i % 11) / 2.0)


def make(kind: str, options: dict, parameters: list, warmup: int):
    options = dict(options)
    if kind == "lion":
        return lion_pytorch.Lion(parameters, **options)
    if kind == "schedule_free_adamw":
        return schedulefree.AdamWScheduleFree(parameters, warmup_steps=warmup, foreach=False, **options)
    if kind == "adafactor":
        eps = (options.pop("eps1", None), options.pop("eps2", 1e-3))
        return torch.optim.Adafactor(parameters, eps=eps, **options)
    options["ns_coefficients"] = tuple(options.get("ns_coefficients", (3.4445, -4.7750, 2.0315)))
    return torch.optim.Muon(parameters, adjust_lr_fn=options.pop("lr_factor", "original"), **options)


def flat(parameters: list) -> list:
    return [parameter.detach().flatten().tolist() for parameter in parameters]


def run(kind: str, options: dict, shapes: list, warmup: int) -> dict:
    parameters = []
    for piece, shape in enumerate(shapes):
        values = [start(piece, i) for i in range(math.prod(shape))]
        parameters.append(torch.tensor(values, dtype=torch.float64).reshape(shape).requires_grad_())
    made = make(kind, options, parameters, warmup)
    is_schedule_free = kind == "schedule_free_adamw"
    if is_schedule_free:
        made.train()
    kept = {}
    evaluated = {}
    for step in range(1, STEPS + 1):
        for piece, parameter in enumerate(parameters):
            values = parameter.detach().flatten().tolist()
            grads = [gradient(piece, i, step, value) for i, value in enumerate(values)]
            parameter.grad = torch.tensor(grads, dtype=torch.float64).reshape(shapes[piece])
        if not is_schedule_free:
            made.param_groups[0]["lr"] = options["lr"] * factor(step, warmup)
        made.step()
        if step in KEPT_STEPS:
            kept[str(step)] = flat(parameters)
            if is_schedule_free:
                before = [parameter.detach().clone() for parameter in parameters]
                made.eval()
                evaluated[str(step)] = flat(parameters)
                made.train()
                for parameter, value in zip(parameters, before):
                    parameter.data.copy_(value)
    return {"values": kept, "evaluation": evaluated} if is_schedule_free else {"values": kept}


def run_quantized() -> dict:
    options = {"lr": 0.01, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}
    pieces = []
    for piece, numel in enumerate(QUANTIZED):
        padded = (numel + BLOCK - 1) // BLOCK * BLOCK
        value = torch.zeros(padded)
        value[:numel] = torch.tensor([start(piece, i) for i in range(numel)])
        mean = OptimState8bit.zeros([padded], True, BLOCK)
        square = OptimState8bit.zeros([padded], False, BLOCK)
        pieces.append((numel, padded, value, mean, square))
    kept = {}
    for step in range(1, STEPS + 1):
        for piece, (numel, padded, value, mean, square) in enumerate(pieces):
            grad = torch.zeros(padded)
            grad[:numel] = torch.tensor([quantized_gradient(piece, i, step) for i in range(numel)])
            torchao.optim.adam.single_param_adam(
                value, grad, torch.tensor(float(step)), mean, square, None,
                torch.tensor(options["lr"]), *options["betas"], options["weight_decay"],
                options["eps"], True, False)
        if step in KEPT_STEPS:
            kept[str(step)] = [
                {"values": [round(v, 9) for v in value[:numel:KEPT_ELEMENTS].tolist()],
                 "mean_codes": mean.codes[:numel:KEPT_ELEMENTS].tolist(),
                 "square_codes": square.codes[:numel:KEPT_ELEMENTS].tolist(),
                 "mean_scales": mean.scale.tolist(), "square_scales": square.scale.tolist()}
                for numel, _, value, mean, square in pieces]
    return {"options": options, "numels": QUANTIZED, "every": KEPT_ELEMENTS,
            "signed": torchao.optim.subclass_8bit.get_qmap_signed(),
            "unsigned": torchao.optim.subclass_8bit.get_qmap_unsigned(), "steps": kept}


def main() -> None:
    torch.Tensor.bfloat16 = lambda self: self.clone()  # Muon iterates in fp64
    cases = []
    for name, kind, options, shapes, warmup in CASES:
        case = {"name": name, "type": kind, "options": options, "shapes": shapes, "warmup": warmup}
        cases.append("  " + json.dumps({**case, **run(kind, options, shapes, warmup)}))
    print("{")
    print(f' "torch": {json.dumps(torch.__version__)},')
    print(' "cases": [\n' + ",\n".join(cases) + "\n ],")
    print(' "adamw8bit": ' + json.dumps(run_quantized()))
    print("}")


if __name__ == "__main__":
    main()
