# SPDX-License-Identifier: Apache-2.0
"""The small llama as on older processors: switches limit the host, its libraries and those of the peers to fewer
instruction sets. `./dev bench --isa` sets the same switches for any workload."""
import cpu
import llamas
import lm
import programs
from table import Group, Result, ratio_group, speed_goal

PEERS = {name: {**lm.USERS_PEERS, **lm.TUNED_PEERS}[name]
         for name in ("fused+tuned", "fused+compile+tuned", "fused+onednn+tuned")}


def measure(quick, num_rounds=3):
    processor = cpu.read()
    shape, num_rounds, warmup, steps = ("tiny", 1, 1, 2) if quick else ("small", num_rounds, 3, 10)
    peers = PEERS if programs.has_peers() else {}
    names = {**llamas.KERNELS, **peers}
    result = Result(notes=[] if peers else [programs.NO_PEERS])
    levels = processor.lesser_sets()
    if not levels:
        result.notes.append("Skipped: the processor has no set that can be switched off.")
    for level in levels:
        text = f"as {cpu.LIMITED[level]}, 1 thread"
        with programs.variables(cpu.SWITCHES[level]):
            if not quick:
                llamas.fill_caches(f"isa, {text}", shape, names, (1,))
            found = llamas.rounds(f"isa, {text}", shape, names, (1,), num_rounds, warmup, steps)[1]
        result.groups.append(Group(f"CPU time of a step, ms, {text}", {
            title: [1000 * one[name]["cpu_step_s"] for one in found] for name, title in names.items()}, 0))
        if peers:
            result.groups.append(ratio_group(f"CPU time of the fastest peer / CPU time, {text}", found, llamas.KERNELS,
                                             peers, "cpu_step_s"))
            result.goals += [speed_goal("isa", f"tokens/s{what} / fastest peer, {text}", lm.SPEED_GOALS[name], found, name,
                                        peers)
                             for name, what in (("tenon", ""), ("plain", ", plain kernels"))]
        result.raw[level] = found
    return result
