# SPDX-License-Identifier: Apache-2.0
"""Reading Parquet through the dataset `columnar` against Arrow's own reading of the same columns: see arrow_scan.cpp
and columnar_scan.cpp. The two take turns, and a figure is the median of the pairs' ratios."""
import json
import pathlib
import statistics
import tempfile

import programs
from table import Row

GOAL = 0.8
PAIRS = 5
WAIT_GOAL = 0.02


def waiting(file, folder):
    """Trains a small network on the file; returns the share of its time that steps waited for data, after the first."""
    recipe = {
        "name": "reading", "threads": {"compute": 1},
        "model": {"type": "mlp", "options": {"in_features": 13, "hidden": [512, 256], "out_features": 1}},
        "data": {"batch_size": 2048, "loader_threads": 1, "prefetch": 8, "train": {"type": "columnar", "options": {
            "paths": [str(file)],
            "columns": [{"name": "x", "columns": ["i0..i12"]}, {"name": "targets", "column": "i0"},
                        {"name": "clicks"}] + [{"name": f"c{c}"} for c in range(26)]}}},
        "loss": {"type": "mse"}, "optimizer": {"type": "sgd", "options": {"lr": 0.001}},
        "train": {"epochs": 1, "log_every": 1}}
    path, run = pathlib.Path(folder, "recipe.json"), pathlib.Path(folder, "run")
    path.write_text(json.dumps(recipe))
    programs.run([programs.BUILD / "bin/host", "--recipe", path, "--plugin-dir", programs.BUILD / "plugins",
                  "--run-dir", run, "--quiet"])
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "data_wait_seconds" in line][1:]
    if not steps:
        return 0.0, 0
    seconds = json.loads((run / "summary.json").read_text())["seconds"]
    return sum(step["data_wait_seconds"] for step in steps) / seconds, len(steps)


def measure(quick):
    rows, figures = [], {}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "log.parquet")
        programs.run([programs.FOLDER / "arrow_scan", "write", file, 3000 if quick else 1_000_000])
        for threads in (1, 2):
            programs.say(f"reading: {threads} thread(s)")
            ratios, rates, busy = [], [], []
            for _ in range(1 if quick else PAIRS):
                arrow = programs.last_line(programs.run(
                    [programs.FOLDER / "arrow_scan", "read", file, threads, 3]))
                tenon = programs.last_line(programs.run(
                    [programs.FOLDER / "columnar_scan", programs.BUILD / "plugins", file, threads, 3]))
                if arrow["rows"] != tenon["rows"]:
                    raise programs.Failed(f"Arrow read {arrow['rows']} rows, columnar {tenon['rows']}")
                ratios.append(tenon["rows_s"] / arrow["rows_s"])
                rates.append(tenon["rows_s"])
                busy.append(tenon["cpu_s"] / arrow["cpu_s"])
            ratio = statistics.median(ratios)
            figures[f"threads_{threads}"] = {"ratios": ratios, "rows_s": rates, "cpu_ratios": busy}
            rows.append(Row(f"reading Parquet, {threads} thread(s), of Arrow's own rate", f"at least {GOAL}",
                            f"{ratio:.2f} ({statistics.median(rates) / 1000:.0f} thousand rows/s; "
                            f"{statistics.median(busy):.2f} of its processor time)", ratio >= GOAL))
        programs.say("reading: a run that trains")
        share, steps = waiting(file, folder)
        figures["waiting"] = {"share": share, "steps": steps}
        rows.append(Row("time that steps of a small network wait for Parquet, after the first", f"at most {WAIT_GOAL:.0%}",
                        f"{share:.2%} of {steps} steps", share <= WAIT_GOAL))
    return rows, figures
