# SPDX-License-Identifier: Apache-2.0
"""A small language model: the host, with plain and with fused kernels, and six peers.

A round runs each program once. Ratios are taken within a round. Four peers are set up as their users do; goals count
against the fastest of these, the peer with the lowest ratio. Two more peers compute the products of their linear layers
with oneDNN, as the host does, so that a difference of the math library is not counted as one of the program.
"""
import statistics

import programs
from table import Group, Result, at_least, at_most, not_measured, ratios

TOKENS_A_STEP = 16 * 128
RECIPE = "lm.json"
KERNELS = {"fused": "Tenon, fused kernels", "plain": "Tenon, plain kernels"}
PEERS = {"bare": "PyTorch loop", "compile": "torch.compile, fused AdamW", "lightning": "Lightning",
         "hf": "Hugging Face Trainer"}
ONEDNN_PEERS = {"onednn": "PyTorch, oneDNN products", "compile-onednn": "torch.compile, fused AdamW, oneDNN products"}
SPEED_GOALS = {"plain": 1.05, "fused": 1.3}  # tokens/s, Tenon / fastest peer
MEMORY_GOAL = 0.6
START_GOAL_S = 0.6


def sets_of(kernels, threads):
    return [f"model.options.kernels={kernels}", f"threads.compute={threads}"]


def run_program(name, threads, warmup, steps):
    if name in KERNELS:
        return programs.host(RECIPE, warmup, steps, sets_of(name, threads))
    # A cache for each number of threads: compiled code contains the number, but the key of the cache does not.
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(programs.FOLDER / f"inductor-{threads}")}
    return programs.peer("lm_peer.py", name, threads, warmup, steps, environment=cache)


def threads_text(threads):
    return f"{threads} thread{'s' if threads > 1 else ''}"


def speed_groups(threads, rounds, names):
    groups = [Group(f"tokens/s, {threads_text(threads)}", {
        title: [TOKENS_A_STEP / one[name]["step_s"] for one in rounds] for name, title in names.items()}, 0)]
    if "compile" in names:
        groups.append(Group(f"tokens/s of Tenon / tokens/s of a peer, {threads_text(threads)}", {
            f"{kernels} kernels / {names[name]}": ratios(rounds, lambda run: run["step_s"], name, kernels)
            for kernels in KERNELS for name in ("compile", "onednn", "compile-onednn")}))
    return groups


def speed_goals(threads, rounds, has_peers):
    goals = []
    for kernels, goal in SPEED_GOALS.items():
        what = f"tokens/s, {kernels} kernels / fastest peer, {threads_text(threads)}"
        if not has_peers:
            goals += not_measured("lm", [f"{what}, at least {goal}"])
            continue
        value = min(statistics.median(ratios(rounds, lambda run: run["step_s"], name, kernels)) for name in PEERS)
        goals.append(at_least("lm", what, goal, value))
    return goals


def footprint(raw, names):
    """Startup and peak memory over all thread counts."""
    rounds = [one for found in raw.values() for one in found]
    names = {name: title for name, title in names.items() if name not in ONEDNN_PEERS}
    result = Result([
        Group("start of the process to the end of the first step, s",
              {title: [one[name]["first_step_s"] for one in rounds] for name, title in names.items()}),
        Group("peak memory of the process, MiB",
              {title: [one[name]["peak_mib"] for one in rounds] for name, title in names.items()}, 0)])
    start = max(statistics.median(one[kernels]["first_step_s"] for one in found)
                for found in raw.values() for kernels in KERNELS)
    result.goals.append(at_most("lm", "start to the first step", START_GOAL_S, start, " s"))
    what = "peak memory / peak memory of the PyTorch loop"
    if "bare" in names:
        memory = max(statistics.median(ratios(found, lambda run: run["peak_mib"], kernels, "bare"))
                     for found in raw.values() for kernels in KERNELS)
        result.goals.append(at_most("lm", what, MEMORY_GOAL, memory))
    else:
        result.goals += not_measured("lm", [f"{what}, at most {MEMORY_GOAL}"])
    return result


def warm_caches(threads, names):
    """The host vets its plugins once, and torch.compile compiles once, which takes a minute."""
    programs.say(f"lm, {threads_text(threads)}: filling caches")
    for name in names:
        if name in KERNELS or name.startswith("compile"):
            run_program(name, threads, 1, 1)


def measure(quick):
    num_rounds, warmup, steps = (1, 1, 3) if quick else (5, 5, 30)
    peers = {**PEERS, **ONEDNN_PEERS} if programs.has_peers() else {}
    names = {**KERNELS, **peers}
    result, raw = Result(missing=[] if peers else [programs.NO_PEERS]), {}
    for threads in (2,) if quick else (1, 2):
        if not quick:
            warm_caches(threads, names)
        raw[threads] = []
        for i in range(num_rounds):
            programs.say(f"lm, {threads_text(threads)}: round {i + 1} of {num_rounds}")
            raw[threads].append({name: run_program(name, threads, warmup, steps)
                                 for name in programs.in_turn(names, i)})
        result.groups += speed_groups(threads, raw[threads], names)
        result.goals += speed_goals(threads, raw[threads], bool(peers))
    result.add("footprint", footprint(raw, names))
    result.raw = {"rounds": raw, "warmup": warmup, "steps": steps}
    return result
