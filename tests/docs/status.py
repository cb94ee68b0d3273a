#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/status.md from features.json beside this file, or checks it with --check.

A feature is "tested" if the test file that it names exists and has a test case. A test file in the
column of GPUs must have one tagged [gpu]; GPUs count as untested until such tests have run on one.
Keys that the recipe's page calls "not yet" and features that name a key must be the same.
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/status.md"
STATES = ("untested", "not yet", "not supported")

HEAD = """\
# Status

<!-- Written by tests/docs/status.py from tests/docs/features.json; do not edit. -->

Tenon is an early release. "Tested" means that an automated test covers the feature: on one rank
(CPU), or on several ranks of one or more processes (many ranks). GPU code compiles, and runs in
tests on a simulated driver. It has not run on a GPU, so every GPU cell is "untested" at best.
"Not yet" means that the recipe rejects the feature.
"""


def cell(value, column):
    if value in STATES:
        return value
    text = (ROOT / value).read_text()
    tag = r"TEST_CASE(_METHOD)?\([^;{]*\[gpu\]" if column == "gpu" else r"TEST_CASE"
    if not re.search(tag, text):
        raise SystemExit(f"features.json: {value} has no test case for the column {column}")
    return "untested" if column == "gpu" else f"[tested](../{value})"


def page():
    areas = json.loads((ROOT / "tests/docs/features.json").read_text())
    lines = [HEAD]
    keys = []
    for area in areas:
        lines += [f"## {area['area']}", "", "| feature | CPU | many ranks | GPU |", "|---|---|---|---|"]
        for feature in area["features"]:
            if "key" in feature:
                keys.append(feature["key"])
                cells = ["not yet"] * 3
            else:
                cells = [cell(feature[column], column) for column in ("cpu", "ranks", "gpu")]
            lines.append(f"| {feature['name']} | " + " | ".join(cells) + " |")
        lines.append("")
    recipe = (ROOT / "docs/reference/recipe.md").read_text()
    unavailable = re.findall(r"^\| `(?:[^`]*\.)?([a-z_]+)` \| not yet \|", recipe, re.M)
    if sorted(keys) != sorted(unavailable):
        raise SystemExit(f"features.json has the keys {sorted(keys)}; recipe.md says \"not yet\" for {sorted(unavailable)}")
    return "\n".join(lines).rstrip() + "\n"


def main():
    text = page()
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != text:
            print("docs/status.md is out of date; run ./dev docs")
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
