# SPDX-License-Identifier: Apache-2.0
"""The small llama on all cores while a busy process runs on each core: what share of its idle speed each program keeps."""
import contextlib
import os
import statistics
import subprocess
import sys

import llamas
import lm
import programs
from table import Group, Result, at_least, by_clock, not_measured

PEERS = {name: {**lm.USERS_PEERS, **lm.TUNED_PEERS}[name] for name in ("fused", "fused+compile", "fused+tuned")}
# Ends with its parent, whatever happens to it.
SPIN = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
while os.getppid() == int(sys.argv[2]):
    for _ in range(1_000_000):
        pass
"""


@contextlib.contextmanager
def busy_cores(cores):
    """One process per core that computes all the time."""
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN, str(core), str(os.getpid())]) for core in cores]
    try:
        yield spinning
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def kept(one):
    """The share of the idle speed that is left."""
    return one["idle"]["step_s"] / one["busy"]["step_s"]


def measure(quick, num_rounds=5):
    shape, num_rounds, warmup, steps = ("tiny", 1, 1, 3) if quick else ("small", num_rounds, 5, 20)
    cores = sorted(os.sched_getaffinity(0))
    peers = PEERS if programs.has_peers() else {}
    names, rounds = {"tenon": "Tenon", **peers}, []
    if not quick:
        llamas.fill_caches("neighbor", shape, names, (len(cores),))
    for i in range(num_rounds):
        programs.say(f"neighbor: round {i + 1} of {num_rounds}")
        one = {}
        for name in programs.in_turn(names, i):
            one[name] = {"idle": llamas.run(shape, name, len(cores), warmup, steps)}
            with busy_cores(cores):
                one[name]["busy"] = llamas.run(shape, name, len(cores), warmup, steps)
        rounds.append(one)
    tokens = llamas.SHAPES[shape].tokens
    groups = [Group(f"tokens/s, {title}", {text: [tokens / one[name][state]["step_s"] for one in rounds]
                                           for name, text in names.items()}, 0)
              for state, title in (("idle", "no other process"), ("busy", "one busy process per core"))]
    groups += [
        Group("share of the speed that is left beside busy processes",
              {text: [kept(one[name]) for one in rounds] for name, text in names.items()}),
        Group("CPU time of a step beside busy processes / CPU time without",
              {text: [one[name]["busy"]["cpu_step_s"] / one[name]["idle"]["cpu_step_s"] for one in rounds]
               for name, text in names.items()})]
    what = "share of speed left beside busy processes / share of the peer that keeps most"
    goals = not_measured("neighbor", [f"{what}, at least 1.0"])
    if peers:
        best = max(peers, key=lambda name: statistics.median(kept(one[name]) for one in rounds))
        share = statistics.median(kept(one["tenon"]) / kept(one[best]) for one in rounds)
        goals = [by_clock(at_least("neighbor", what, 1.0, share))]
    return Result(groups, goals, {"rounds": rounds, "warmup": warmup, "steps": steps},
                  [] if peers else [programs.NO_PEERS])
