# SPDX-License-Identifier: Apache-2.0
"""Results of a workload: a table of medians with their spread, and goals for the developers of the host."""
import dataclasses
import statistics
import typing


@dataclasses.dataclass
class Group:
    """One quantity, measured for several programs or settings."""
    title: str  # the quantity and its unit
    rows: dict  # from the program to its samples, one a round
    digits: int = 2

    def lines(self):
        yield f"| **{self.title}** | | | |"
        for name, samples in self.rows.items():
            spread = ["-", "-"]  # one sample has no spread
            if len(samples) > 1:
                spread = [self.text(min(samples)), self.text(max(samples))]
            yield f"| {name} | {self.text(statistics.median(samples))} | {spread[0]} | {spread[1]} |"

    def text(self, value):
        return f"{value:,.{self.digits}f}"


@dataclasses.dataclass
class Goal:
    workload: str
    goal: str
    measured: str
    is_met: typing.Optional[bool]  # None: not measured

    def line(self, is_quick):
        verdict = {True: "met", False: "missed", None: "not measured"}[self.is_met]
        if is_quick and self.is_met is not None:
            verdict = "quick run"
        return f"| `{self.workload}` | {self.goal} | {self.measured} | {verdict} |"


@dataclasses.dataclass
class Result:
    groups: list = dataclasses.field(default_factory=list)
    goals: list = dataclasses.field(default_factory=list)
    raw: dict = dataclasses.field(default_factory=dict)
    missing: list = dataclasses.field(default_factory=list)  # what was skipped, and why

    def add(self, key, part):
        """Appends the results of a part of a workload."""
        self.groups += part.groups
        self.goals += part.goals
        self.missing += [reason for reason in part.missing if reason not in self.missing]
        self.raw[key] = part.raw


def ratios(rounds, value, above, below):
    """The ratio of two programs in each round."""
    return [value(one[above]) / value(one[below]) for one in rounds]


def at_most(workload, what, goal, value, unit="", digits=2):
    return Goal(workload, f"{what}, at most {goal}{unit}", f"{value:.{digits}f}{unit}", value <= goal)


def at_least(workload, what, goal, value, unit="", digits=2):
    return Goal(workload, f"{what}, at least {goal}{unit}", f"{value:.{digits}f}{unit}", value >= goal)


def not_measured(workload, goals):
    return [Goal(workload, goal, "-", None) for goal in goals]


def table(groups):
    head = ["| program | median | min | max |", "|---|---|---|---|"]
    return "\n".join(head + [line for group in groups for line in group.lines()]) + "\n"


def goal_table(goals, is_quick):
    head = ["| workload | goal | measured | verdict |", "|---|---|---|---|"]
    return "\n".join(head + [goal.line(is_quick) for goal in goals]) + "\n"
