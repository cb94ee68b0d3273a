# SPDX-License-Identifier: Apache-2.0
"""Greedy text of SmolLM2 (135 M parameters), beside transformers' `generate` with a cache of keys and values.

The rate counts the new tokens after the first one, without the start of the process and the prompt. Both sides must write
the same text.
"""
import re

import language
import programs
from table import Group, Result, not_measured, ratios

GOAL = 1.5
GOAL_TEXT = "tokens/s of --generate / transformers"
PROMPT = "In the beginning God created the heaven and the earth. And the earth was without form, and void; and"
NAMES = {"tenon": "Tenon", "peer": "transformers"}


def ours(num_tokens):
    values = language.recipe(
        "generate", {"type": "llama", "options": language.SMOLLM2_OPTIONS},
        {"batch_size": 1, "train": {"type": "chat", "options": language.chats("none.json")}}, {"type": "cross_entropy"},
        {"type": "adamw"}, steps=1)
    del values["hooks"]
    build = programs.OURS.build
    with language.written(values) as path:
        process = programs.finished([
            build / "bin/host", "--generate", "--recipe", path, "--plugin-dir", build / "plugins", "--import", "hf",
            language.SMOLLM2, "--prompt", PROMPT, "--max-tokens", num_tokens])
    found = re.search(r"prompt of (\d+) tokens in .*; (\d+) tokens, ([0-9.]+) tokens/s", process.stderr)
    if not found:
        raise programs.Failed(f"generate: no rate in {process.stderr}")
    return {"prompt": int(found[1]), "tokens": int(found[2]), "rate": float(found[3]), "text": process.stdout.strip()}


def run(name, num_tokens):
    if name == "tenon":
        return ours(num_tokens)
    found = programs.peer("generate_peer.py", language.SMOLLM2, PROMPT, num_tokens, language.THREADS,
                          environment=programs.tuned_process())
    return {**found, "text": found["text"].strip()}


def measure(quick, num_rounds=5):
    why = language.missing()
    if why:
        return Result(goals=not_measured("generate", [f"{GOAL_TEXT}, at least {GOAL}"]), notes=[why])
    num_tokens, num_rounds = (16, 1) if quick else (128, num_rounds)
    rounds = []
    for i in range(num_rounds):
        programs.say(f"generate: round {i + 1} of {num_rounds}")
        one = {name: run(name, num_tokens) for name in programs.in_turn(NAMES, i)}
        if any(one["tenon"][key] != one["peer"][key] for key in ("prompt", "tokens", "text")):
            raise programs.Failed(f"generate: the texts differ: {one}")
        rounds.append(one)
    found = ratios(rounds, lambda values: values["rate"], "tenon", "peer")
    return Result(
        groups=[Group("tokens/s, 2 threads", {text: [one[name]["rate"] for one in rounds] for name, text in NAMES.items()}, 1),
                language.ratios_group("tokens/s, Tenon / transformers", {"by the clock": found})],
        goals=[language.speed_goal("generate", GOAL_TEXT, GOAL, found)], raw={"rounds": rounds},
        notes=[f"{rounds[0]['tenon']['tokens']} greedy tokens after a prompt of {rounds[0]['tenon']['prompt']}; the texts "
               "are equal."])
