# SPDX-License-Identifier: Apache-2.0
"""Llamas of several sizes, trained by the host and by peers, and the tables that their workloads share.

A program is "tenon" (the default kernels), "plain" (libtorch's operators only), "sgemm" (the machine's matrix products
alone), or a peer: the words of peers/lm_peer.py, and "tuned", with the settings of `programs.tuned_process`.
"""
import os
import statistics

import cpu
import programs
from peers.shapes import SHAPES
from table import Group, at_least, not_measured, ratio_group, ratios, speed_goal, speed_ratios

RECIPE = "lm.json"
KERNELS = {"tenon": "Tenon", "plain": "Tenon, plain kernels"}
SGEMM_SIZE = 2048


def sets_of(shape, program, threads):
    sets = [f"threads.compute={threads}"] + (["kernels=plain"] if program == "plain" else [])
    return sets + ([] if shape == "small" else SHAPES[shape].overrides())


def threads_text(threads):
    return f"{threads} thread{'s' if threads > 1 else ''}"


def caches(threads):
    """Folders of compiled code and of measured choices. Compiled code contains the number of threads and the instruction
    sets, but the keys of the caches do not."""
    switches = "-".join(switch.partition("=")[2] for switch in cpu.switches_set(os.environ)).lower()
    folder = programs.FOLDER / f"caches{'-' + switches if switches else ''}"
    return {"TORCHINDUCTOR_CACHE_DIR": str(folder / f"inductor-{threads}"),
            **({"XDG_CACHE_HOME": str(folder)} if switches else {})}


def run(shape, program, threads, warmup, steps, sets=(), environment=None):
    """The values of one run. `sets` are more settings of the host."""
    environment = {**caches(threads), **(environment or {})}
    if program in KERNELS:
        return programs.host(RECIPE, warmup, steps, [*sets_of(shape, program, threads), *sets], environment=environment)
    if program == "sgemm":
        return programs.peer("sgemm_peer.py", threads, 256 if shape.startswith("tiny") else SGEMM_SIZE, 3)
    words = program.split("+")
    if "tuned" in words:
        environment.update(programs.tuned_process())
    return programs.peer("lm_peer.py", shape, "+".join(word for word in words if word != "tuned"), threads, warmup, steps,
                         environment=environment)


def fill_caches(label, shape, names, thread_counts):
    """The host vets its plugins and measures its kernels once, and torch.compile compiles once, which takes minutes."""
    for threads in thread_counts:
        programs.say(f"{label}, {threads_text(threads)}: filling caches")
        for name in names:
            if name in KERNELS or "compile" in name:
                run(shape, name, threads, 1, 1)


def rounds(label, shape, names, thread_counts, num_rounds, warmup, steps):
    """From the number of threads to its rounds. A round runs each program with each number of threads."""
    found = {threads: [] for threads in thread_counts}
    for i in range(num_rounds):
        for threads in programs.in_turn(thread_counts, i):
            programs.say(f"{label}, {threads_text(threads)}: round {i + 1} of {num_rounds}")
            found[threads].append({name: run(shape, name, threads, warmup, steps)
                                   for name in programs.in_turn(names, i)})
    return found


def speed_groups(what, shape, some, ours, peers):
    """Tables of some rounds; ours and peers: from the program to its name, `what` such as "1 thread"."""
    names = {**ours, **peers}
    groups = [
        Group(f"tokens/s, {what}",
              {text: [SHAPES[shape].tokens / one[name]["step_s"] for one in some] for name, text in names.items()}, 0),
        Group(f"CPU time of a step, all threads, ms, {what}",
              {text: [1000 * one[name]["cpu_step_s"] for one in some] for name, text in names.items()}, 0)]
    if peers:
        groups[1:1] = [ratio_group(f"tokens/s / tokens/s of the fastest peer, {what}", some, ours, peers)]
        groups += [ratio_group(f"CPU time of the fastest peer / CPU time, {what}", some, ours, peers, "cpu_step_s")]
    return groups


def speed_goals(workload, what, goals, some, peers, threads):
    """goals: from our program to its ratio."""
    found = []
    for name, goal in goals.items():
        text = f"tokens/s{', plain kernels' if name == 'plain' else ''} / fastest peer, {what}"
        found += ([speed_goal(workload, text, goal, some, name, peers, threads)] if peers else
                  not_measured(workload, [f"{text}, at least {goal}"]))
    return found


def share(shape, run_values, sgemm, key="step_s", rate="rate"):
    """Operations of a step by its formula, per second, over those of the fastest matrix product."""
    return SHAPES[shape].operations / (run_values[key] * max(sgemm[rate].values()))


def share_group(what, shape, some, ours, peers):
    """Shares in percent, by CPU time; the peer is the fastest one."""
    names = dict(ours)
    peer, _ = speed_ratios(some, next(iter(ours)), peers, "cpu_step_s")
    names[peer] = peers[peer]
    return Group(f"share of the machine's SGEMM rate, by CPU time, %, {what}", {
        text: [100 * share(shape, one[name], one["sgemm"], "cpu_step_s", "cpu_rate") for one in some]
        for name, text in names.items()}, 0)


def sgemm_group(what, some):
    """GFLOP/s of the libraries of the peers; the host's libraries are the same ones."""
    return Group(f"SGEMM of size {SGEMM_SIZE:,}, GFLOP per second of CPU time, {what}", {
        text: [1e-9 * one["sgemm"]["cpu_rate"][name] for one in some]
        for name, text in (("blas", "MKL"), ("onednn", "oneDNN"))}, 0)


def share_goal(workload, what, shape, goal, some):
    """Counts by CPU time, on an idle machine too: one thread."""
    text = f"share of the SGEMM rate, {what}"
    if "sgemm" not in some[0]:
        return not_measured(workload, [f"{text}, at least {goal}%"])
    value = statistics.median(share(shape, one["tenon"], one["sgemm"], "cpu_step_s", "cpu_rate") for one in some)
    return [at_least(workload, text, goal, 100 * value, "%", 0)]


def gain_of_second_thread(one, two, names):
    """Speed with two threads over speed with one, within rounds, and CPU time of a step likewise."""
    both = [{"one": a, "two": b} for a, b in zip(one, two)]

    def found(name, key, above, below):
        return ratios([{which: runs[name] for which, runs in pair.items()} for pair in both],
                      lambda values: values[key], above, below)

    return [Group("tokens/s, 2 threads / 1 thread",
                  {text: found(name, "step_s", "one", "two") for name, text in names.items()}),
            Group("CPU time of a step, 2 threads / 1 thread",
                  {text: found(name, "cpu_step_s", "two", "one") for name, text in names.items()})]
