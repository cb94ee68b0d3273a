# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: saves and loads beside plain writes and reads of the same disk and beside peers, what a save costs a run
that goes on, in time and in memory, and how soon a run goes on from one.

192 tensors of 4 Mi floats, 3 GiB; BENCH_CHECKPOINT_TENSORS takes fewer. Each round does plain and checkpoint in turn,
the other one first in every second round, and a ratio is the median of those within pairs of rounds. Needs room for twice
the state on the disk of build/, and three times in memory.
"""
import json
import os
import pathlib
import shutil
import statistics
import tempfile
import time

import programs
from table import Row, at_least, at_most

TENSOR = 16 << 20  # bytes
PEERS = {"torch": "torch.save", "dcp": "torch.distributed.checkpoint", "safetensors": "safetensors"}
RECIPES = programs.ROOT / "tests/bench/recipes"


def host(recipe, run, sets, seconds=False):
    """Runs a recipe of this folder in a run folder that stays; returns the stopwatch's figures, and with `seconds` the
    time of the whole process."""
    figures = run.with_suffix(".json")
    command = [programs.BUILD / "bin/host", "--recipe", RECIPES / recipe, "--plugin-dir", programs.BUILD / "plugins",
               "--plugin-dir", programs.BUILD / "bench/plugins", "--run-dir", run, "--quiet"]
    for value in (f"hooks.0.options.path={figures}", *sets):
        command += ["--set", value]
    begin = time.monotonic()
    programs.run(command)
    taken = time.monotonic() - begin
    return taken if seconds else programs.last_line(figures.read_text())


# ---- disk ----

def disk_rows(folder, num_tensors, num_rounds):
    state = num_tensors * TENSOR
    room = shutil.disk_usage(folder).free
    if room < 3 * state:
        raise programs.Failed(f"{folder} has {room >> 20} MiB of room, and {3 * state >> 20} are needed: "
                              "BENCH_CHECKPOINT_TENSORS takes fewer tensors than 192")
    programs.say("checkpoint: disk")
    raw = programs.last_line(programs.run(
        [programs.FOLDER / "checkpoint_speed", "disk", folder, num_tensors, num_rounds]))
    size = f"{state / 2**30:.2g} GiB"
    beside = peer_rounds(folder, num_tensors, num_rounds // 2)
    rows = []
    for own, plain, title in (("save_s", "write_s", f"a durable save of {size} against plain writes and fsync"),
                              ("load_s", "read_s", f"a load of {size} from a cold cache against plain reads")):
        rates = [statistics.median(state / 2**20 / second for second in raw[figure]) for figure in (own, plain)]
        note = f" ({rates[0]:,.0f} against {rates[1]:,.0f} MiB/s; " + (", ".join(
            f"{PEERS[name]} {statistics.median(disk[plain][0] / peer[own] for disk, peer in rounds):.2f}"
            for name, rounds in beside.items()) or programs.NO_PEERS) + ")"
        rows.append(at_least(f"**checkpoint**: {title}", 0.9,
                             statistics.median(p / o for p, o in zip(pairs(raw[plain]), pairs(raw[own]))), note))
    return rows, {"disk": raw, "peers": beside}


def pairs(seconds):
    """Sums of two rounds each, in which either went first: on some disks the second has it harder."""
    return [sum(seconds[i:i + 2]) for i in range(0, len(seconds), 2)]


def peer_rounds(folder, num_tensors, num_rounds):
    """Each beside plain writes and reads right before it, as disks have their moods."""
    rounds = {name: [] for name in PEERS if programs.has_peers()}
    for i in range(num_rounds):
        for name, found in rounds.items():
            programs.say(f"checkpoint: {PEERS[name]}, round {i + 1} of {num_rounds}")
            plain = programs.last_line(programs.run(
                [programs.FOLDER / "checkpoint_speed", "disk", folder, num_tensors, 1]))
            with tempfile.TemporaryDirectory(dir=folder) as own:
                found.append((plain, programs.peer("checkpoint_peer.py", name, own, num_tensors)))
    return rounds


# ---- a run that goes on ----

def growth_rows(folder, quick):
    """20 saves in 200 steps, and none, in turn: the time from the fifth step to the last."""
    num_rounds, every, steps = (1, 2, 10) if quick else (3, 10, 200)
    rounds = []
    for i in range(num_rounds):
        programs.say(f"checkpoint: a run with saves, round {i + 1} of {num_rounds}")
        sets = [f"train.steps={steps}", "hooks.0.options.warmup=1", f"hooks.0.options.steps={steps - 1}"]
        saving = ["checkpoint.at_end=false", f"checkpoint.every_steps={every}", "checkpoint.keep_last=1"]
        pair = {}
        for name in ("plain", "saving") if i % 2 == 0 else ("saving", "plain"):
            run = folder / f"growth-{i}-{name}"
            pair[name] = host("checkpoint.json", run, sets + (saving if name == "saving" else []), seconds=True)
            shutil.rmtree(run)
        rounds.append(pair)
    grown = statistics.median(pair["saving"] / pair["plain"] - 1 for pair in rounds)
    base = statistics.median(pair["plain"] for pair in rounds)
    row = Row(f"**checkpoint**: growth of a run of {steps} steps by {steps // every} saves", "at most 5%",
              f"{100 * grown:.1f}% of {base:.1f} s", grown <= 0.05)
    return [row], {"growth": rounds}


WIDE = ["hooks.0.options.warmup=1"]


def wide_run(folder, name, steps, sets):
    run, pauses = folder / name, folder / f"{name}.pauses.json"
    figures = host("checkpoint_wide.json", run, [*WIDE, f"train.steps={steps}", f"hooks.0.options.steps={steps - 1}",
                                                 f"hooks.1.options.path={pauses}", *sets])
    summary = json.loads((run / "summary.json").read_text())
    shutil.rmtree(run)
    return figures, json.loads(pauses.read_text()), summary["parameters"]


def wide_rows(folder, quick):
    """768 MiB of state: how long a save holds up the run, and what it needs of memory. Saves are further apart than
    they take, so that none waits for the one before."""
    every, saves = (2, 1) if quick else (20, 5)
    steps = every * saves + 1
    saving = ["checkpoint.at_end=false", f"checkpoint.every_steps={every}", "checkpoint.keep_last=1"]
    programs.say("checkpoint: stalls and memory")
    bare, _, parameters = wide_run(folder, "wide-bare", steps, [])
    state = 12 * parameters  # with two moments each, fp32
    copied, pauses, _ = wide_run(folder, "wide-copy", steps, saving)
    streamed, _, _ = wide_run(folder, "wide-stream", steps, [*saving, "checkpoint.staging=stream"])
    copy = programs.last_line(programs.run([programs.FOLDER / "checkpoint_speed", "copy", state, 5, 2]))
    copy_s = statistics.median(copy["copy_s"]) * state / copy["bytes"]
    usual = statistics.median(pauses["without_s"])
    stalls = [pause - usual for pause in pauses["with_save_s"]]
    mib = state / 2**20
    above = (copied["peak_mib"] - bare["peak_mib"]) / mib
    streaming = streamed["peak_mib"] - bare["peak_mib"]
    rows = [
        at_most(f"**checkpoint**: what a save holds up a step, {mib:.0f} MiB, against a copy of that in memory", 1.1,
                statistics.median(stalls) / copy_s,
                f" ({1000 * statistics.median(stalls):.0f} against {1000 * copy_s:.0f} ms; the first save, in new "
                f"memory, {1000 * stalls[0]:.0f} ms)"),
        at_most("**checkpoint**: memory above the run's own while it saves, of the state's", 1.0, round(above, 2),
                f" ({above * mib:.0f} of {mib:.0f} MiB)"),
        Row("**checkpoint**: the same with `\"staging\": \"stream\"`", "at most 256 MiB", f"{streaming:.0f} MiB",
            streaming <= 256)]
    return rows, {"wide": {"state": state, "bare": bare, "copy": copied, "stream": streamed, "pauses": pauses,
                           "copies": copy}}


# ---- resume ----

def resume_rows(folder, quick):
    """A run of 10^6 steps, of a billion samples, against one of ten: from the start of the process that goes on to the
    end of its first step."""
    near, far, num_rounds = (10, 1000, 1) if quick else (10, 1_000_000, 7)
    for steps in (near, far):
        programs.say(f"checkpoint: {steps:,} steps to go on from")
        host("checkpoint_long.json", folder / f"long-{steps}",
             [f"train.steps={steps}", "hooks.0.options.steps=1", "checkpoint.at_end=true"])
    rounds = []
    for i in range(num_rounds):
        pair = {}
        for steps in (near, far) if i % 2 == 0 else (far, near):
            pair[steps] = host("checkpoint_long.json", folder / f"long-{steps}",
                               [f"train.steps={steps + 2}", "checkpoint.at_end=false"])["first_step_s"]
        rounds.append(pair)
    ours, theirs = (1000 * statistics.median(pair[steps] for pair in rounds) for steps in (far, near))
    row = at_most(f"**checkpoint**: from the command to the first step, resumed at step {far:,}, against step {near}",
                  1.1, statistics.median(pair[far] / pair[near] for pair in rounds),
                  f" ({ours:.0f} against {theirs:.0f} ms)")
    return [row], {"resume": rounds}


def measure(quick):
    num_tensors = int(os.environ.get("BENCH_CHECKPOINT_TENSORS", 6 if quick else 192))
    rows, raw = [], {}
    with tempfile.TemporaryDirectory(dir=programs.FOLDER) as name:
        folder = pathlib.Path(name)
        for part in (lambda: disk_rows(folder, num_tensors, 2 if quick else 4), lambda: wide_rows(folder, quick),
                     lambda: growth_rows(folder, quick), lambda: resume_rows(folder, quick)):
            found, figures = part()
            rows += found
            raw.update(figures)
    return rows, raw
