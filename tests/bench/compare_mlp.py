# SPDX-License-Identifier: Apache-2.0
"""Times the host and each peer in turn on the `mlp` workload, and prints the figures beside goals.

Each row is 5 pairs in one run; a figure is the median over the pairs. BENCH_QUICK=1 takes 2 short
pairs, to see that all of it runs. Raw figures go to build/bench/mlp.json.
"""
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD_DIR", ROOT / "build"))
QUICK = os.environ.get("BENCH_QUICK") == "1"
PAIRS, WARMUP, STEPS = (2, 50, 200) if QUICK else (5, 200, 5000)
PYTHON = ROOT / ".deps/peers/bin/python"


def run(command, environment=None):
    process = subprocess.run([str(word) for word in command], env={**os.environ, **(environment or {})},
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{process.stdout}{process.stderr}")
    return process.stdout


def microseconds(text):
    return json.loads(text.splitlines()[-1])["step_s"] * 1e6


def host(clip):
    with tempfile.TemporaryDirectory() as folder:
        figures = pathlib.Path(folder, "figures.json")
        sets = [f"hooks.0.options.path={figures}", f"train.steps={WARMUP + STEPS}"]
        for hook in range(3):
            sets += [f"hooks.{hook}.options.warmup={WARMUP}", f"hooks.{hook}.options.steps={STEPS}"]
        if not clip:
            sets.append("train.clip_grad_norm=null")
        command = [BUILD / "bin/host", "--recipe", ROOT / "tests/bench/recipes/mlp.json",
                   "--plugin-dir", BUILD / "plugins", "--plugin-dir", BUILD / "bench/plugins",
                   "--run-dir", pathlib.Path(folder, "run"), "--quiet"]
        for value in sets:
            command += ["--set", value]
        run(command)
        return microseconds(figures.read_text())


def bare():
    # The math library in the mode that the host's default, "deterministic": true, asks for.
    return microseconds(run([BUILD / "bench/bare_mlp", WARMUP, STEPS], {"MKL_CBWR": "AUTO,STRICT"}))


def peer(name):
    return microseconds(run([PYTHON, ROOT / "tests/bench/peers/mlp_peer.py", name, WARMUP, STEPS]))


def cpu_model():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main():
    raw, rows = {}, []
    raw["bare libtorch"] = [(host(True), bare()) for _ in range(PAIRS)]
    cost = statistics.median(ours - theirs for ours, theirs in raw["bare libtorch"])
    rows.append(("mlp: host's cost over a bare libtorch loop", f"{cost:.1f} µs a step", "at most 5 µs"))
    for name, text, goal in (("fused", "bare PyTorch with fused AdamW", 0.55),
                             ("lightning", "Lightning", 0.2), ("hf", "Hugging Face Trainer", 0.15)):
        title = f"mlp: time a step against {text}"
        if not PYTHON.exists():
            rows.append((title, "skipped: `./dev deps --peers` brings the peers", f"at most {goal}"))
            continue
        raw[name] = [(host(False), peer(name)) for _ in range(PAIRS)]
        ratio = statistics.median(ours / theirs for ours, theirs in raw[name])
        rows.append((title, f"{ratio:.2f}", f"at most {goal}"))
    machine = f"{cpu_model()}, {os.cpu_count()} cores"
    (BUILD / "bench/mlp.json").write_text(json.dumps({"machine": machine, "microseconds": raw}))
    print(f"{machine}; {PAIRS} pairs of {STEPS} steps, medians\n\n| what | measured | goal |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


main()
