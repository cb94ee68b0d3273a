#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the tests of the release tier against docs/dev/release-tests.md.

  release_tests.py BUILD            fails if the table of the page is not that of the build
  release_tests.py BUILD --write    writes the table

Each test of the tier has a sibling that `./dev test` runs: NAME for NAME_release, otherwise the test
that its row in the page names. A row of a new test must get its sibling by hand.
"""

import json
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/dev/release-tests.md"
HEAD = "| test | sibling in `./dev test` |\n|---|---|\n"


def labels_by_test(build):
    """By test: its labels."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    tests = {}
    for test in json.loads(listed.stdout)["tests"]:
        properties = {p["name"]: p["value"] for p in test["properties"]}
        tests[test["name"]] = properties.get("LABELS", [])
    return tests


def main():
    tests = labels_by_test(sys.argv[1])
    release = {name for name, labels in tests.items() if "release" in labels}
    text = PAGE.read_text()
    written = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|$", text, flags=re.M))
    siblings = {name: name.removesuffix("_release") if name.endswith("_release") else written.get(name, "")
                for name in sorted(release)}
    problems = [f"{name}: its sibling \"{sibling}\" is no test of `./dev test`"
                for name, sibling in siblings.items() if sibling not in tests or sibling in release]
    table = HEAD + "".join(f"| `{name}` | `{sibling}` |\n" for name, sibling in siblings.items())
    begin = text.index(HEAD)
    end = re.compile(r"^(?!\|)|\Z", re.M).search(text, begin + len(HEAD)).start()
    if "--write" in sys.argv:
        PAGE.write_text(text[:begin] + table + text[end:])
    elif text[begin:end] != table:
        differ = sorted(set(written) ^ set(siblings)) or ["the order of the rows"]
        problems.append(f"{PAGE.name}: the table differs ({', '.join(differ)}); run {' '.join(sys.argv[:2])} --write")
    print("\n".join(problems) or f"{len(release)} tests of the release tier have siblings among {len(tests) - len(release)}")
    return 1 if problems or not release else 0


if __name__ == "__main__":
    sys.exit(main())
