# SPDX-License-Identifier: Apache-2.0
"""AdamW with state in 8 bits beside AdamW: time of an update, bytes of state as planned, and the loss of the small model."""
import json

import language
import programs
from table import Group, Result, at_most, ratios

ELEMENTS = 16_000_000
UPDATE_GOAL, BYTES_GOAL, LOSS_GOAL = 1.2, 2.1, 1
TYPES = {"adamw8bit": "Tenon, adamw8bit", "adamw": "Tenon, adamw"}


def bytes_of_state(kind):
    """Bytes of optimizer state per parameter, by `--plan 1`."""
    command = programs.OURS.command("lm.json", "unused")
    command = command[:command.index("--run-dir")]
    found = json.loads(programs.run([*command, "--plan", 1, "--json", "--set", f"optimizer.type={kind}"]))
    return found["plan"]["memory"]["optimizer"] / found["parameters"]["trainable"]


def final_loss(kind, steps):
    """The mean loss of the last tenth of the steps."""
    losses = programs.host("lm.json", 1, steps - 1, [f"optimizer.type={kind}", "train.log_every=1"])["losses"]
    last = losses[-max(1, steps // 10):]
    return sum(last) / len(last)


def measure(quick):
    elements, pairs, steps = (10_000, 1, 4) if quick else (ELEMENTS, 9, 300)
    found = programs.last_line(programs.run([programs.FOLDER / "kernel_speed", "updates", elements, pairs, language.THREADS]))
    rounds = [dict(zip(TYPES, pair)) for pair in zip(found["adamw8bit_s"], found["adamw_s"])]
    over = ratios(rounds, lambda seconds: seconds, "adamw8bit", "adamw")
    state = {kind: bytes_of_state(kind) for kind in TYPES}
    losses = {kind: final_loss(kind, steps) for kind in TYPES}
    away = 100 * abs(losses["adamw8bit"] / losses["adamw"] - 1)
    return Result(
        groups=[language.group(f"update of {elements:,} elements, ms, {language.THREADS} threads", rounds, TYPES,
                               lambda seconds: 1000 * seconds),
                language.ratios_group("time of an update, adamw8bit / adamw", {"ratio": over}),
                Group("bytes of optimizer state per parameter", {TYPES[kind]: [state[kind]] for kind in TYPES}),
                Group(f"loss of the small language model after {steps} steps",
                      {TYPES[kind]: [losses[kind]] for kind in TYPES}, 4)],
        goals=[language.time_goal("optimizer-8bit", "time of an update / adamw", UPDATE_GOAL, over),
               at_most("optimizer-8bit", "bytes of optimizer state per parameter", BYTES_GOAL, state["adamw8bit"]),
               at_most("optimizer-8bit", "loss / loss of adamw, difference", LOSS_GOAL, away, "%")],
        raw={"updates": found, "bytes": state, "losses": losses})
