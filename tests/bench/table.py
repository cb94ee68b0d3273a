# SPDX-License-Identifier: Apache-2.0
"""Rows of figures beside their goals, and the Markdown table that they make."""
import dataclasses
import typing


@dataclasses.dataclass
class Row:
    what: str
    goal: str
    measured: str
    is_met: typing.Optional[bool]  # None: not measured

    def text(self, judged):
        verdict = {True: "met", False: "missed", None: "not measured"}[self.is_met]
        if not judged and self.is_met is not None:
            verdict = "not judged"
        return f"| {self.what} | {self.goal} | {self.measured} | {verdict} |"


def at_most(what, goal, value, note=""):
    return Row(what, f"at most {goal}", f"{value:.2f}{note}", value <= goal)


def at_least(what, goal, value, note=""):
    return Row(what, f"at least {goal}", f"{value:.2f}{note}", value >= goal)


def markdown(rows, judged):
    head = ["| what | goal | measured | verdict |", "|---|---|---|---|"]
    return "\n".join(head + [row.text(judged) for row in rows]) + "\n"
