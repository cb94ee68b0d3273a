# SPDX-License-Identifier: Apache-2.0
"""The cost of a call from the host into a plugin and back, in CPU time: see boundary.cpp.

Each of five runs of the program times every call ten times and prints the median."""
import statistics

import programs
from table import Group, Result, at_most

CALLS = (("call_ns", "a function of a component", 20), ("dispatch_ns", "an event to one hook", 20),
         ("call_op_ns", "`call_op`, in addition to a direct call of the operator", 200))


def measure(quick):
    num_rounds, calls = (1, 20_000) if quick else (5, 2_000_000)
    rounds = []
    for i in range(num_rounds):
        programs.say(f"abi: round {i + 1} of {num_rounds}")
        command = [programs.FOLDER / "boundary", programs.FOLDER / "plugins", programs.OURS.build / "plugins", calls]
        rounds.append(programs.last_line(programs.run(command)))
    samples = {key: [one[key] for one in rounds] for key, _, _ in CALLS}
    return Result(
        [Group("CPU time of a call, ns", {what: samples[key] for key, what, _ in CALLS}, 1)],
        [at_most("abi", what, goal, statistics.median(samples[key]), " ns", 1) for key, what, goal in CALLS],
        {"rounds": rounds, "calls": calls})
