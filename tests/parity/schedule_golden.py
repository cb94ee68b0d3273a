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
]

if __name__ == "__main__":
    keys = ("name", "type", "options", "values")
    print("[\n" + ",\n".join(json.dumps(dict(zip(keys, case))) for case in CASES) + "\n]")
