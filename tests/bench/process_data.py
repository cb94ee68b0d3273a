# SPDX-License-Identifier: Apache-2.0
"""Chats tokenized by `--process-data`, beside TRL's preparation of the same samples.

Tenon's time is that of the whole process. TRL's time is that of the preparation alone, without imports and the model.
"""
import json
import pathlib
import struct
import tempfile
import time

import language
import programs
from table import Result, not_measured, ratios

GOAL = 10
GOAL_TEXT = "time of TRL's preparation / time of --process-data"
COPIES = 20  # of 899 instructions; each is a sample of its own
PEERS = ("trl", "trl2")
NAMES = {"tenon": "Tenon, --process-data, whole process", "trl": "TRL, one process", "trl2": "TRL, two processes"}


def counts_of(cache):
    """Samples and tokens of all shards, from their headers."""
    found = [struct.unpack_from("<24xqq", shard.read_bytes()) for shard in cache.glob("*/shard-*.bin")]
    return {"samples": sum(samples for samples, _ in found), "tokens": sum(tokens for _, tokens in found)}


def ours(file, cache):
    values = language.recipe(
        "process-data", {"type": "llama", "options": language.SMOLLM2_OPTIONS},
        {"batch_size": 1, "train": {"type": "chat", "options": language.chats(file, cache=str(cache))}},
        {"type": "cross_entropy"}, {"type": "adamw"}, steps=1)
    del values["hooks"]
    build = programs.OURS.build
    with language.written(values) as path:
        begin = time.monotonic()
        programs.run([build / "bin/host", "--process-data", "--recipe", path, "--plugin-dir", build / "plugins"])
        seconds = time.monotonic() - begin
    return {"seconds": seconds, **counts_of(cache)}


def run(name, file, folder):
    if name == "tenon":
        with tempfile.TemporaryDirectory(dir=folder) as cache:
            return ours(file, pathlib.Path(cache))
    return programs.peer("trl_data_peer.py", file, language.SMOLLM2, 1 if name == "trl" else 2)


def measure(quick, num_rounds=5):
    why = language.missing()
    if why:
        return Result(goals=not_measured("process-data", [f"{GOAL_TEXT}, at least {GOAL}"]), notes=[why])
    copies, num_rounds = (1, 1) if quick else (COPIES, num_rounds)
    samples = json.loads((language.LM / "instructions-train.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="bench-chats-") as made:
        folder = pathlib.Path(made)
        file = folder / "chats.json"
        file.write_text(json.dumps([{**sample, "instruction": f"{sample['instruction']} {i}"}
                                    for i in range(copies) for sample in samples]), encoding="utf-8")
        rounds = []
        for i in range(num_rounds):
            programs.say(f"process-data: round {i + 1} of {num_rounds}")
            rounds.append({name: run(name, file, folder) for name in programs.in_turn(NAMES, i)})
            if any(rounds[-1]["tenon"][key] != rounds[-1][peer][key] for key in ("samples", "tokens") for peer in PEERS):
                raise programs.Failed(f"process-data: samples or tokens differ: {rounds[-1]}")
    return tables(rounds)


def tables(rounds):
    peer = min(PEERS, key=lambda name: language.quartiles([one[name]["seconds"] for one in rounds])[1])
    found = ratios(rounds, lambda values: values["seconds"], peer, "tenon")
    one = rounds[0]["tenon"]
    return Result(
        groups=[language.group("s", rounds, NAMES, lambda values: values["seconds"]),
                language.ratios_group("speed, Tenon / TRL's faster way", {"by the clock": found})],
        goals=[language.speed_goal("process-data", GOAL_TEXT, GOAL, found)], raw={"rounds": rounds},
        notes=[f"{one['samples']:,} instructions, {one['tokens']:,} tokens, the same numbers on both sides."])
