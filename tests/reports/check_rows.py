# SPDX-License-Identifier: Apache-2.0
"""Checks the tables of README.md: four cells a row, and each named case is in its file.

A test cell is `path/of_test.cpp`: CASE; CASE, and <br> before the next file.
"""
import pathlib
import re
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
CASE = re.compile(r'(?:TEST_CASE|SECTION)\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)')
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')


def names_in(path):
    text = path.read_text(encoding="utf-8")
    return {"".join(TEXT.findall(found)).replace('\\"', '"') for found in CASE.findall(text)}


def problems_of(cell):
    for entry in cell.split("<br>"):
        match = re.fullmatch(r"`(tests/[\w/]+\.cpp)`: (.+)", entry.strip())
        if match is None:
            yield f"{entry!r} is not `FILE`: CASE"
            continue
        path = ROOT / match.group(1)
        if not path.is_file():
            yield f"{match.group(1)} does not exist"
            continue
        rest = match.group(2)
        for name in sorted(names_in(path), key=len, reverse=True):  # names may have semicolons
            rest = rest.replace(name, "")
        if rest.strip("; "):
            yield f"{match.group(1)} has no case {rest.strip('; ')!r}"


def main():
    problems = []
    num_rows = 0
    for number, line in enumerate((FOLDER / "README.md").read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith("| ") or line.startswith("| kind "):
            continue
        num_rows += 1
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if len(cells) != 4 or not all(cells):
            problems.append(f"README.md:{number}: {len(cells)} cells (expected 4, none empty)")
            continue
        problems += [f"README.md:{number}: {problem}" for problem in problems_of(cells[3])]
    if num_rows == 0:
        problems.append("README.md has no rows")
    print("\n".join(problems) or f"{num_rows} rows name cases that exist")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
