#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what plugins in a folder add to a start. Run by hand, after a build.

usage: vetting.py [--rounds N] [--plugins N] [--of NAME]

Each start is `host --recipe recipes/quickstart.json --validate`. Beside the usual plugins there is a folder with copies
of one plugin (--of, not one that the recipe uses), each with its own id. "unchanged" is a start whose verdicts are
cached, "changed" one in which the bytes of one copy changed, and "first" one with an empty cache. Each number is a
median of all rounds, with its quartiles. CPU time is that of the program and its children. If other processes take more
than 5% of the processors' time, it counts in place of the clock.
Goals: 50 unchanged plugins add less than 20 ms, and a changed one less than 300 ms. The exit status is 1 if one is missed.
"""
import argparse
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import machine

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD_DIR", ROOT / "build"))
GOALS = {"unchanged": 20, "changed": 300}


def processor():
    fields = dict(line.split(":", 1) for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    named = {name.strip(): value.strip() for name, value in fields.items()}
    return (f"{named.get('model name', 'unknown processor')} (family {named.get('cpu family', '?')} model "
            f"{named.get('model', '?')}), {os.cpu_count()} processors")


def make_copies(folder, name, number):
    original = (BUILD / f"plugins/{name}.so").read_bytes()
    ids = re.findall(rb"id=([a-z0-9_.]+)\n", original)
    if len(ids) != 1:
        sys.exit(f"vetting.py: {name}.so has {len(ids)} manifests (expected 1)")
    for i in range(number):
        # A manifest has a fixed size, so the id keeps its length.
        own = f"x{i:03}.".encode() + b"y" * (len(ids[0]) - 5)
        copy = folder / f"copy_{i:03}.so"
        copy.write_bytes(original.replace(b"id=" + ids[0] + b"\n", b"id=" + own + b"\n"))
        copy.chmod(0o644)


def children_cpu_ms():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (usage.ru_utime + usage.ru_stime)


def start(folders, cache):
    """The clock and the CPU time of a start, in ms."""
    command = [BUILD / "bin/host", "--recipe", ROOT / "recipes/quickstart.json", "--validate", "--quiet"]
    for folder in folders:
        command += ["--plugin-dir", folder]
    begin = (time.perf_counter(), children_cpu_ms())
    subprocess.run(command, check=True, cwd=ROOT, env=os.environ | {"XDG_CACHE_HOME": str(cache)})
    return 1000 * (time.perf_counter() - begin[0]), children_cpu_ms() - begin[1]


def measured_rounds(given):
    rounds = []
    usual = [BUILD / "plugins"]
    with tempfile.TemporaryDirectory() as desk:
        copies = pathlib.Path(desk, "copies")
        copies.mkdir(mode=0o755)
        make_copies(copies, given.of, given.plugins)
        both = usual + [copies]
        cache = pathlib.Path(desk, "cache")
        for i in range(given.rounds):
            one = {"first": start(both, pathlib.Path(desk, f"cache-{i}"))}
            start(both, cache)  # fills the cache, and reads all files from the disk
            order = [("without", usual), ("unchanged", both)]
            for name, folders in order if i % 2 == 0 else reversed(order):
                one[name] = start(folders, cache)
            changed = copies / "copy_000.so"
            changed.write_bytes(changed.read_bytes() + b"x")
            one["changed"] = start(both, cache)
            rounds.append(one)
    return rounds


def spread(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return middle, f"{middle:6.1f} ({low:.1f} to {high:.1f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--plugins", type=int, default=50)
    parser.add_argument("--of", default="mse", help="the plugin to copy")
    given = parser.parse_args()
    watch = machine.Watch()
    rounds = measured_rounds(given)
    others = watch.others()
    print(f"{processor()}, {given.plugins} copies of {given.of}.so, {given.rounds} rounds; {watch.text(others)}")
    print("median (quartiles) in ms, by the clock; CPU time")
    for name in rounds[0]:
        print(f"  start, {name:10}" + "; ".join(spread([one[name][i] for one in rounds])[1] for i in (0, 1)))
    is_met = True
    counts = 1 if others > machine.SHARED_ABOVE else 0
    for name, base in (("unchanged", "without"), ("changed", "unchanged")):
        added = [spread([one[name][i] - one[base][i] for one in rounds]) for i in (0, 1)]
        is_met = is_met and added[counts][0] < GOALS[name]
        print(f"  added, {name:10}" + "; ".join(text for _, text in added) + f"; goal: less than {GOALS[name]}")
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
