# SPDX-License-Identifier: Apache-2.0
"""A llama of 125 M parameters in bf16 on a GPU: the host against eager PyTorch and torch.compile.

A round runs each program once, and a figure is the median of the ratios within the rounds. Without a
GPU, or what a run on one needs, the rows say what is missing.
"""
import ctypes
import statistics

import programs
from table import Row, at_least

TOKENS_A_STEP = 8 * 1024
PEERS = {"eager": ("eager PyTorch", 1.1), "compile": ("torch.compile", 0.95)}


def what(name):
    return f"on a GPU: `llama` of 125 M parameters, bf16, tokens/s against {PEERS[name][0]}"


def missing():
    """Why nothing can be measured; "" where it can."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no CUDA driver"
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "no CUDA device"
    if not (programs.BUILD / "lib/tenon_cuda.so").exists():
        return "this build has no CUDA module"
    return ""


def measure(quick):
    programs.say("gpu: looking for a device")
    why = missing()
    if why:
        return [Row(what(name), f"at least {goal}", f"skipped: {why}", None)
                for name, (_, goal) in PEERS.items()], {"missing": why}
    num_rounds, warmup, steps = (1, 1, 3) if quick else (5, 10, 50)
    rounds = []
    for i in range(num_rounds + 1):  # the first, which compiles and fills caches, is not counted
        programs.say(f"gpu: round {i} of {num_rounds}")
        one = {"host": programs.host("gpu.json", warmup, steps)}
        if programs.has_peers():
            one.update({name: programs.peer("gpu_peer.py", name, warmup, steps) for name in PEERS})
        rounds.append(one)
    del rounds[0]
    ours = statistics.median(TOKENS_A_STEP / one["host"]["step_s"] for one in rounds)
    rows = []
    for name, (_, goal) in PEERS.items():
        if not programs.has_peers():
            rows.append(Row(what(name), f"at least {goal}", f"{ours:,.0f} tokens/s; {programs.NO_PEERS}", None))
            continue
        ratio = statistics.median(one[name]["step_s"] / one["host"]["step_s"] for one in rounds)
        theirs = statistics.median(TOKENS_A_STEP / one[name]["step_s"] for one in rounds)
        rows.append(at_least(what(name), goal, ratio, f" ({ours:,.0f} against {theirs:,.0f})"))
    return rows, {"rounds": rounds, "warmup": warmup, "steps": steps}
