#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a change touches: the targets to build, and the tests to run, by the map of the build.

  touched.py BUILD FILE...          prints "build TARGET", "test NAME" and "left NAME SECONDS" lines
  touched.py BUILD --tests REGEX    prints the targets of the tests whose names match

A test is touched if its program, or a target that it needs, is built from one of the files. Tests
of the same folder come first (tests/host/NAME for host/NAME), then those with the fewest build steps
between file and program. Far ones are left out once the chosen ones take LIMIT seconds, and printed
as "left". Seconds are those of the last run of CTest. The checks of the tree always run.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

LIMIT = 45.0  # seconds of tests, on one processor
ALWAYS = ("house_test", "lint_test", "spelling_test", "tree_test")
OF_PAGES = ("docs_test", "guide_pages_test", "reports_test", "status_page_test")  # read them as they run
# Targets that only collect others say nothing of nearness.
MOST_STEPS = 12


def words_of(line):
    """The paths of a line of build.ninja, with its escapes undone."""
    return [re.sub(r"\$([ :$])", r"\1", w) for w in re.findall(r"(?:\$.|[^\s$])+", line)]


def edges_of(build):
    """Yields (outputs, inputs) of each statement of build.ninja. Phony ones too."""
    for line in (build / "build.ninja").read_text().split("\n"):
        if not line.startswith("build "):
            continue
        outputs, _, rest = re.sub(r"\$:", "\0", line[6:]).partition(": ")
        outputs = [w.replace("\0", ":") for w in words_of(outputs) if w != "|"]
        inputs = [w.replace("\0", ":") for w in words_of(rest)[1:] if w not in ("|", "||")]
        yield outputs, inputs


def headers_of(build):
    """Yields (object, files that it was compiled from), from ninja's log of dependencies."""
    text = subprocess.run(["ninja", "-C", str(build), "-t", "deps"], capture_output=True, text=True, check=True).stdout
    target, files = None, []
    for line in text.split("\n"):
        if line.startswith("    "):
            files.append(line.strip())
        elif ": #deps" in line:
            if target:
                yield target, files
            target, files = line.split(": #deps")[0], []
    if target:
        yield target, files


class Map:
    def __init__(self, build):
        self.build = str(build)
        self.root = str(build.parent) + "/"
        self.names = {}
        self.users = collections.defaultdict(list)  # by file: what is made from it
        for outputs, inputs in edges_of(build):
            for one in inputs:
                self.users[self.name(one)] += [self.name(o) for o in outputs]
        for target, files in headers_of(build):
            for one in files:
                self.users[self.name(one)].append(self.name(target))

    def name(self, path):
        """The path as ninja has it: relative to the build folder, or absolute outside of the tree."""
        known = self.names.get(path)
        if known is None:
            whole = os.path.normpath(os.path.join(self.build, path))
            known = os.path.relpath(whole, self.build) if whole.startswith(self.root) else whole
            self.names[path] = known
        return known

    def steps_from(self, files):
        """By target: the least number of build steps from one of the files."""
        steps = {self.name(os.path.abspath(f)): 0 for f in files}
        queue = collections.deque(steps)
        while queue:
            one = queue.popleft()
            for user in self.users[one]:
                if user not in steps and steps[one] < MOST_STEPS:
                    steps[user] = steps[one] + 1
                    queue.append(user)
        return steps


def tests_of(build, release):
    """By name: what its command runs, relative to the build folder, and its cost in seconds. Tests with the label
    release are left out unless `release` is true."""
    listed = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], capture_output=True, text=True, check=True)
    costs = {}
    data = build / "Testing/Temporary/CTestCostData.txt"
    for line in data.read_text().split("\n") if data.exists() else []:
        fields = line.split()
        if len(fields) == 3:
            costs[fields[0]] = float(fields[2])
    tests = {}
    for test in json.loads(listed.stdout)["tests"]:
        labels = [p["value"] for p in test["properties"] if p["name"] == "LABELS"]
        if not release and labels and "release" in labels[0]:
            continue
        words = re.findall(r"/[^\s'\"]+", " ".join(test.get("command", [])))
        inside = [os.path.relpath(w, build) for w in words if w.startswith(str(build) + "/")]
        tests[test["name"]] = ([w for w in inside if (build / w).is_file() or w in ("plugins",)], costs.get(test["name"], 5.0))
    return tests


def mirrors_of(files, root):
    """The folders of tests that mirror the folders of the files."""
    folders = set()
    for f in files:
        parts = pathlib.Path(os.path.relpath(os.path.abspath(f), root)).parts
        if parts[0] == "host":
            folders.add(f"tests/host/{parts[1]}/")
        elif parts[0] in ("plugins", "sdk", "recipes"):
            folders.add(f"tests/{parts[0]}/")
    return folders


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--tests")
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    tests = tests_of(arguments.build, release=arguments.tests is not None)
    if arguments.tests is not None:
        chosen = {n for n in tests if re.search(arguments.tests, n)}
        targets = {w for n in chosen for w in tests[n][0]}
        for target in sorted("cmake/plugins/tenon_plugins" if t == "plugins" else t for t in targets):
            print("build", target)
        return 0
    made = Map(arguments.build)
    steps = made.steps_from(arguments.files)
    mirrors = mirrors_of(arguments.files, arguments.build.parent)
    mirrored = {user for file, users in made.users.items() for user in users
                if user.endswith(".o") and any(file.startswith("../" + m) and file.endswith(".cpp") for m in mirrors)}
    programs = {user for one in mirrored for user in made.users[one]}
    near = {}
    for name, (files, _) in tests.items():
        reached = [0 if f in programs else steps[f] for f in files if f in steps]
        if reached:
            near[name] = min(reached)
    total = 0.0
    pages = OF_PAGES if any(f.endswith(".md") for f in arguments.files) else ()
    chosen = [n for n in (*ALWAYS, *pages) if n in tests]
    left = []
    for name in sorted(near, key=lambda n: (near[n], tests[n][1])):
        if name in chosen:
            continue
        total += tests[name][1]
        (chosen if total <= LIMIT else left).append(name)
    targets = {f for n in chosen for f in tests[n][0] if f in steps}
    # Everything that is compiled from the files must compile, also where its tests are left out.
    targets |= {t for t in steps if t.endswith(".o")}
    for target in sorted(targets):
        print("build", target)
    for name in chosen:
        print("test", name)
    for name in left:
        print("left", name, round(tests[name][1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
