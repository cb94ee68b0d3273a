# SPDX-License-Identifier: Apache-2.0
"""What measuring kernels costs a first run: start to the end of the first step with an empty and with a warm cache of
choices. Plugins are vetted in both."""
import pathlib
import statistics
import tempfile

import llamas
import programs
import sparse
from table import Group, Result, at_most, by_clock

GOAL_S = 0.1
CASES = {
    "small llama, 1 thread": (llamas.RECIPE, lambda steps: llamas.sets_of("small", "tenon", 1)),
    "small llama, 2 threads": (llamas.RECIPE, lambda steps: llamas.sets_of("small", "tenon", 2)),
    "85 M llama, 2 threads": (llamas.RECIPE, lambda steps: llamas.sets_of("large", "tenon", 2)),
    "click model": (sparse.RECIPE, lambda steps: sparse.sets_of(1, steps + 1)),
}


def first_step(recipe, sets, cache, is_empty):
    """One run; `cache` is its cache folder."""
    choices = pathlib.Path(cache, "tenon/kernels.json")
    if is_empty:
        choices.unlink(missing_ok=True)
    values = programs.host(recipe, 1, 1, sets, environment={"XDG_CACHE_HOME": cache})
    if is_empty and not choices.exists():
        raise programs.Failed(f"{recipe}: the run kept no choices in {choices.name}")
    return values


def measure(quick, num_rounds=7):
    cases = dict(list(CASES.items())[:1]) if quick else CASES
    result = Result()
    with tempfile.TemporaryDirectory() as cache:
        for text, (recipe, sets) in cases.items():
            first_step(recipe, sets(1), cache, is_empty=False)  # vets plugins, and reads them from the disk
            rounds = []
            for i in range(1 if quick else num_rounds):
                programs.say(f"start, {text}: round {i + 1} of {1 if quick else num_rounds}")
                one = {}
                for name in programs.in_turn(["empty", "warm"], i):
                    one[name] = first_step(recipe, sets(1), cache, name == "empty")
                rounds.append(one)
            later, cpu_later = ([one["empty"][key] - one["warm"][key] for one in rounds]
                                for key in ("first_step_s", "cpu_first_step_s"))
            result.groups += [
                Group(f"start of the process to the end of the first step, s, {text}", {
                    f"{name} cache of choices": [one[name]["first_step_s"] for one in rounds] for name in ("empty", "warm")}),
                Group(f"empty - warm, s, {text}", {"by the clock": later, "CPU time of all threads": cpu_later}, 3)]
            cpu_s = statistics.median(cpu_later)
            goal = by_clock(at_most("start", f"first step with an empty cache of choices, later than with a warm one, {text}",
                                    GOAL_S, statistics.median(later), " s", 3))
            goal.measured += f"; CPU time {cpu_s:.3f} s"
            goal.is_met_by_cpu = None if "2 threads" in text else cpu_s <= GOAL_S
            result.goals.append(goal)
            result.raw[text] = rounds
    return result
