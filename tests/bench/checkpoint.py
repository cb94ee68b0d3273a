# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: durable saves and loads, plain writes and reads of the same disk, and peers; the time and memory that a
save takes from a training run; and startup from a checkpoint.

192 tensors of 4 Mi floats, 3 GiB; BENCH_CHECKPOINT_TENSORS sets a smaller number. Each round runs plain input and output
and the checkpoint in turn, in the other order in every second round. A ratio is the median over pairs of rounds. The
benchmark needs twice the state on the disk of build/, and three times the state in memory.
"""
import json
import os
import pathlib
import shutil
import statistics
import tempfile

import programs
from table import Group, Result, at_least, at_most

TENSOR = 16 << 20  # bytes
MIB = 2**20
PEERS = {"torch": "torch.save", "dcp": "torch.distributed.checkpoint", "safetensors": "safetensors"}
DISK_GOAL, STALL_GOAL, MEMORY_GOAL, STREAM_GOAL_MIB, START_GOAL = 0.9, 1.1, 1.0, 256, 1.1


def host(recipe, run, sets):
    """Runs a recipe of the benchmarks in a run folder that stays; returns the values of the stopwatch."""
    values = run.with_suffix(".json")
    command = programs.OURS.command(recipe, run)
    for value in (f"hooks.0.options.path={values}", *sets):
        command += ["--set", value]
    programs.run(command)
    return programs.last_line(values.read_text())


# ---- disk ----

def disk(folder, num_tensors, num_rounds):
    state = num_tensors * TENSOR
    room = shutil.disk_usage(folder).free
    if room < 3 * state:
        raise programs.Failed(f"{folder} has {room // MIB} MiB of free space (expected {3 * state // MIB} MiB); set "
                              "BENCH_CHECKPOINT_TENSORS below 192")
    programs.say("checkpoint: disk")
    raw = programs.last_line(programs.run(
        [programs.FOLDER / "checkpoint_speed", "disk", folder, num_tensors, num_rounds]))
    beside = peer_rounds(folder, num_tensors, max(1, num_rounds // 2))
    result = Result(raw={"disk": raw, "peers": beside}, notes=[] if programs.has_peers() else [programs.NO_PEERS])
    for own, plain, title, plain_title in (
            ("save_s", "write_s", "durable save", "plain writes and fsync"),
            ("load_s", "read_s", "load from a cold cache", "plain reads")):
        ratio = [p / o for p, o in zip(pair_sums(raw[plain]), pair_sums(raw[own]))]
        speed = {"Tenon": raw[own], plain_title: raw[plain]}
        against = {"Tenon": ratio}
        for name, rounds in beside.items():
            speed[PEERS[name]] = [peer[own] for _, peer in rounds]
            against[PEERS[name]] = [plain_values[plain][0] / peer[own] for plain_values, peer in rounds]
        result.groups += [
            Group(f"{title} of {state / 2**30:.2g} GiB, MiB/s",
                  {name: [state / MIB / second for second in seconds] for name, seconds in speed.items()}, 0),
            Group(f"{title}, speed / speed of {plain_title} next to the program", against)]
        result.goals.append(at_least("checkpoint", f"{title} / {plain_title}", DISK_GOAL, statistics.median(ratio)))
    return result


def pair_sums(seconds):
    """Sums of two rounds with opposite order: on some disks the second program of a round is slower."""
    return [sum(seconds[i:i + 2]) for i in range(0, len(seconds), 2)]


def peer_rounds(folder, num_tensors, num_rounds):
    """Each peer runs right after plain writes and reads, as the speed of a disk varies."""
    rounds = {name: [] for name in PEERS if programs.has_peers()}
    for i in range(num_rounds):
        for name, found in rounds.items():
            programs.say(f"checkpoint: {PEERS[name]}, round {i + 1} of {num_rounds}")
            plain = programs.last_line(programs.run(
                [programs.FOLDER / "checkpoint_speed", "disk", folder, num_tensors, 1]))
            with tempfile.TemporaryDirectory(dir=folder) as own:
                found.append((plain, programs.peer("checkpoint_peer.py", name, own, num_tensors)))
    return rounds


# ---- a training run ----

def wide_run(folder, name, steps, sets):
    run, pauses = folder / name, folder / f"{name}.pauses.json"
    values = host("checkpoint_wide.json", run, ["hooks.0.options.warmup=1", f"train.steps={steps}",
                                                f"hooks.0.options.steps={steps - 1}",
                                                f"hooks.1.options.path={pauses}", *sets])
    summary = json.loads((run / "summary.json").read_text())
    shutil.rmtree(run)
    return values, json.loads(pauses.read_text()), summary["parameters"]


def stalls(folder, quick):
    """768 MiB of state: how long a save stalls a step, and the memory that the save needs. Saves are further apart than
    their duration, so no save waits for the previous save."""
    every, saves = (2, 1) if quick else (20, 5)
    steps = every * saves + 1
    saving = ["checkpoint.at_end=false", f"checkpoint.every_steps={every}", "checkpoint.keep_last=1"]
    programs.say("checkpoint: stalls and memory")
    bare, _, parameters = wide_run(folder, "wide-bare", steps, ["checkpoint=null"])
    state = 12 * parameters  # with two moments, fp32
    copied, pauses, _ = wide_run(folder, "wide-copy", steps, saving)
    streamed, _, _ = wide_run(folder, "wide-stream", steps, [*saving, "checkpoint.staging=stream"])
    copy = programs.last_line(programs.run([programs.FOLDER / "checkpoint_speed", "copy", state, 5, 2]))
    copy_ms = [1000 * second * state / copy["bytes"] for second in copy["copy_s"]]
    usual = statistics.median(pauses["without_s"])
    stall_ms = [1000 * (pause - usual) for pause in pauses["with_save_s"]]
    mib = state / MIB
    extra, stream_extra = (run["peak_mib"] - bare["peak_mib"] for run in (copied, streamed))
    return Result([
        Group(f"stall of a step by a save of {mib:.0f} MiB, ms", {
            "Tenon, all saves": stall_ms, "Tenon, first save, in new memory": stall_ms[:1],
            "one copy in memory": copy_ms}, 0),
        Group("extra memory of the run while it saves, MiB", {
            "Tenon": [extra], 'Tenon, `"staging": "stream"`': [stream_extra], "state": [mib]}, 0)], [
        at_most("checkpoint", "stall / copy in memory", STALL_GOAL,
                statistics.median(stall_ms) / statistics.median(copy_ms)),
        at_most("checkpoint", "extra memory of a save / state", MEMORY_GOAL, round(extra / mib, 2)),
        at_most("checkpoint", 'extra memory with `"staging": "stream"`', STREAM_GOAL_MIB, stream_extra, " MiB", 0)], {
        "state": state, "bare": bare, "copy": copied, "stream": streamed, "pauses": pauses, "copies": copy})


# ---- resume ----

def startup(folder, quick):
    """From the start of the process to the end of the first resumed step, in a run of a million steps and in a run of
    ten steps."""
    near, far, num_rounds = (10, 1000, 1) if quick else (10, 1_000_000, 7)
    for steps in (near, far):
        programs.say(f"checkpoint: preparing a run of {steps:,} steps")
        host("checkpoint_long.json", folder / f"long-{steps}",
             [f"train.steps={steps}", "hooks.0.options.steps=1", "checkpoint.at_end=true"])
    rounds = []
    for i in range(num_rounds):
        rounds.append({steps: host("checkpoint_long.json", folder / f"long-{steps}",
                                   [f"train.steps={steps + 2}", "checkpoint.at_end=false"])["first_step_s"]
                       for steps in programs.in_turn((near, far), i)})
    ratio = [one[far] / one[near] for one in rounds]
    return Result([
        Group("start to the end of the first resumed step, ms", {
            f"at step {steps:,}": [1000 * one[steps] for one in rounds] for steps in (far, near)}, 0),
        Group(f"start at step {far:,} / start at step {near}", {"Tenon": ratio})],
        [at_most("checkpoint", f"startup at step {far:,} / startup at step {near}", START_GOAL, statistics.median(ratio))],
        {"rounds": rounds})


def measure(quick):
    num_tensors = int(os.environ.get("BENCH_CHECKPOINT_TENSORS", 6 if quick else 192))
    result = Result()
    with tempfile.TemporaryDirectory(dir=programs.FOLDER) as name:
        folder = pathlib.Path(name)
        result.add("disk", disk(folder, num_tensors, 2 if quick else 6))
        result.add("stalls", stalls(folder, quick))
        result.add("startup", startup(folder, quick))
    return result
