# SPDX-License-Identifier: Apache-2.0
"""Packing lengths of chats into rows of 2,048 tokens, one thread: see pack_lengths.cpp."""
import statistics

import programs
from table import Group, Result, at_least, at_most

GOAL_SECONDS = 1
GOAL_FILL = 0.99


def measure(quick):
    num_rounds, num_lengths = (1, 10_000) if quick else (5, 1_000_000)
    found = []
    for i in range(num_rounds):
        programs.say(f"packing: round {i + 1} of {num_rounds}")
        found.append(programs.last_line(programs.run([programs.FOLDER / "pack_lengths", num_lengths])))
    result = Result(raw={"rounds": found})
    seconds = [one["groups_s"] for one in found]
    fill = min(one["groups_fill"] for one in found)
    result.groups = [
        Group(f"seconds for {num_lengths:,} lengths", {
            "in groups of 16,384, with the shuffled order": seconds,
            "all at once, lengths alone": [one["whole_s"] for one in found]}, 3),
        Group("fill of the rows, %", {"in groups": [100 * fill], "all at once": [100 * found[0]["whole_fill"]]})]
    result.goals = [at_most("packing", f"seconds for {num_lengths:,} lengths", GOAL_SECONDS, statistics.median(seconds)),
                    at_least("packing", "fill of rows of 2,048 tokens", GOAL_FILL, fill)]
    return result
