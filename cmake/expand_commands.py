#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gives compile_commands.json one entry for each source, for editors and clangd.

  expand_commands.py BUILD            rewrites BUILD/compile_commands.json; does nothing the second time
  expand_commands.py BUILD --check    fails if a source that the build compiles has not exactly one entry,
                                      or if ./dev left the file as CMake wrote it

CMake lists what it compiles: files below BUILD that include up to 16 sources, or a source once for each
target. Here a source gets the command of the first file that includes it. A command of a program with
sanitizers beside a plain one (tests/fuzz) comes last. Precompiled headers are left out of the commands:
clang cannot read those of gcc, and sources do not need them.
"""

import json
import pathlib
import re
import subprocess
import sys

INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
PRECOMPILED = re.compile(r" -Winvalid-pch\b| -include \S+/cmake_pch\.hx?x?\b")


def included_by(path, build):
    """The sources that a joined file includes, by absolute path; none for other files."""
    if not path.startswith(f"{build}/") or not path.endswith((".cpp", ".cxx")):
        return []
    sources = []
    for name in INCLUDE.findall(pathlib.Path(path).read_text()):
        if name.endswith((".cpp", ".c")):
            beside = pathlib.Path(path).parent / name
            sources.append(str((beside if beside.exists() else build.parent / name).resolve()))
    return sources


def expanded(entries, build):
    """One entry for each source, in the order of the sources."""
    found = {}
    for entry in sorted(entries, key=lambda e: "-fsanitize=address" in e["command"]):
        for source in included_by(entry["file"], build) or [entry["file"]]:
            if source not in found:
                command = PRECOMPILED.sub("", entry["command"])
                found[source] = {**entry, "file": source, "command": command.replace(f" -c {entry['file']}", f" -c {source}")}
    return [found[source] for source in sorted(found)]


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    path = build / "compile_commands.json"
    if not path.exists():
        return 0  # another generator
    entries = json.loads(path.read_text())
    wanted = expanded(entries, build)
    if "--check" not in sys.argv:
        if wanted != entries:
            path.write_text(json.dumps(wanted, indent=1) + "\n")
        return 0
    if not (build / ".dev").exists():  # configured without ./dev
        entries = wanted
    times = {}
    for entry in entries:
        times[entry["file"]] = times.get(entry["file"], 0) + 1
    # By ninja's own log: each object and the files that it was compiled from. The first is the source.
    compiled = set()
    log = subprocess.run(["ninja", "-C", str(build), "-t", "deps"], capture_output=True, text=True, check=True).stdout
    for block in log.split("\n\n"):
        lines = block.split("\n")
        if lines[0].split(": #deps")[0].endswith(".o"):
            files = [str((build / line.strip()).resolve()) for line in lines[1:] if line.endswith((".cpp", ".c"))]
            compiled.update(f for f in files if re.match(r"(host|plugins|sdk|tests)/", f.removeprefix(f"{build.parent}/")))
    problems = [f"{f}: {times.get(f, 0)} entries" for f in sorted(compiled) if times.get(f) != 1 and pathlib.Path(f).exists()]
    problems += [f"{e['file']}: is a joined file" for e in entries if included_by(e["file"], build)]
    print("\n".join(problems[:20]) or f"{len(compiled)} sources have one entry each")
    if problems:
        print(f"{len(problems)} entries differ; run cmake/expand_commands.py {build}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
