# SPDX-License-Identifier: Apache-2.0
"""The hosts of two checkouts on the same workloads: this checkout against another, for a change before and after.

A pair runs both hosts in turn, in the other order in every second pair. Each host runs the recipes, the plugins and the
data of its own checkout. A ratio is taken within a pair; below 1, this checkout is faster.
"""
import dataclasses
import pathlib
import typing

import llamas
import mlp
import programs
import sparse
from table import Group, Result, ratios

LEAST_PAIRS = 5


@dataclasses.dataclass
class Case:
    title: str
    recipe: str
    steps: tuple  # warmup and timed
    quick_steps: tuple
    sets: typing.Callable  # from warmup and timed steps to overrides


def lm_case(kernels, threads):
    return Case(f"{llamas.KERNELS[kernels]}, {llamas.threads_text(threads)}", llamas.RECIPE, (5, 30), (1, 3),
                lambda warmup, steps: llamas.sets_of("small", kernels, threads))


def sparse_case(threads):
    return Case(llamas.threads_text(threads), sparse.RECIPE, (97, 97), (3, 3),
                lambda warmup, steps: sparse.sets_of(threads, steps))


CASES = {
    "mlp": [Case("1 thread", mlp.RECIPE, (200, 5000), (50, 200), mlp.timing)],
    "lm": [lm_case("plain", 1), lm_case("tenon", 1), lm_case("plain", 2), lm_case("tenon", 2)],
    "sparse": [sparse_case(1), sparse_case(2)],
}


def other(folder):
    """The checkout in a folder.

    Raises `Failed` if its programs are not built.
    """
    root = pathlib.Path(folder).resolve()
    found = programs.Checkout(root, root / "build")
    for path in (found.build / "bin/host", found.build / "plugins", found.build / "bench/plugins", root / "data"):
        if not path.exists():
            raise programs.Failed(f"{path}: not found; run `./dev build` in {root}")
    return found


def measure(name, there, num_pairs, quick):
    checkouts = {"this": programs.OURS, "other": there}
    result = Result()
    for case in CASES[name]:
        warmup, steps = case.quick_steps if quick else case.steps

        def run(which, count=steps, before=warmup):
            return programs.host(case.recipe, before, count, case.sets(before, count), checkout=checkouts[which])

        if not quick:
            for which in checkouts:  # the host vets its plugins once
                run(which, *case.quick_steps[::-1])
        pairs = []
        for i in range(num_pairs):
            programs.say(f"{name}, {case.title}: pair {i + 1} of {num_pairs}")
            pairs.append({which: run(which) for which in programs.in_turn(checkouts, i)})
        wall, cpu = (ratios(pairs, lambda values, key=key: values[key], "this", "other")
                     for key in ("step_s", "cpu_step_s"))
        result.groups.append(Group(f"{case.title}, this / other", {"time of a step": wall, "CPU time of a step": cpu}, 3))
        result.raw[case.title] = pairs
    return result
