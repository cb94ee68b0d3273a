# SPDX-License-Identifier: Apache-2.0
"""A Llama of 125 M parameters in bf16 on a GPU: the host, eager PyTorch and torch.compile.

A round runs each program once, and ratios are taken within a round. Without a GPU, or a build for GPUs, the workload is
skipped and prints the reason.
"""
import ctypes
import statistics

import programs
from table import Group, Result, at_least, not_measured, ratios

TOKENS_A_STEP = 8 * 1024
PEERS = {"eager": "eager PyTorch", "compile": "torch.compile"}
GOALS = {"eager": 1.1, "compile": 0.95}


def goal_text(name):
    return f"tokens/s / tokens/s of {PEERS[name]}"


def missing():
    """Why nothing can be measured; empty if the workload can run."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no CUDA driver"
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "no CUDA device"
    if not (programs.OURS.build / "lib/tenon_cuda.so").exists():
        return "this build has no CUDA module"
    return ""


def measure(quick):
    programs.say("gpu: looking for a device")
    why = missing()
    if why:
        goals = not_measured("gpu", [f"{goal_text(name)}, at least {goal}" for name, goal in GOALS.items()])
        return Result(goals=goals, raw={"missing": why}, notes=[f"Skipped: {why}."])
    num_rounds, warmup, steps = (1, 1, 3) if quick else (5, 10, 50)
    peers = PEERS if programs.has_peers() else {}
    rounds = []
    for i in range(num_rounds + 1):  # the first round compiles and fills caches; it is not counted
        programs.say(f"gpu: round {i} of {num_rounds}")
        one = {}
        for name in programs.in_turn(["tenon", *peers], i):
            one[name] = (programs.host("gpu.json", warmup, steps) if name == "tenon" else
                         programs.peer("gpu_peer.py", name, warmup, steps))
        rounds.append(one)
    del rounds[0]
    result = Result([Group("tokens/s", {
        title: [TOKENS_A_STEP / one[name]["step_s"] for one in rounds]
        for name, title in {"tenon": "Tenon", **peers}.items()}, 0)], notes=[] if peers else [programs.NO_PEERS])
    speed = {name: ratios(rounds, lambda run: run["step_s"], name, "tenon") for name in peers}
    if peers:
        result.groups.append(Group("tokens/s, Tenon / program", {PEERS[name]: speed[name] for name in peers}))
    for name, goal in GOALS.items():
        if name in speed:
            result.goals.append(at_least("gpu", goal_text(name), goal, statistics.median(speed[name])))
        else:
            result.goals += not_measured("gpu", [f"{goal_text(name)}, at least {goal}"])
    result.raw = {"rounds": rounds, "warmup": warmup, "steps": steps}
    return result
