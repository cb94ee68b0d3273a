# SPDX-License-Identifier: Apache-2.0
"""Each decoder plugin beside the same model in transformers: training steps of 4 layers of width 512 on 512 tokens.

The peer writes random weights, and both sides load them. A step is forward, loss, backward and a step of plain SGD. SGD costs
little, and the losses of later steps show that the gradients are equal too. Peers use scaled_dot_product_attention, or
eager attention for a model with a soft cap of scores, which the former does not support. Models with experts run with eager
experts and with grouped_mm; batched_mm copies the weights for each token, which takes gigabytes here.
"""
import pathlib
import statistics
import tempfile

import language
import programs
from peers.decoder_shapes import DENSE, EXPERTS, SHAPES, TOKENS
from table import Group, Result, not_measured, ratios

GOAL, GOAL_EXPERTS = 1.5, 3
GOALS = (f"forward and backward / transformers, slowest dense decoder, at least {GOAL}",
         f"forward and backward / transformers, slowest decoder with experts, at least {GOAL_EXPERTS}")


def peers(name):
    if name in EXPERTS:
        return ["sdpa+eager", "sdpa+grouped_mm"]
    return ["eager+eager"] if name == "gemma2" else ["sdpa+eager"]


def recipe(name, folder, text):
    made = language.recipe(
        "decoders", {"type": name, "options": SHAPES[name]},
        {"batch_size": 1, "train": {"type": "text", "options": {
            "path": str(text), "sequence_length": TOKENS, "tokenizer": {"type": "byte"}}}},
        {"type": "cross_entropy"}, {"type": "sgd", "options": {"lr": 0.01}})
    return {**made, "load": [{"from": str(folder)}]}


def run(name, program, folder, text, warmup, steps):
    if program == "tenon":
        return language.host(recipe(name, folder, text), warmup, steps)
    return programs.peer("decoders_peer.py", name, program, folder, text, warmup, steps, language.THREADS,
                         environment=programs.tuned_process())


def measure(quick, num_rounds=5, names=tuple(SHAPES)):
    why = language.missing(needs_lm=False)
    if why:
        return Result(goals=not_measured("decoders", GOALS), notes=[why])
    warmup, steps, num_rounds = (1, 2, 1) if quick else (3, 10, num_rounds)
    raw = {}
    with tempfile.TemporaryDirectory(prefix="bench-decoders-") as made:
        text = pathlib.Path(made, "text.txt")
        text.write_bytes((programs.ROOT / "data/kjv.txt").read_bytes()[:TOKENS + 1])
        for name in names:
            folder = pathlib.Path(made, name)
            programs.peer("decoders_peer.py", name, "make", folder)
            raw[name] = language.in_rounds(
                f"decoders, {name}", ["tenon", *peers(name)], num_rounds,
                lambda program, name=name, folder=folder: run(name, program, folder, text, warmup, steps))
    return tables(raw, warmup, steps)


def fastest(name, rounds, key="step_s"):
    return min(peers(name), key=lambda peer: statistics.median(one[peer][key] for one in rounds))


def tables(raw, warmup, steps):
    times, found, by_cpu = {}, {}, {}
    for name, rounds in raw.items():
        peer = fastest(name, rounds)
        times[f"Tenon, {name}"] = [1000 * one["tenon"]["step_s"] for one in rounds]
        times[f"transformers, {name}, {peer}"] = [1000 * one[peer]["step_s"] for one in rounds]
        found[name] = ratios(rounds, lambda run: run["step_s"], peer, "tenon")
        by_cpu[name] = ratios(rounds, lambda run: run["cpu_step_s"], fastest(name, rounds, "cpu_step_s"), "tenon")
    result = Result(
        groups=[Group(f"time of a step, ms, {language.THREADS} threads", times, 1),
                Group("speed, Tenon / transformers' fastest", found),
                Group("CPU time of transformers' cheapest / CPU time of Tenon", by_cpu)],
        raw={"rounds": raw, "warmup": warmup, "steps": steps})
    gap = max(language.greatest_gap(rounds, ["tenon", *peers(name)]) for name, rounds in raw.items())
    result.notes = [f"4 layers of width 512, {TOKENS} tokens a step, fp32; losses of all programs agree to {gap:.0e}."]
    for names, goal, text in ((DENSE, GOAL, "slowest dense decoder"),
                              (EXPERTS, GOAL_EXPERTS, "slowest decoder with experts")):
        here = [name for name in names if name in raw]
        if here:
            slowest = min(here, key=lambda name: statistics.median(found[name]))
            result.goals.append(language.speed_goal("decoders", f"forward and backward / transformers, {text} ({slowest})",
                                                    goal, found[slowest], by_cpu[slowest]))
    return result
