# SPDX-License-Identifier: Apache-2.0
"""LoRA of rank 16 on all matrices of SmolLM2 (135 M parameters), beside PEFT with the trainer of TRL.

Samples, packing and batches are those of `sft`. All programs load the same adapter, which PEFT makes: its matrices B are not
zero, so that equal losses show equal adapters from the first step on.
"""
import json
import pathlib
import tempfile

import language
import programs
import sft
from table import Result, not_measured, ratios

NAMES = {"tenon": "Tenon, packed", "packed": "PEFT, packed", "padded": "PEFT, padded, 5 samples a batch"}
GOALS = ("time of a step / PEFT's faster way, at most 0.5", "peak memory / PEFT's faster way, at most 0.5")


def recipe(file, adapter):
    model = {"type": "llama", "options": language.SMOLLM2_OPTIONS, "frozen": ["*"],
             "parametrizations": [{"match": ["*_proj.weight"], "type": "lora", "options": {"rank": 16, "alpha": 32}}]}
    made = language.recipe(
        "lora", model,
        {"batch_size": 1, "train": {"type": "chat", "options": language.chats(file), "packing": {"length": 1024}}},
        {"type": "cross_entropy"}, {"type": "adamw", "options": {"lr": 2e-4, "weight_decay": 0.0}},
        global_batch_tokens=2048, clip_grad_norm=1.0, loss_chunk=256)
    return {**made, "load": [{"from": str(language.SMOLLM2)}, {"from": str(adapter)}]}


def run(name, file, adapter, warmup, steps):
    if name == "tenon":
        return language.host(recipe(file, adapter), warmup, steps)
    return programs.peer("trl_peer.py", f"sft-{name}", file, language.SMOLLM2, *sft.BATCHES[name], warmup, steps,
                         language.THREADS, adapter, environment=programs.tuned_process())


def measure(quick, num_rounds=3):
    why = language.missing()
    if why:
        return Result(goals=not_measured("lora", GOALS), notes=[why])
    steps = 1 if quick else 2
    with tempfile.TemporaryDirectory(prefix="bench-lora-") as folder:
        file, adapter = pathlib.Path(folder, "instructions.json"), pathlib.Path(folder, "adapter")
        samples = json.loads((language.LM / "instructions-train.json").read_text(encoding="utf-8"))
        file.write_text(json.dumps(samples[sft.SAMPLES]), encoding="utf-8")
        programs.peer("peft_adapter.py", language.SMOLLM2, adapter)
        rounds = language.in_rounds("lora", NAMES, 1 if quick else num_rounds,
                                    lambda name: run(name, file, adapter, 1, steps))
    return tables(rounds, steps)


def tables(rounds, steps):
    peer = min(sft.BATCHES, key=lambda name: language.quartiles([one[name]["step_s"] for one in rounds])[1])
    found = ratios(rounds, lambda values: values["step_s"], "tenon", peer)
    by_cpu = ratios(rounds, lambda values: values["cpu_step_s"], "tenon", peer)
    gap = language.greatest_gap(rounds, list(NAMES))
    return Result(
        groups=[
            language.group("time of a step, s, 2 threads", rounds, NAMES, lambda values: values["step_s"]),
            language.group("CPU time of a step, all threads, s", rounds, NAMES, lambda values: values["cpu_step_s"]),
            language.ratios_group(f"time of a step, Tenon / {NAMES[peer]}", {"by the clock": found, "by CPU time": by_cpu}),
            language.group("peak memory of the process, MiB", rounds, NAMES, lambda values: values["peak_mib"], 0)],
        goals=[language.time_goal("lora", "time of a step / PEFT's faster way", 0.5, found, by_cpu),
               language.memory_goal("lora", "peak memory / PEFT's faster way", 0.5, rounds, "tenon", peer)],
        raw={"rounds": rounds, "steps": steps},
        notes=[f"10 instructions a step, {sft.TOKENS:,} tokens; rank 16 on all matrices of the layers; AdamW, clipped; "
               f"losses of all programs agree to {gap:.0e}."])
