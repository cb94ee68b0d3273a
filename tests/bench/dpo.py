# SPDX-License-Identifier: Apache-2.0
"""DPO of SmolLM2 (135 M parameters) with a second model as reference, beside TRL.

A step is an epoch over the same 2 pairs of answers. Tenon puts the two sides of a pair into one row. TRL puts them into two
padded rows; it runs with one pair and with both pairs in a microbatch.
"""
import json
import pathlib
import tempfile

import language
import programs
from table import Result, not_measured, ratios

SAMPLES = (5, 14)  # of preferences-train.json: rows of 566 and 731 tokens
NAMES = {"tenon": "Tenon", "one": "TRL, a pair a microbatch", "both": "TRL, both pairs in a microbatch"}
BATCHES = {"one": (1, 2), "both": (2, 1)}  # pairs of a microbatch, microbatches
GOALS = ("time of a step / TRL's faster way, at most 0.5", "peak memory / TRL's faster way, at most 0.5")


def recipe(file):
    model = {"type": "llama", "options": language.SMOLLM2_OPTIONS}
    load = [{"from": str(language.SMOLLM2)}]
    made = language.recipe(
        "dpo", model, {"batch_size": 1, "train": {"type": "chat", "options": language.chats(file)}},
        {"type": "preference", "options": {"type": "dpo", "beta": 0.1}},
        {"type": "adamw", "options": {"lr": 5e-6, "weight_decay": 0.0}}, global_batch_size=2, clip_grad_norm=1.0)
    return {**made, "load": load, "models": {"reference": {**model, "optimizer": False, "load": load}}}


def run(name, file, warmup, steps):
    if name == "tenon":
        return language.host(recipe(file), warmup, steps)
    return programs.peer("trl_peer.py", "dpo", file, language.SMOLLM2, *BATCHES[name], warmup, steps, language.THREADS,
                         environment=programs.tuned_process())


def measure(quick, num_rounds=3):
    why = language.missing()
    if why:
        return Result(goals=not_measured("dpo", GOALS), notes=[why])
    steps = 1 if quick else 2
    with tempfile.TemporaryDirectory(prefix="bench-dpo-") as folder:
        file = pathlib.Path(folder, "pairs.json")
        samples = json.loads((language.LM / "preferences-train.json").read_text(encoding="utf-8"))
        file.write_text(json.dumps([samples[i] for i in SAMPLES]), encoding="utf-8")
        rounds = language.in_rounds("dpo", NAMES, 1 if quick else num_rounds, lambda name: run(name, file, 1, steps))
    return tables(rounds, steps)


def tables(rounds, steps):
    peer = min(BATCHES, key=lambda name: language.quartiles([one[name]["step_s"] for one in rounds])[1])
    found = ratios(rounds, lambda values: values["step_s"], "tenon", peer)
    by_cpu = ratios(rounds, lambda values: values["cpu_step_s"], "tenon", peer)
    gap = language.greatest_gap(rounds, list(NAMES))
    return Result(
        groups=[
            language.group("time of a step, s, 2 threads", rounds, NAMES, lambda values: values["step_s"]),
            language.group("CPU time of a step, all threads, s", rounds, NAMES, lambda values: values["cpu_step_s"]),
            language.ratios_group(f"time of a step, Tenon / {NAMES[peer]}", {"by the clock": found, "by CPU time": by_cpu}),
            language.group("peak memory of the process, MiB", rounds, NAMES, lambda values: values["peak_mib"], 0)],
        goals=[language.time_goal("dpo", "time of a step / TRL's faster way", 0.5, found, by_cpu),
               language.memory_goal("dpo", "peak memory / TRL's faster way", 0.5, rounds, "tenon", peer)],
        raw={"rounds": rounds, "steps": steps},
        notes=[f"2 pairs a step; AdamW, clipped; losses of all programs agree to {gap:.0e}."])
