# SPDX-License-Identifier: Apache-2.0
"""Runs the host, a program of this folder, or a peer, and reads the line of JSON that it prints.

Every program times its own steps and reads its own memory: step_s, first_step_s (since it was started), peak_mib, and
cpu_step_s and cpu_first_step_s, the CPU time of all threads, user and system.
"""
import contextlib
import ctypes
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".deps/peers/bin/python"
LIMIT_S = 1800  # of one program; the slowest is torch.compile of a large model with an empty cache
NO_PEERS = "The peers were skipped; install them with `./dev deps --peers`."


@dataclasses.dataclass(frozen=True)
class Checkout:
    """A checkout with its build. Its host runs its own recipes, as plugins and keys of two commits may differ."""
    root: pathlib.Path
    build: pathlib.Path

    def command(self, recipe, run_dir):
        return [self.build / "bin/host", "--recipe", self.root / "tests/bench/recipes" / recipe,
                "--plugin-dir", self.build / "plugins", "--plugin-dir", self.build / "bench/plugins",
                "--run-dir", run_dir, "--quiet"]


OURS = Checkout(ROOT, pathlib.Path(os.environ.get("TENON_BUILD_DIR", ROOT / "build")))
FOLDER = OURS.build / "bench"


class Failed(Exception):
    """A program under measurement failed."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def has_peers():
    return PYTHON.exists()


def tuned_process():
    """The environment in which a peer's process does what the host's does: glibc keeps freed memory
    (host/device/host_memory.cpp), and threads that wait for work sleep early (host/cli/early/thread_waits.c)."""
    mmap_threshold, one_gib = -3, 1 << 30
    try:
        is_allowed = ctypes.CDLL(None).mallopt(mmap_threshold, one_gib) == 1  # older releases allow 32 MiB
    except AttributeError:
        return {}
    threshold = one_gib if is_allowed else one_gib // 32
    return {"GLIBC_TUNABLES": f"glibc.malloc.mmap_threshold={threshold}:glibc.malloc.trim_threshold={2**64 - 1}",
            "GOMP_SPINCOUNT": "10000"}


@contextlib.contextmanager
def variables(values):
    """Sets variables for all programs that start meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def in_turn(names, i):
    """The order of round i: every second round runs backward, so that no program always follows the same one."""
    return list(names) if i % 2 == 0 else list(names)[::-1]


def finished(command, environment=None, preexec=None):
    """The process of a command that succeeded. preexec: a function that the process calls before the command."""
    words = [str(word) for word in command]
    started = {"BENCH_STARTED_NS": str(time.monotonic_ns())}
    try:
        process = subprocess.run(words, env={**os.environ, **(environment or {}), **started}, timeout=LIMIT_S,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=preexec)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"{' '.join(words)}\nran for more than {LIMIT_S} s") from late
    except OSError as error:
        raise Failed(f"{' '.join(words)}\n{error}") from error
    if process.returncode != 0:
        raise Failed(f"{' '.join(words)}\n{process.stdout}{process.stderr}")
    return process


def run(command, environment=None, preexec=None):
    """Returns what the command printed."""
    return finished(command, environment, preexec).stdout


def last_line(text):
    return json.loads(text.splitlines()[-1])


def host_run(recipe, warmup, steps, sets=(), arguments=(), environment=None, checkout=OURS, preexec=None):
    """Trains a recipe whose first hook is the stopwatch: its path, or its name among those of the benchmarks. Returns the
    values of the stopwatch, with the losses of the logged steps, and the run's summary."""
    with tempfile.TemporaryDirectory() as folder:
        values = pathlib.Path(folder, "values.json")
        command = [*checkout.command(recipe, pathlib.Path(folder, "run")), *arguments]
        for value in (f"hooks.0.options.path={values}", f"hooks.0.options.warmup={warmup}",
                      f"hooks.0.options.steps={steps}", f"train.steps={warmup + steps}",
                      "checkpoint=null", *sets):
            command += ["--set", value]
        run(command, environment, preexec)
        summary = json.loads(pathlib.Path(folder, "run/summary.json").read_text())
        return {**last_line(values.read_text()), "losses": losses(pathlib.Path(folder, "run/metrics.jsonl"))}, summary


def losses(metrics):
    """The training losses of the logged steps."""
    records = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    return [record["loss"] for record in records if "loss" in record]


def host(recipe, warmup, steps, sets=(), checkout=OURS, environment=None):
    return host_run(recipe, warmup, steps, sets, environment=environment, checkout=checkout)[0]


def peer(program, *arguments, environment=None, preexec=None):
    return last_line(run([PYTHON, "-B", ROOT / "tests/bench/peers" / program, *arguments], environment, preexec))
