# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of a page as a reader would, and compares what they print with the page.

Blocks of the language `console` have commands: lines that start with "$ ". The lines below a command
are what it prints; a line "..." stands for any lines. Numbers are not compared: times, sizes and
losses differ between machines.

Comments above a block:

    <!-- file: NAME -->   the block shows the file NAME of the reader's current folder, all of it
    <!-- install -->      the commands install Tenon; where it is installed, they are skipped

A line "<!-- needs: PROGRAM... -->" anywhere names programs that the page needs beside a compiler.
"""

import dataclasses
import re

_BLOCK = re.compile(r"^(?:<!-- ([^\n]*) -->\n)?```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NEEDS = re.compile(r"^<!-- needs: (.*?) -->$", re.MULTILINE)
_MARK = "== step of the page"


@dataclasses.dataclass
class Step:
    """A command, or a file that the page shows."""

    command: str
    shown: list  # lines
    is_file: bool = False
    is_installation: bool = False


def programs_of(page):
    """Programs that a page needs."""
    return [name for line in _NEEDS.findall(page) for name in line.split()]


def steps_of(page):
    steps = []
    for comment, language, text in _BLOCK.findall(page):
        if comment.startswith("file: "):
            steps.append(Step(f"cat {comment[len('file: '):]}", text.splitlines(), is_file=True))
        elif language == "console":
            lines = iter(text.splitlines())
            for line in lines:
                if line.startswith("$ "):
                    command = line[2:]
                    while line.endswith("\\"):
                        line = next(lines)
                        command += "\n" + line
                    steps.append(Step(command, [], is_installation=comment == "install"))
                elif steps:
                    steps[-1].shown.append(line)
    return steps


def script_of(steps):
    """A shell script that runs the steps from the home folder, and marks where each starts."""
    lines = ["set -e", "cd", "exec 2>&1 </dev/null"]
    for step in steps:
        lines += [f"echo '{_MARK}'", step.command]
    return "\n".join(lines) + "\n"


def in_order(pages):
    """Pages in the order in which a reader follows them: later pages use the first plugins."""
    order = ("index", "first-plugin")
    return sorted(
        pages,
        key=lambda page: (
            next((i for i, name in enumerate(order) if page.name.startswith(name)), len(order)),
            page.name,
        ),
    )


def comparable(line):
    """A line without its numbers."""
    text = re.sub(r"[0-9][0-9.,]*", "0", line.rstrip())
    return re.sub(r" +0", " 0", text)  # aligned to the right


def differences(steps, printed):
    """What the steps printed, against what the page shows. Empty if all is as shown."""
    parts = [part.lstrip("\n") for part in printed.split(_MARK + "\n")[1:]]
    problems = []
    for i, step in enumerate(steps):
        if i >= len(parts):
            problems.append(f"`{step.command}` was not reached")
            break
        found = parts[i].splitlines()
        if step.is_file:
            if found != step.shown:
                problems.append(_file_difference(step, found))
            continue
        line = _first_missing(step.shown, found)
        if line is not None:
            problems.append(
                f"`{step.command}` does not print as shown: {line}\nIt printed:\n{parts[i]}"
            )
    return problems


def _file_difference(step, found):
    at = next(
        (i for i, (a, b) in enumerate(zip(step.shown, found)) if a != b),
        min(len(step.shown), len(found)),
    )
    shown = step.shown[at] if at < len(step.shown) else "its end"
    real = found[at] if at < len(found) else "its end"
    return f"`{step.command}`: line {at + 1} is `{real}`, and the page shows `{shown}`"


def _first_missing(shown, found):
    """The first line that is not as shown, or None."""
    found = [comparable(line) for line in found]
    at = 0
    may_skip = False
    for line in shown:
        if line == "...":
            may_skip = True
            continue
        wanted = comparable(line)
        while may_skip and at < len(found) and found[at] != wanted:
            at += 1
        if at >= len(found) or found[at] != wanted:
            return line
        may_skip = False
        at += 1
    return None if may_skip or at == len(found) else f"(its last line), but also {found[at]}"
