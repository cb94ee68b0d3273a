# SPDX-License-Identifier: Apache-2.0
"""The llama of 85 M parameters in bf16 on a CPU, against fp32. Processors without instructions for it skip this."""
import statistics

import cpu
import llamas
import programs
from table import Group, Result, at_least, by_clock, not_measured, ratios

PRECISIONS = ("fp32", "bf16_params", "bf16_autocast")
PEERS = {"fused+tuned": "PyTorch loop, fp32", "fused+bf16_params+tuned": "PyTorch loop, bf16_params",
         "fused+bf16_autocast+tuned": "PyTorch loop, bf16_autocast"}
GOAL = 2.0


def run(shape, name, threads, steps):
    if name in PRECISIONS:
        return llamas.run(shape, "tenon", threads, 1, steps, [f"train.precision={name}"])
    return llamas.run(shape, name, threads, 1, steps)


def compare(shape, num_rounds, steps):
    threads = cpu.num_cores()
    peers = PEERS if programs.has_peers() else {}
    names = {**{name: f"Tenon, {name}" for name in PRECISIONS}, **peers}
    rounds = []
    for i in range(num_rounds):
        programs.say(f"bf16: round {i + 1} of {num_rounds}")
        rounds.append({name: run(shape, name, threads, steps) for name in programs.in_turn(names, i)})

    def over_fp32(name, key="step_s"):
        return ratios(rounds, lambda values: values[key], "fp32" if name in PRECISIONS else "fused+tuned", name)

    lower = [name for name in names if "bf16" in name]
    result = Result(raw={"rounds": rounds, "steps": steps}, notes=[] if peers else [programs.NO_PEERS])
    result.groups = [
        Group(f"tokens/s, {llamas.threads_text(threads)}", {
            text: [llamas.SHAPES[shape].tokens / one[name]["step_s"] for one in rounds] for name, text in names.items()}, 0),
        Group("tokens/s / tokens/s of the same program in fp32", {names[name]: over_fp32(name) for name in lower}),
        Group("CPU time in fp32 / CPU time", {names[name]: over_fp32(name, "cpu_step_s") for name in lower}),
        Group("peak memory of the process, MiB", {
            text: [one[name]["peak_mib"] for one in rounds] for name, text in names.items()}, 0)]
    result.goals = [by_clock(at_least("bf16", f"tokens/s, {name} / fp32", GOAL, statistics.median(over_fp32(name))))
                    for name in PRECISIONS[1:]]
    return result


def measure(quick, num_rounds=3):
    if not {"avx512_bf16", "amx_bf16"} & cpu.read().flags:
        why = "the processor has neither AVX512-BF16 nor AMX"
        return Result(goals=not_measured("bf16", [f"tokens/s, {name} / fp32, at least {GOAL}" for name in PRECISIONS[1:]]),
                      raw={"missing": why}, notes=[f"Skipped: {why}."])
    return compare("tiny", 1, 1) if quick else compare("large", num_rounds, 2)
