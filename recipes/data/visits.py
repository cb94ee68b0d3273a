# SPDX-License-Identifier: Apache-2.0
"""Writes visits-train.csv and visits-eval.csv: synthetic shop customers, for features.json.

    python recipes/data/visits.py

`spent` and `pages` span several orders of magnitude. Whether a customer comes back depends on their
logarithms: customers in the middle range come back, with some noise.
"""

import math
import pathlib
import random

draw = random.Random(7)
folder = pathlib.Path(__file__).parent


def customer():
    spent = 10 ** draw.uniform(0, 6)
    pages = round(10 ** draw.uniform(0, 4))
    drive = 18 - 5 * abs(math.log(spent) - 7) - 4 * abs(math.log(pages) - 4.6)
    returns = draw.random() < 1 / (1 + math.exp(-drive))
    return f"{spent:.2f},{pages},{int(returns)}"


for name, rows in ("train", 400), ("eval", 200):
    lines = ["spent,pages,returns"] + [customer() for _ in range(rows)]
    (folder / f"visits-{name}.csv").write_text("\n".join(lines) + "\n")
