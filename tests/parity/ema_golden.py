# SPDX-License-Identifier: Apache-2.0
"""Writes ema_golden.json: averages by torch.optim.swa_utils of a parameter that changes by a fixed
rule. Needs torch.

    python3 tests/parity/ema_golden.py
"""
import json
import pathlib

import torch
from torch.optim.swa_utils import get_ema_multi_avg_fn

UPDATES = 12
SIZE = 7


def parameter(update):
    """The parameter after an update; the test computes the same values, which are exact."""
    values = [((update * 37 + i * 11) % 64 - 32) / 16 for i in range(SIZE)]
    return torch.tensor(values, dtype=torch.float32)


def averages(decay, start, every, warm_up):
    average = parameter(1).clone()
    after = []
    for update in range(1, UPDATES + 1):
        since = update - start
        if since <= 0:
            average = parameter(update).clone()
        elif since % every == 0:
            n = since // every
            # tf.train.ExponentialMovingAverage(num_updates): min(decay, (1 + n) / (10 + n))
            now = min(decay, (1 + n) / (10 + n)) if warm_up else decay
            get_ema_multi_avg_fn(now)([average], [parameter(update)], None)
        after.append(average.tolist())
    return after


def main():
    cases = []
    for decay, start, every, warm_up in [
        (0.9, 1, 1, False),
        (0.3, 4, 1, False),
        (0.99, 2, 3, False),
        (0.999, 1, 1, True),
    ]:
        options = {"decay": decay, "start": start, "every": every, "warm_up": warm_up}
        cases.append({"options": options, "averages": averages(decay, start, every, warm_up)})
    path = pathlib.Path(__file__).with_name("ema_golden.json")
    text = {"torch": torch.__version__.split("+")[0], "cases": cases}
    path.write_text(json.dumps(text, indent=1) + "\n")


if __name__ == "__main__":
    main()
