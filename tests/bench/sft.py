# SPDX-License-Identifier: Apache-2.0
"""SFT of SmolLM2 (135 M parameters) on instructions, beside TRL with padded batches and with packed rows.

A step is an epoch over the same 10 instructions, so all programs train on the same tokens, whatever their order. Tenon and
TRL pack them into 2 rows of 1,024. Both compute the head and the loss in chunks, without recomputing activations.
"""
import json
import pathlib
import tempfile

import language
import programs
from table import Result, not_measured, ratios

SAMPLES = slice(13, 23)  # of instructions-train.json: 2,041 tokens, which fill 2 rows with the packing of both
TOKENS = 2041
NAMES = {"tenon": "Tenon, packed", "packed": "TRL, packed", "padded": "TRL, padded, 5 samples a batch"}
BATCHES = {"packed": (1, 2), "padded": (5, 2)}  # rows of a microbatch, microbatches
GOALS = ("trained tokens/s / TRL's faster way, at least 2", "peak memory / TRL's faster way, at most 0.5")


def recipe(file):
    made = language.recipe(
        "sft", {"type": "llama", "options": language.SMOLLM2_OPTIONS},
        {"batch_size": 1, "train": {"type": "chat", "options": language.chats(file), "packing": {"length": 1024}}},
        {"type": "cross_entropy"}, {"type": "adamw", "options": {"lr": 2e-5, "weight_decay": 0.0}},
        global_batch_tokens=2048, clip_grad_norm=1.0, loss_chunk=256)
    return {**made, "load": [{"from": str(language.SMOLLM2)}]}


def run(name, file, warmup, steps):
    if name == "tenon":
        return language.host(recipe(file), warmup, steps)
    return programs.peer("trl_peer.py", f"sft-{name}", file, language.SMOLLM2, *BATCHES[name], warmup, steps,
                         language.THREADS, environment=programs.tuned_process())


def measure(quick, num_rounds=3):
    why = language.missing()
    if why:
        return Result(goals=not_measured("sft", GOALS), notes=[why])
    steps = 1 if quick else 2
    with tempfile.TemporaryDirectory(prefix="bench-sft-") as folder:
        file = pathlib.Path(folder, "instructions.json")
        samples = json.loads((language.LM / "instructions-train.json").read_text(encoding="utf-8"))
        file.write_text(json.dumps(samples[SAMPLES]), encoding="utf-8")
        rounds = language.in_rounds("sft", NAMES, 1 if quick else num_rounds, lambda name: run(name, file, 1, steps))
    return tables(rounds, steps)


def tables(rounds, steps):
    peer = min(("packed", "padded"), key=lambda name: language.quartiles([one[name]["step_s"] for one in rounds])[1])
    found = ratios(rounds, lambda values: values["step_s"], peer, "tenon")
    by_cpu = ratios(rounds, lambda values: values["cpu_step_s"], peer, "tenon")
    gap = language.greatest_gap(rounds, list(NAMES))
    return Result(
        groups=[
            language.group("trained tokens/s, 2 threads", rounds, NAMES, lambda values: TOKENS / values["step_s"], 0),
            language.group("CPU time of a step, all threads, s", rounds, NAMES, lambda values: values["cpu_step_s"]),
            language.ratios_group(f"tokens/s, Tenon / {NAMES[peer]}", {"by the clock": found, "by CPU time": by_cpu}),
            language.group("peak memory of the process, MiB", rounds, NAMES, lambda values: values["peak_mib"], 0)],
        goals=[language.speed_goal("sft", "trained tokens/s / TRL's faster way", 2, found, by_cpu),
               language.memory_goal("sft", "peak memory / TRL's faster way", 0.5, rounds, "tenon", peer)],
        raw={"rounds": rounds, "steps": steps},
        notes=[f"10 instructions a step, {TOKENS:,} tokens; AdamW, clipped; losses of all programs agree to {gap:.0e}."])
