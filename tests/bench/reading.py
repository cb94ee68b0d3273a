# SPDX-License-Identifier: Apache-2.0
"""Reading Parquet with the dataset `columnar`, and with Arrow alone, which reads the same columns: see columnar_scan.cpp
and arrow_scan.cpp. Each program reports the fastest of three passes; a pair runs both in turn."""
import json
import pathlib
import statistics
import tempfile

import programs
from table import Group, Result, at_least, at_most

GOAL = 0.8
WAIT_GOAL_PERCENT = 2
PASSES = 3


def waiting(file, folder):
    """Trains a small network on the file; returns the share of time that steps waited for data, after the first step."""
    recipe = {
        "name": "reading", "threads": {"compute": 1},
        "model": {"type": "mlp", "options": {"in_features": 13, "hidden": [512, 256], "out_features": 1}},
        "data": {"batch_size": 2048, "loader_threads": 1, "prefetch": 8, "train": {"type": "columnar", "options": {
            "paths": [str(file)],
            "columns": [{"name": "x", "columns": ["i0..i12"]}, {"name": "targets", "column": "i0"},
                        {"name": "clicks"}] + [{"name": f"c{c}"} for c in range(26)]}}},
        "loss": {"type": "mse"}, "optimizer": {"type": "sgd", "options": {"lr": 0.001}},
        "train": {"epochs": 1, "log_every": 1}, "checkpoint": None}
    with tempfile.TemporaryDirectory(dir=folder) as name:
        path, run = pathlib.Path(name, "recipe.json"), pathlib.Path(name, "run")
        path.write_text(json.dumps(recipe))
        programs.run([programs.OURS.build / "bin/host", "--recipe", path, "--plugin-dir", programs.OURS.build / "plugins",
                      "--run-dir", run, "--quiet"])
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        seconds = json.loads((run / "summary.json").read_text())["seconds"]
    return sum([line["data_wait_seconds"] for line in lines if "data_wait_seconds" in line][1:]) / seconds


def pair(file, threads, i):
    commands = {"tenon": [programs.FOLDER / "columnar_scan", programs.OURS.build / "plugins", file, threads, PASSES],
                "arrow": [programs.FOLDER / "arrow_scan", "read", file, threads, PASSES]}
    found = {name: programs.last_line(programs.run(commands[name])) for name in programs.in_turn(commands, i)}
    if found["arrow"]["rows"] != found["tenon"]["rows"]:
        raise programs.Failed(f"Arrow read {found['arrow']['rows']} rows, columnar {found['tenon']['rows']}")
    return found


def measure(quick):
    num_pairs, num_waits, num_rows = (1, 1, 3000) if quick else (5, 3, 1_000_000)
    result = Result()
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "log.parquet")
        programs.run([programs.FOLDER / "arrow_scan", "write", file, num_rows])
        for threads in (1, 2):
            text = f"{threads} thread{'s' if threads > 1 else ''}"
            programs.say(f"reading: {text}")
            pairs = [pair(file, threads, i) for i in range(num_pairs)]
            speed = [one["tenon"]["rows_s"] / one["arrow"]["rows_s"] for one in pairs]
            result.groups += [
                Group(f"thousand rows/s, {text}", {title: [one[name]["rows_s"] / 1000 for one in pairs]
                                                   for name, title in (("tenon", "Tenon"), ("arrow", "Arrow"))}, 0),
                Group(f"Tenon / Arrow, {text}", {
                    "rows/s": speed,
                    "CPU time": [one["tenon"]["cpu_s"] / one["arrow"]["cpu_s"] for one in pairs]})]
            result.goals.append(at_least("reading", f"{text}, rows/s / rows/s of Arrow", GOAL, statistics.median(speed)))
            result.raw[f"threads_{threads}"] = pairs
        programs.say("reading: waiting time of a training run")
        percent = [100 * waiting(file, folder) for _ in range(num_waits)]
    result.groups.append(Group("share of time that steps of a small network wait for data, %", {"Tenon": percent}))
    result.goals.append(at_most("reading", "waiting time of steps", WAIT_GOAL_PERCENT, statistics.median(percent), "%"))
    result.raw["waiting_percent"] = percent
    return result
