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
    is_met_by_cpu: typing.Optional[bool] = None  # by CPU time of one thread; None: the goal has no such measure
    is_by_clock: bool = False  # depends on what else runs on the machine
    is_shared: bool = False  # other processes ran on the machine

    def verdict(self):
        if self.is_met is None:
            return "not measured"
        if self.is_shared and self.is_met_by_cpu is not None:
            return "met, CPU time" if self.is_met_by_cpu else "missed, CPU time"
        if self.is_shared and self.is_by_clock:
            return "undecided, shared machine"
        return "met" if self.is_met else "missed"

    def line(self, is_quick):
        verdict = "quick run" if is_quick and self.is_met is not None else self.verdict()
        return f"| `{self.workload}` | {self.goal} | {self.measured} | {verdict} |"


@dataclasses.dataclass
class Result:
    groups: list = dataclasses.field(default_factory=list)
    goals: list = dataclasses.field(default_factory=list)
    raw: dict = dataclasses.field(default_factory=dict)
    notes: list = dataclasses.field(default_factory=list)  # what was skipped, and why

    def add(self, key, part):
        """Appends the results of a part of a workload."""
        self.groups += part.groups
        self.goals += part.goals
        self.notes += [note for note in part.notes if note not in self.notes]
        self.raw[key] = part.raw


def ratios(rounds, value, above, below):
    """The ratio of two programs in each round."""
    return [value(one[above]) / value(one[below]) for one in rounds]


def fastest(rounds, names, key="step_s"):
    """The program with the lowest median."""
    return min(names, key=lambda name: statistics.median(one[name][key] for one in rounds))


def speed_ratios(rounds, ours, peers, key="step_s"):
    """The fastest peer, and how many times as fast ours is in each round."""
    peer = fastest(rounds, peers, key)
    return peer, ratios(rounds, lambda run: run[key], peer, ours)


def ratio_group(title, rounds, ours, peers, key="step_s"):
    """How many times as fast our programs are as the fastest peer. ours and peers: from the program to its name."""
    rows = {}
    for name, text in ours.items():
        peer, found = speed_ratios(rounds, name, peers, key)
        rows[f"{text} / {peers[peer]}"] = found
    return Group(title, rows)


def by_clock(goal):
    goal.is_by_clock = True
    return goal


def speed_goal(workload, what, goal, rounds, ours, peers, threads=1):
    """How many times as fast a program is as the fastest peer, by the clock and by CPU time. CPU time of several threads
    decides nothing: threads that wait for others spin, the longer the busier the machine."""
    wall, cpu = (statistics.median(speed_ratios(rounds, ours, peers, key)[1]) for key in ("step_s", "cpu_step_s"))
    return Goal(workload, f"{what}, at least {goal}", f"{wall:.2f}; CPU time {cpu:.2f}", wall >= goal,
                cpu >= goal if threads == 1 else None, is_by_clock=True)


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
