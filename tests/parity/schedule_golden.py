# SPDX-License-Identifier: Apache-2.0
"""Writes schedule_golden.json: the factors of transformers' and PyTorch's schedules in 100 steps.

    python tests/parity/schedule_golden.py > tests/parity/schedule_golden.json
"""

import json

import torch
import transformers

STEPS = 100
HF = {"warmup_form": "huggingface", "warmup_steps": 10}


def factors(make, rate=1.0):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=rate)
    schedule = make(optimizer)
    values = []
    for step in range(STEPS):
        values.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if step + 1 < STEPS:
            schedule.step()
    return values


def wsd(shape, floor=0.0, warmup=10):
    return factors(lambda o: transformers.get_wsd_schedule(
        o, warmup, 30, num_training_steps=STEPS, decay_type=shape, min_lr_ratio=floor))


def one_cycle(**options):
    return factors(lambda o: torch.optim.lr_scheduler.OneCycleLR(
        o, 1.0, STEPS, cycle_momentum=False, **options))


def chain_of_three():
    lr = torch.optim.lr_scheduler
    return factors(lambda o: lr.SequentialLR(
        o, [lr.PolynomialLR(o, 30, power=2.0), lr.CosineAnnealingWarmRestarts(o, 7, T_mult=2),
            lr.StepLR(o, 10, gamma=0.5)], [30, 70]))


CASES = [
    ("wsd linear", "wsd", {**HF, "decay_steps": 30, "shape": "linear"}, wsd("linear")),
    ("wsd cosine", "wsd", {**HF, "decay_steps": 30, "shape": "cosine"}, wsd("cosine")),
    ("wsd sqrt", "wsd", {**HF, "decay_steps": 30}, wsd("1-sqrt")),
    ("wsd with a floor", "wsd", {"decay_steps": 30, "min_ratio": 0.1}, wsd("1-sqrt", 0.1, 0)),
    ("inverse_sqrt", "inverse_sqrt", HF,
     factors(lambda o: transformers.get_inverse_sqrt_schedule(o, 10))),
    ("inverse_sqrt with a timescale", "inverse_sqrt", {**HF, "timescale": 40},
     factors(lambda o: transformers.get_inverse_sqrt_schedule(o, 10, timescale=40))),
    ("one_cycle", "one_cycle", {}, one_cycle()),
    ("one_cycle linear", "one_cycle",
     {"anneal": "linear", "rise": 0.25, "div_factor": 10.0, "final_div_factor": 100.0},
     one_cycle(anneal_strategy="linear", pct_start=0.25, div_factor=10.0, final_div_factor=100.0)),
    ("one_cycle of three phases", "one_cycle", {"three_phase": True}, one_cycle(three_phase=True)),
    ("step at milestones", "step", {"milestones": [20, 21, 70], "gamma": 0.5},
     factors(lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [20, 21, 70], gamma=0.5))),
    ("step every 15", "step", {"every": 15, "gamma": 0.3},
     factors(lambda o: torch.optim.lr_scheduler.StepLR(o, 15, gamma=0.3))),
    ("step at one milestone", "step", {"milestones": [50]},
     factors(lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [50], gamma=0.1))),
    ("polynomial", "polynomial", {},
     factors(lambda o: torch.optim.lr_scheduler.PolynomialLR(o, STEPS))),
    ("polynomial of power 2.5", "polynomial", {"power": 2.5, "total_steps": 60},
     factors(lambda o: torch.optim.lr_scheduler.PolynomialLR(o, 60, power=2.5))),
    ("polynomial with a warmup and a floor", "polynomial", {**HF, "power": 3.0, "min_ratio": 0.2},
     factors(lambda o: transformers.get_polynomial_decay_schedule_with_warmup(
         o, 10, STEPS, lr_end=0.2, power=3.0))),
    ("restarts of equal cycles", "cosine_restarts", {"first_steps": 13},
     factors(lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 13))),
    ("restarts of growing cycles", "cosine_restarts",
     {"first_steps": 9, "multiplier": 2, "min_ratio": 0.05},
     factors(lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(
         o, 9, T_mult=2, eta_min=0.05))),
    ("restarts to the end", "cosine_restarts", {**HF, "cycles": 4},
     factors(lambda o: transformers.get_cosine_with_hard_restarts_schedule_with_warmup(
         o, 10, STEPS, num_cycles=4))),
    ("chain", "chain", {"schedules": [
        {"schedule": {"type": "polynomial", "options": {"power": 2.0}}, "steps": 30},
        {"schedule": {"type": "cosine_restarts",
                      "options": {"first_steps": 7, "multiplier": 2}}, "steps": 40},
        {"schedule": {"type": "step", "options": {"every": 10, "gamma": 0.5}}}]},
     chain_of_three()),
]

if __name__ == "__main__":
    keys = ("name", "type", "options", "values")
    print("[\n" + ",\n".join(json.dumps(dict(zip(keys, case))) for case in CASES) + "\n]")
