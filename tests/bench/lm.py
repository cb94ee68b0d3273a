# SPDX-License-Identifier: Apache-2.0
"""A small language model: the host, with its default and with plain kernels, and its peers.

A round runs each program with one and with two threads. Ratios are taken within a round. Peers are set up as their users
do, and with every courtesy that we know: fused AdamW, torch.compile with mode="max-autotune", oneDNN instead of the BLAS
in linear layers, and a process that keeps freed memory and whose threads sleep early. The fastest of them all counts.
"""
import statistics

import llamas
import programs
from table import Group, Result, at_least, at_most, by_clock, not_measured, ratios

USERS_PEERS = {"loop": "PyTorch loop", "fused": "PyTorch loop, fused AdamW", "fused+compile": "torch.compile, fused AdamW",
               "lightning": "Lightning", "hf": "Hugging Face Trainer"}
TUNED_PEERS = {"fused+tuned": "PyTorch loop, fused AdamW, tuned process",
               "fused+onednn+tuned": "PyTorch loop, fused AdamW, tuned process, oneDNN products",
               "fused+compile+tuned": "torch.compile, fused AdamW, tuned process",
               "fused+compile+max+tuned": "torch.compile max-autotune, fused AdamW, tuned process",
               "fused+compile+onednn+tuned": "torch.compile, fused AdamW, tuned process, oneDNN products"}
SPEED_GOALS = {"tenon": 1.6, "plain": 1.0}
SHARE_GOAL = 70
THREADS_GOAL = 1.8
MEMORY_GOAL = 0.6
START_GOAL_S = 0.6


def footprint(raw, peers):
    """Startup and peak memory over all thread counts."""
    some = [one for found in raw.values() for one in found]
    names = {**llamas.KERNELS, **{name: text for name, text in USERS_PEERS.items() if name in peers}}
    result = Result([
        Group("start of the process to the end of the first step, s",
              {text: [one[name]["first_step_s"] for one in some] for name, text in names.items()}),
        Group("peak memory of the process, MiB",
              {text: [one[name]["peak_mib"] for one in some] for name, text in names.items()}, 0)])
    start = max(statistics.median(one[kernels]["first_step_s"] for one in found)
                for found in raw.values() for kernels in llamas.KERNELS)
    result.goals.append(by_clock(at_most("lm", "start to the first step", START_GOAL_S, start, " s")))
    what = "peak memory / peak memory of the PyTorch loop"
    if "loop" in names:
        memory = max(statistics.median(ratios(found, lambda run: run["peak_mib"], kernels, "loop"))
                     for found in raw.values() for kernels in llamas.KERNELS)
        result.goals.append(at_most("lm", what, MEMORY_GOAL, memory))
    else:
        result.goals += not_measured("lm", [f"{what}, at most {MEMORY_GOAL}"])
    return result


def second_thread(raw, names):
    groups = llamas.gain_of_second_thread(raw[1], raw[2], names)
    gain = statistics.median(groups[0].rows["Tenon"])
    return Result(groups, [by_clock(at_least("lm", "tokens/s, 2 threads / 1 thread", THREADS_GOAL, gain))])


def measure(quick, num_rounds=5):
    shape, num_rounds, warmup, steps = ("tiny", 1, 1, 3) if quick else ("small", num_rounds, 5, 30)
    peers = {**USERS_PEERS, **TUNED_PEERS} if programs.has_peers() else {}
    names = [*llamas.KERNELS, *peers, *(["sgemm"] if peers else [])]
    result, counts = Result(notes=[] if peers else [programs.NO_PEERS]), (1, 2)
    if not quick:
        llamas.fill_caches("lm", shape, names, counts)
    raw = llamas.rounds("lm", shape, names, counts, num_rounds, warmup, steps)
    for threads in counts:
        text = llamas.threads_text(threads)
        result.groups += llamas.speed_groups(text, shape, raw[threads], llamas.KERNELS, peers)
        result.goals += llamas.speed_goals("lm", text, SPEED_GOALS, raw[threads], peers, threads)
        if peers:
            result.groups += [llamas.share_group(text, shape, raw[threads], llamas.KERNELS, peers),
                              llamas.sgemm_group(text, raw[threads])]
    result.goals += llamas.share_goal("lm", "1 thread", shape, SHARE_GOAL, raw[1])
    result.add("second thread", second_thread(raw, {**llamas.KERNELS, **peers}))
    result.add("footprint", footprint(raw, peers))
    result.raw = {"rounds": raw, "warmup": warmup, "steps": steps}
    return result
