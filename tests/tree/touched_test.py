#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds touched.py against the build: usage: touched_test.py BUILD"""

import pathlib
import re
import subprocess
import sys

BUILD = pathlib.Path(sys.argv[1]).resolve()
ROOT = BUILD.parent
HERE = pathlib.Path(__file__).resolve().parent


def touched(*arguments):
    text = subprocess.run([sys.executable, "-B", HERE / "touched.py", BUILD, *arguments], cwd=ROOT, capture_output=True,
                          text=True, check=True).stdout
    lines = [line.split() for line in text.split("\n") if line]
    return {kind: [line[1] for line in lines if line[0] == kind] for kind in ("build", "test", "left")}


def programs_of(source):
    """The test programs whose CMakeLists.txt names the source, by reading it."""
    folder = source.parent
    while not (folder / "CMakeLists.txt").exists():
        folder = folder.parent
    name = source.relative_to(folder).as_posix()
    text = (folder / "CMakeLists.txt").read_text()
    return [m.group(1) for m in re.finditer(r"tenon_test\(NAME (\w+)([^()]*)\)", text) if name in m.group(2).split()]


def compiled_from(header):
    """The objects that ninja has compiled from a header, by its own log."""
    text = subprocess.run(["ninja", "-C", BUILD, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    objects = set()
    for block in text.split("\n\n"):
        lines = block.split("\n")
        if f"    ../{header}" in lines:
            objects.add(lines[0].split(": #deps")[0])
    return objects


problems = []
sources = sorted(ROOT.glob("tests/host/*/**/*_test.cpp"))[::100]
for source in sources:
    found = touched(str(source))
    for program in programs_of(source):
        if program not in found["test"] or f"tests/{program}" not in found["build"]:
            problems.append(f"{source.relative_to(ROOT)}: {program} is not among {found['test']}")
for header in ("host/model/graph.hpp", "host/text/counted.hpp", "sdk/include/tenon/loss.h"):
    objects = compiled_from(header)
    missing = objects - set(touched(header)["build"])
    if not objects or missing:
        problems.append(f"{header}: {len(objects)} objects are compiled from it, {sorted(missing)[:3]} are missing")
room = touched("host/model/graph.hpp")
if "model_test" not in room["test"] or "recipes_test" not in room["left"]:
    problems.append(f"host/model/graph.hpp: {room['test']}")
if touched("docs/ranks.md")["build"] or "docs_test" not in touched("docs/ranks.md")["test"]:
    problems.append("docs/ranks.md: a page builds nothing, and is read by docs_test")
if touched("--tests", "^text_test$")["build"] != ["tests/text_test"]:
    problems.append("--tests: the program of text_test")
print("\n".join(problems) or f"{len(sources)} sources and 3 headers lead to their tests and objects")
sys.exit(1 if problems else 0)
