# SPDX-License-Identifier: Apache-2.0
"""A model so small that a step is mostly the overhead of the trainer: 64-128-10, batch 32, one thread.

A round runs each program once. The bare libtorch loop clips the gradient norm, so it is compared with a run of the
host that clips; the peers do not clip, so they are compared with a run that does not.
"""
import statistics

import programs
from table import Group, Result, at_most, not_measured, ratios

PEERS = {"fused": "PyTorch loop, fused AdamW", "lightning": "Lightning", "hf": "Hugging Face Trainer"}
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
    return programs.peer("mlp_peer.py", name, warmup, steps)


def goals_of(rounds, peers):
    overhead = statistics.median(1e6 * (one["tenon_clips"]["cpu_step_s"] - one["bare"]["cpu_step_s"]) for one in rounds)
    goals = [at_most("mlp", "CPU time of a step over that of a bare libtorch loop", OVERHEAD_US, overhead, " µs", 1)]
    for name, goal in PEER_GOALS.items():
        what = f"time of a step / time in {PEERS[name]}"
        if name in peers:
            value = statistics.median(ratios(rounds, lambda run: run["step_s"], "tenon", name))
            goals.append(at_most("mlp", what, goal, value))
        else:
            goals += not_measured("mlp", [f"{what}, at most {goal}"])
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

    clipping = {"tenon_clips": "Tenon", "bare": "bare libtorch loop"}
    groups = [
        Group("time of a step, µs", {"Tenon": microseconds("tenon"),
                                     **{title: microseconds(name) for name, title in peers.items()}}, 1),
        Group("time of a step with clipping, µs", {title: microseconds(name) for name, title in clipping.items()}, 1),
        Group("CPU time of a step with clipping, user and system, all threads, µs",
              {title: microseconds(name, "cpu_step_s") for name, title in clipping.items()}, 1)]
    if peers:
        groups.insert(1, Group("time of a step, Tenon / program", {
            title: ratios(rounds, lambda run: run["step_s"], "tenon", name) for name, title in peers.items()}))
    return Result(groups, goals_of(rounds, peers), {"rounds": rounds, "warmup": warmup, "steps": steps},
                  [] if peers else [programs.NO_PEERS])
