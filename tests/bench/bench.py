# SPDX-License-Identifier: Apache-2.0
"""Measures the host, and other trainers on the same workloads, and prints one table per workload.

usage: bench.py [--quick] [--goals] [--page] [NAME...]
       bench.py --against DIR [--pairs N] [--quick] [mlp|lm|sparse...]
NAME is mlp, lm, ranks, sparse, abi, reading, checkpoint or gpu; default: all.

Each workload writes its table to build/bench/NAME.md and all samples to build/bench/NAME.json, with the machine, the
date, the commit, the libraries, and the load average before and after. --goals also prints the goals and writes them to
build/bench/goals.md. --page also puts the tables into docs/performance.md and, with --goals, docs/dev/bench.md.
--against compares the host with the host of another built checkout and writes against-NAME.
--quick, or BENCH_QUICK=1 in the environment, only checks that everything runs.
"""
import argparse
import json
import os
import sys

import abi
import against
import checkpoint
import gpu
import lm
import machine
import mlp
import page
import programs
import ranks
import reading
import sparse
from table import Result, goal_table, not_measured, table

WORKLOADS = {"mlp": mlp, "lm": lm, "ranks": ranks, "sparse": sparse, "abi": abi, "reading": reading,
             "checkpoint": checkpoint, "gpu": gpu}
QUICK_NOTE = "A quick run: the numbers are not measurements."


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench")
    parser.add_argument("--quick", action="store_true", default=os.environ.get("BENCH_QUICK") == "1",
                        help="only check that everything runs")
    parser.add_argument("--goals", action="store_true", help="also print the goals and whether they are met")
    parser.add_argument("--page", action="store_true", help="also put the tables into docs/performance.md")
    parser.add_argument("--against", metavar="DIR", help="compare with the host of another built checkout")
    parser.add_argument("--pairs", type=int, default=10, metavar="N",
                        help=f"pairs of runs with --against, at least {against.LEAST_PAIRS} (default: 10)")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(WORKLOADS))
    found = parser.parse_args()
    known = against.CASES if found.against else WORKLOADS
    for name in found.names:
        if name not in known:
            parser.error(f"unknown workload {name} (expected one of {', '.join(known)})")
    if found.pairs < against.LEAST_PAIRS:
        parser.error(f"--pairs {found.pairs} is too small (expected at least {against.LEAST_PAIRS})")
    if found.against and (found.goals or found.page):
        parser.error("--against excludes --goals and --page")
    if found.quick and found.page:
        parser.error("--quick excludes --page")
    found.names = found.names or list(known)
    return found


def report(name, title, result, properties, load_before, quick):
    """Prints the table of a workload, and writes it and the samples to build/bench. Returns the table with its notes."""
    load = f"Load average {load_before:.1f} before, {machine.load():.1f} after."
    notes = " ".join([load, *result.missing, *([QUICK_NOTE] if quick else [])])
    text = f"{notes}\n"
    if result.groups:
        text += f"\n{table(result.groups)}"
    (programs.FOLDER / f"{name}.md").write_text(f"{machine.markdown(properties)}\n## {title}\n\n{text}")
    (programs.FOLDER / f"{name}.json").write_text(
        json.dumps({"machine": properties, "notes": notes, **result.raw}, indent=1) + "\n")
    print(f"\n## {title}\n\n{text}", end="", flush=True)
    return text


def main():
    chosen = arguments()
    goals, tables, failures = [], {}, []
    try:
        properties = machine.describe()
        there = against.other(chosen.against) if chosen.against else None
    except programs.Failed as failure:
        sys.exit(str(failure))
    if there:
        properties["other commit"] = machine.commit(there.root)
    print(machine.markdown(properties), end="", flush=True)
    for name in chosen.names:
        load_before = machine.load()
        try:
            if there:
                result = against.measure(name, there, 1 if chosen.quick else chosen.pairs, chosen.quick)
                report(f"against-{name}", f"{name}, this checkout / other checkout", result, properties, load_before,
                       chosen.quick)
            else:
                result = WORKLOADS[name].measure(chosen.quick)
                text = report(name, name, result, properties, load_before, chosen.quick)
                if result.groups:
                    tables[name] = text
        except programs.Failed as failure:
            failures.append(str(failure))
            result = Result(goals=not_measured(name, ["failed"]))
            print(f"\n## {name}\n\nFailed: see the message at the end.", flush=True)
        goals += result.goals
    if chosen.goals:
        text_of_goals = goal_table(goals, chosen.quick)
        (programs.FOLDER / "goals.md").write_text(f"{machine.markdown(properties)}\n{text_of_goals}")
        print(f"\n## Goals\n\n{text_of_goals}", end="")
    if chosen.page and not failures:
        try:
            page.write(page.PERFORMANCE, {"machine": machine.markdown(properties), **tables})
            if chosen.goals:
                goals_there = page.joined(page.DEVELOPERS.read_text(encoding="utf-8"), "goals", text_of_goals)
                page.write(page.DEVELOPERS, {"goals": goals_there})
        except ValueError as error:
            failures.append(str(error))
    if failures:
        sys.exit("\n".join(failures))


main()
