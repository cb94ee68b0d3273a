#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds cases.json against the schema that the program prints, by the package jsonschema.

The tests do the same with the validator that the program is built with. This one is a second
opinion, by other authors; it is run by hand:

    python3 tests/host/cli/schema/oracle.py build
"""
import copy
import json
import pathlib
import re
import subprocess
import sys

import jsonschema

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]


def place(document, pointer):
    """The container and the key that a JSON pointer ends with."""
    *parents, key = [p.replace("~1", "/").replace("~0", "~") for p in pointer.split("/")[1:]]
    for parent in parents:
        document = document[int(parent)] if isinstance(document, list) else document[parent]
    return document, int(key) if isinstance(document, list) else key


def patched(base, patch):
    document = copy.deepcopy(base)
    for step in patch:
        box, key = place(document, step["path"])
        if step["op"] == "remove":
            del box[key]
            continue
        if step["op"] in ("copy", "move"):
            source, name = place(document, step["from"])
            value = copy.deepcopy(source[name]) if step["op"] == "copy" else source.pop(name)
        else:
            value = step["value"]
        box[key] = value
    return document


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
    schema = json.loads(subprocess.check_output(
        [build / "bin/host", "--print-schema", "--plugin-dir", build / "plugins"]))
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    cases = json.loads((HERE / "cases.json").read_text())
    wrong = []
    for verdict in ("good", "broken"):
        for case in cases[verdict]:
            if validator.is_valid(patched(cases["base"], case["patch"])) != (verdict == "good"):
                wrong.append(f"{verdict}: {case['name']}")
    num = len(cases["good"]) + len(cases["broken"])
    for file in sorted((ROOT / "recipes").glob("*.json")):
        num += 1
        text = re.sub(r"^\s*//.*$", "", file.read_text(), flags=re.M)
        if not validator.is_valid(json.loads(text)):
            wrong.append(f"good: {file.name}")
    print("\n".join(wrong + [f"{num - len(wrong)} of {num} as expected"]))
    return 1 if wrong else 0


sys.exit(main())
