#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what plugins in a folder add to a start, and prints medians. Run by hand, after a build.

usage: vetting.py [--rounds N] [--plugins N]

Each start is `host --recipe recipes/quickstart.json --validate`. Beside the usual plugins there is a folder with copies
of mse.so, each with its own id, which the recipe does not use. "unchanged" is a start whose verdicts are cached,
"changed" one in which the bytes of one copy changed, and "first" one with an empty cache.
Goals: 50 unchanged plugins add less than 20 ms, and a changed one less than 300 ms.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD_DIR", ROOT / "build"))
ID = b"id=org.tenon.mse\n"


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


def make_copies(folder, number):
    original = (BUILD / "plugins/mse.so").read_bytes()
    if original.count(ID) != 1:
        sys.exit(f"vetting.py: mse.so has {original.count(ID)} manifests with the expected id (expected 1)")
    for i in range(number):
        (folder / f"copy_{i:03}.so").write_bytes(original.replace(ID, f"id=org.tenon.{i:03}\n".encode()))


def start_ms(folders, cache):
    command = [BUILD / "bin/host", "--recipe", ROOT / "recipes/quickstart.json", "--validate", "--quiet"]
    for folder in folders:
        command += ["--plugin-dir", folder]
    begin = time.perf_counter()
    subprocess.run(command, check=True, cwd=ROOT, env=os.environ | {"XDG_CACHE_HOME": str(cache)})
    return 1000 * (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--plugins", type=int, default=50)
    given = parser.parse_args()
    usual = [BUILD / "plugins"]
    rounds = []
    with tempfile.TemporaryDirectory() as desk:
        copies = pathlib.Path(desk, "copies")
        copies.mkdir(mode=0o755)
        make_copies(copies, given.plugins)
        both = usual + [copies]
        cache = pathlib.Path(desk, "cache")
        for i in range(given.rounds):
            one = {"first": start_ms(both, pathlib.Path(desk, f"cache-{i}"))}
            start_ms(both, cache)  # fills the cache, and reads all files from the disk
            one["without"] = start_ms(usual, cache)
            one["unchanged"] = start_ms(both, cache)
            changed = copies / "copy_000.so"
            changed.write_bytes(changed.read_bytes() + b"x")
            one["changed"] = start_ms(both, cache)
            rounds.append(one)
    medians = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    later = {name: statistics.median(one[name] - one[base] for one in rounds)
             for name, base in (("unchanged", "without"), ("changed", "unchanged"))}
    print(f"{processor()}, {given.rounds} rounds, medians in ms")
    for name, value in medians.items():
        print(f"  start, {name:10} {value:8.1f}")
    print(f"  {given.plugins} unchanged plugins add {later['unchanged']:.1f} (goal: 20)")
    print(f"  a changed plugin adds {later['changed']:.1f} (goal: 300)")


if __name__ == "__main__":
    main()
