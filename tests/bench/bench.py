# SPDX-License-Identifier: Apache-2.0
"""Measures the host against goals and peers, and prints one table.

usage: bench.py [--quick] [NAME...]      names: mlp, lm, ranks, sparse, abi, reading, checkpoint, gpu; without one, all

Raw figures go to build/bench/NAME.json, the table to build/bench/table.md. --quick, or BENCH_QUICK=1
in the environment, only shows that all of it runs.
"""
import argparse
import json
import os
import sys

import abi
import checkpoint
import gpu
import lm
import machine
import mlp
import programs
import ranks
import reading
import sparse
from table import Row, markdown

WORKLOADS = {"mlp": mlp, "lm": lm, "ranks": ranks, "sparse": sparse, "abi": abi, "reading": reading,
             "checkpoint": checkpoint, "gpu": gpu}


def main():
    parser = argparse.ArgumentParser(prog="./dev bench")
    parser.add_argument("--quick", action="store_true", default=os.environ.get("BENCH_QUICK") == "1",
                        help="see that all of it runs; the figures mean nothing")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(WORKLOADS))
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in WORKLOADS:
            parser.error(f"{name} is none of {', '.join(WORKLOADS)}")

    text = machine.describe()
    if arguments.quick:
        text += " A quick run: the figures mean nothing."
    rows, failures = [], []
    for name in arguments.names or WORKLOADS:
        try:
            measured, raw = WORKLOADS[name].measure(arguments.quick)
        except programs.Failed as failure:
            failures.append(str(failure))
            measured = [Row(f"**{name}**", "", "failed", None)]
        else:
            (programs.FOLDER / f"{name}.json").write_text(json.dumps({"machine": text, **raw}, indent=1))
        rows += measured
    table = f"{text}\n\n{markdown(rows, judged=not arguments.quick)}"
    if not arguments.names:
        (programs.FOLDER / "table.md").write_text(table)
    print(table, end="")
    if failures:
        sys.exit("\n".join(failures))


main()
