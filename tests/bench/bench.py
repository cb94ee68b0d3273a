# SPDX-License-Identifier: Apache-2.0
"""Measures the host, and other trainers on the same workloads, and prints one table per workload.

usage: bench.py [--quick] [--goals] [--page] [--rounds N] [--isa avx512|avx2|sse] [NAME...]
       bench.py --against DIR [--pairs N] [--quick] [mlp|lm|sparse...]
NAME is mlp, lm, lm-large, ranks, sparse, start, neighbor, bf16, exported, isa, abi, reading, packing, checkpoint, gpu,
sft, lora, dpo, decoders, generate, segments, long, optimizer-8bit, process-data or parallel; default: all.

Each workload writes its table to build/bench/NAME.md and all samples to build/bench/NAME.json, with the machine, the
date, the commit, the libraries, and what other processes took of the machine meanwhile. --goals also prints the goals and
writes them to build/bench/goals.md. --page also puts the tables and goals into the page of this machine, in
docs/performance. --isa limits all programs to the instruction sets of an older processor; its page is a separate one.
--against compares the host with the host of another built checkout and writes against-NAME.
--quick, or BENCH_QUICK=1 in the environment, only checks that everything runs.
"""
import argparse
import json
import os
import sys
import textwrap

import abi
import against
import bf16
import checkpoint
import cpu
import decoders
import dpo
import exported
import generate
import gpu
import isa
import lm
import lm_large
import long_rows
import lora
import machine
import mlp
import neighbor
import optimizer_8bit
import packing
import page
import parallel
import process_data
import programs
import ranks
import reading
import segments
import sft
import sparse
import start
from table import Result, goal_table, not_measured, table

WORKLOADS = {"mlp": mlp, "lm": lm, "lm-large": lm_large, "ranks": ranks, "sparse": sparse, "start": start,
             "neighbor": neighbor, "bf16": bf16, "exported": exported, "isa": isa, "abi": abi, "reading": reading,
             "packing": packing, "checkpoint": checkpoint, "gpu": gpu, "sft": sft, "lora": lora, "dpo": dpo,
             "decoders": decoders, "generate": generate, "segments": segments, "long": long_rows,
             "optimizer-8bit": optimizer_8bit, "process-data": process_data, "parallel": parallel}
HAVE_ROUNDS = ("lm", "lm-large", "start", "neighbor", "bf16", "exported", "isa", "sft", "lora", "dpo", "decoders",
               "generate", "process-data")  # whose number of rounds --rounds sets
QUICK_NOTE = "A quick run: the numbers are not measurements."


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench")
    parser.add_argument("--quick", action="store_true", default=os.environ.get("BENCH_QUICK") == "1",
                        help="only check that everything runs")
    parser.add_argument("--goals", action="store_true", help="also print the goals and whether they are met")
    parser.add_argument("--page", action="store_true",
                        help="also put the tables into the page of this machine in docs/performance")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"rounds of {', '.join(HAVE_ROUNDS)}, instead of their own")
    parser.add_argument("--isa", choices=list(cpu.SWITCHES), help="limit all programs to older instruction sets")
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
    if found.rounds is not None and found.rounds < 1:
        parser.error(f"--rounds {found.rounds} is too small (expected at least 1)")
    if found.page and not found.isa and cpu.switches_set(os.environ):
        parser.error(f"--page excludes {', '.join(cpu.switches_set(os.environ))} in the environment; use --isa")
    found.names = found.names or list(known)
    return found


def measured(name, chosen):
    if name in HAVE_ROUNDS and chosen.rounds is not None and not chosen.quick:
        result = WORKLOADS[name].measure(False, chosen.rounds)
        result.notes.insert(0, f"{chosen.rounds} rounds.")
        return result
    return WORKLOADS[name].measure(chosen.quick)


def report(name, title, result, properties, watch, quick):
    """Prints the table of a workload, and writes it and the samples to build/bench. Returns the table with its notes."""
    others = watch.others()
    for goal in result.goals:
        goal.is_shared = others > machine.SHARED_ABOVE
    measured_at = f"Commit {properties['commit']}, {machine.date()}."
    notes = " ".join([measured_at, watch.text(others), *result.notes, *([QUICK_NOTE] if quick else [])])
    text = f"{textwrap.fill(notes, 100)}\n"
    if result.groups:
        text += f"\n{table(result.groups)}"
    (programs.FOLDER / f"{name}.md").write_text(f"{machine.markdown(properties)}\n## {title}\n\n{text}")
    (programs.FOLDER / f"{name}.json").write_text(
        json.dumps({"machine": properties, "notes": notes, **result.raw}, indent=1) + "\n")
    print(f"\n## {title}\n\n{text}", end="", flush=True)
    return text


def publish(chosen, properties, tables, text_of_goals):
    processor = cpu.read()
    slug, title = processor.slug(), processor.title()
    if chosen.isa:
        slug, title = f"{slug}-as-{chosen.isa}", f"{title}, as {cpu.LIMITED[chosen.isa]}"
    page.publish(slug, title, machine.markdown(properties), tables, text_of_goals if chosen.goals else "")


def main():
    chosen = arguments()
    goals, tables, failures = [], {}, []
    os.environ.update(cpu.SWITCHES.get(chosen.isa, {}))
    try:
        properties = machine.describe()
        there = against.other(chosen.against) if chosen.against else None
    except programs.Failed as failure:
        sys.exit(str(failure))
    if there:
        properties["other commit"] = machine.commit(there.root)
    print(machine.markdown(properties), end="", flush=True)
    for name in chosen.names:
        watch = machine.Watch()
        try:
            if there:
                result = against.measure(name, there, 1 if chosen.quick else chosen.pairs, chosen.quick)
                report(f"against-{name}", f"{name}, this checkout / other checkout", result, properties, watch,
                       chosen.quick)
            else:
                result = measured(name, chosen)
                tables[name] = report(name, name, result, properties, watch, chosen.quick)
        except programs.Failed as failure:
            failures.append(str(failure))
            result = Result(goals=not_measured(name, ["failed"]))
            print(f"\n## {name}\n\nFailed: see the message at the end.", flush=True)
        goals += result.goals
    text_of_goals = goal_table(goals, chosen.quick)
    if chosen.goals:
        (programs.FOLDER / "goals.md").write_text(f"{machine.markdown(properties)}\n{text_of_goals}")
        print(f"\n## Goals\n\n{text_of_goals}", end="")
    if chosen.page and tables:
        try:
            publish(chosen, properties, tables, text_of_goals)
        except ValueError as error:
            failures.append(str(error))
    if failures:
        sys.exit("\n".join(failures))


main()
