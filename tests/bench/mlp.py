# SPDX-License-Identifier: Apache-2.0
"""A model so small that a step is mostly the overhead of the trainer: 64-128-10, batch 32, one thread.

A round runs each program once. The bare libtorch loop clips the gradient norm, so it is compared with a run of the
host that clips; the peers do not clip, so they are compared with a run that does not.
"""
import statistics

import llamas
import programs
from table import Goal, Group, Result, at_most, not_measured, ratios

PEERS = {"fused": "PyTorch loop, fused AdamW", "compile": "torch.compile, fused AdamW", "lightning": "Lightning",
         "hf": "Hugging Face Trainer"}
PEER_GOALS = {"fused": 0.55, "lightning": 0.2, "hf": 0.15}
OVERHEAD_US = 5
RECIPE = "mlp.json"


def timing(warmup, steps):
    """The recipe has three stopwatches, so that an event has several hooks; this sets the second and the third."""
    return [f"hooks.{hook}.options.{key}" for hook in (1, 2) for key in (f"warmup={warmup}", f"steps={steps}")]


def run_program(name, warmup, steps):
    if name == "tenon":
        return programs.host(RECIPE, warmup, steps, [*timing(warmup, steps), "train.clip_grad_norm=null"])
    if name == "tenon_clips":
        return programs.host(RECIPE, warmup, steps, timing(warmup, steps))
    if name == "bare":
        # The mode of the math library that the host's default, "deterministic": true, asks for.
        text = programs.run([programs.FOLDER / "bare_mlp", warmup, steps], {"MKL_CBWR": "AUTO,STRICT"})
        return programs.last_line(text)
    return programs.peer("mlp_peer.py", name, warmup, steps,
                         environment={**llamas.caches(1), **programs.tuned_process()})


def goals_of(rounds, peers):
    overhead = statistics.median(1e6 * (one["tenon_clips"]["cpu_step_s"] - one["bare"]["cpu_step_s"]) for one in rounds)
    goals = [at_most("mlp", "CPU time of a step over that of a bare libtorch loop", OVERHEAD_US, overhead, " µs", 1)]
    for name, goal in PEER_GOALS.items():
        what = f"time of a step / time in {PEERS[name]}, at most {goal}"
        if name in peers:
            wall, cpu = (statistics.median(ratios(rounds, lambda run, key=key: run[key], "tenon", name))
                         for key in ("step_s", "cpu_step_s"))
            goals.append(Goal("mlp", what, f"{wall:.2f}; CPU time {cpu:.2f}", wall <= goal, cpu <= goal))
        else:
            goals += not_measured("mlp", [what])
    return goals


def measure(quick):
    num_rounds, warmup, steps = (1, 50, 200) if quick else (5, 200, 5000)
    peers = PEERS if programs.has_peers() else {}
    rounds = []
    for i in range(num_rounds):
        programs.say(f"mlp: round {i + 1} of {num_rounds}")
        names = programs.in_turn(["tenon", *peers, "tenon_clips", "bare"], i)
        rounds.append({name: run_program(name, warmup, steps) for name in names})

    def microseconds(name, value="step_s"):
        return [1e6 * one[name][value] for one in rounds]

    names, clipping = {"tenon": "Tenon", **peers}, {"tenon_clips": "Tenon", "bare": "bare libtorch loop"}
    groups = []
    for quantity, key in (("time", "step_s"), ("CPU time of all threads", "cpu_step_s")):
        groups.append(Group(f"{quantity} of a step, µs", {text: microseconds(name, key) for name, text in names.items()}, 1))
        if peers:
            groups.append(Group(f"{quantity} of a step, Tenon / program", {
                text: ratios(rounds, lambda run, key=key: run[key], "tenon", name) for name, text in peers.items()}))
        groups.append(Group(f"{quantity} of a step with clipping, µs",
                            {text: microseconds(name, key) for name, text in clipping.items()}, 1))
    return Result(groups, goals_of(rounds, peers), {"rounds": rounds, "warmup": warmup, "steps": steps},
                  [] if peers else [programs.NO_PEERS])
