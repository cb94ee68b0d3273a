# SPDX-License-Identifier: Apache-2.0
"""Larger language models: 85 M parameters with sequences of 512, and 75 M with grouped heads (8 for queries, 2 for keys
and values) and sequences of 2,048; one sequence a step. A step takes seconds, so rounds have few steps, and the first step
is not timed.
"""
import statistics

import llamas
import programs
from table import Group, Result, at_least, at_most, by_clock, not_measured, ratios

PEERS = {"loop": "PyTorch loop", "fused+tuned": "PyTorch loop, fused AdamW, tuned process",
         "fused+compile+tuned": "torch.compile, fused AdamW, tuned process"}
THREADS_GOAL = 1.8
SHARE_GOAL = 80
MEMORY_GOAL = 0.6
# Name, shape, shape of quick runs, numbers of threads, timed steps, speed goal.
CASES = (("85 M, T = 512", "large", "tiny", (1, 2), 2, 1.25),
         ("grouped heads, T = 2,048", "grouped", "tiny-grouped", (1,), 1, 1.5))


def memory(text, found, peers):
    """Peak memory of the process over all numbers of threads, against eager PyTorch."""
    some = [one for of_threads in found.values() for one in of_threads]
    what = f"peak memory / peak memory of the PyTorch loop, {text}"
    result = Result([Group(f"peak memory of the process, MiB, {text}", {
        name_text: [one[name]["peak_mib"] for one in some]
        for name, name_text in {**llamas.KERNELS, **peers}.items()}, 0)])
    if peers:
        value = statistics.median(ratios(some, lambda run: run["peak_mib"], "tenon", "loop"))
        result.goals.append(at_most("lm-large", what, MEMORY_GOAL, value))
    else:
        result.goals += not_measured("lm-large", [f"{what}, at most {MEMORY_GOAL}"])
    return result


def case(quick, num_rounds, text, shape, counts, steps, goal):
    peers = PEERS if programs.has_peers() else {}
    names = [*llamas.KERNELS, *peers, *(["sgemm"] if peers else [])]
    if not quick:
        llamas.fill_caches(f"lm-large, {text}", shape, names, counts)
    found = llamas.rounds(f"lm-large, {text}", shape, names, counts, num_rounds, 1, steps)
    result = Result()
    for threads, some in found.items():
        what = f"{text}, {llamas.threads_text(threads)}"
        result.groups += llamas.speed_groups(what, shape, some, llamas.KERNELS, peers)
        result.goals += llamas.speed_goals("lm-large", what, {"tenon": goal}, some, peers, threads)
        if peers:
            result.groups += [llamas.share_group(what, shape, some, llamas.KERNELS, peers)]
    if len(found) > 1:
        gain = llamas.gain_of_second_thread(found[1], found[2], {**llamas.KERNELS, **peers})
        result.groups += gain
        result.goals += llamas.share_goal("lm-large", f"{text}, 1 thread", shape, SHARE_GOAL, found[1])
        result.goals.append(by_clock(at_least("lm-large", f"tokens/s, 2 threads / 1 thread, {text}", THREADS_GOAL,
                                              statistics.median(gain[0].rows["Tenon"]))))
    result.add("memory", memory(text, found, peers))
    result.raw = {"rounds": found, "steps": steps}
    return result


def measure(quick, num_rounds=3):
    result = Result(notes=[] if programs.has_peers() else [programs.NO_PEERS])
    for text, shape, quick_shape, counts, steps, goal in CASES:
        result.add(text, case(quick, 1 if quick else num_rounds, text, quick_shape if quick else shape, counts, steps, goal))
    return result
