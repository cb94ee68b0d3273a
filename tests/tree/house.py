#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts what makes a tree easy or hard to live in, and holds limits that were reached.

    python3 tests/tree/house.py            print the counts of this checkout
    python3 tests/tree/house.py --check    exit with 1 and say what is over its limit
    python3 tests/tree/house.py --root DIR count another checkout

cpp_text.py finds functions and classes, wiring.py counts classes and copies, journeys.py counts files.
"""

import argparse
import json
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import journeys  # noqa: E402
import wiring  # noqa: E402
from cpp_text import count_class, functions_in, sources  # noqa: E402

# What a checkout must not exceed (or, for shares, fall below). Lower a limit when a count falls.
MOST = {
    "host files over 600 lines": 0,
    "host functions over 60 lines": 9,
    "cycles of host files": 0,
    "std::to_string in host": 75,
    "lines of parse_command_line.cpp": 300,
    # A class of the loop takes RunServices, so what is still copied are arguments of structs that other
    # rooms define: options, requests, reports. Callbacks go down: a caller passes what to do in between.
    'files on the journey "step"': 115,
    "copied fields in host/train": 300,
    "callbacks in headers of host/train": 50,
    # Each pass over a block, its program, its parameters and their groups: ten classes in two files, and
    # as many that they call. One key of a recipe: its section, its rules, its user and what reports it.
    'files on the journey "block"': 50,
    'files on the journey "key"': 10,
}
LEAST = {
    "lines of host/train with a mirroring test, in percent": 70,
}

def class_sizes(root):
    """(functions, members) of each class of host, by file and name."""
    return {f"{p.relative_to(root).as_posix()} {name}": count_class(body)
            for p in sources(root, "host") for name, body in wiring.classes_in(p.read_text())}


def cycles(root):
    unit = lambda name: re.sub(r"\.(hpp|cpp|h)$", "", name)
    graph = {}
    for path in sources(root, "host", (".cpp", ".hpp", ".h")):
        name = unit(path.relative_to(root).as_posix())
        edges = graph.setdefault(name, set())
        for other in re.findall(r'#include "(host/[^"]+)"', path.read_text()):
            if unit(other) != name:
                edges.add(unit(other))
    sys.setrecursionlimit(10000)
    index, low, stack, on_stack, result = {}, {}, [], set(), []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        on_stack.add(v)
        for w in graph.get(v, ()):
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on_stack:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            ring = []
            while True:
                w = stack.pop()
                on_stack.discard(w)
                ring.append(w)
                if w == v:
                    break
            if len(ring) > 1:
                result.append(sorted(ring))

    for v in list(graph):
        if v not in index:
            visit(v)
    return result


def counts(root):
    host = sources(root, "host")
    lengths = {p: len(p.read_text().splitlines()) for p in host}
    long_functions = []
    for p in host:
        for line, length, head in functions_in(p.read_text()):
            if length > 60:
                long_functions.append((length, p.relative_to(root).as_posix(), line, head[:60]))
    long_functions.sort(reverse=True)
    rings = cycles(root)
    result = {
        "host files": len(host),
        "host lines": sum(lengths.values()),
        "longest host file": max(lengths.values()),
        "host files over 600 lines": sum(n > 600 for n in lengths.values()),
        "host functions over 60 lines": len(long_functions),
        "longest host function": long_functions[0][0] if long_functions else 0,
        "cycles of host files": len(rings),
        "files in the largest cycle": max((len(r) for r in rings), default=0),
        "std::to_string in host": sum(p.read_text().count("std::to_string") for p in host),
        "top-level folders of host": sum(p.is_dir() for p in (root / "host").iterdir()),
    }
    command_line = [p for p in host if p.name in ("command_line.cpp", "parse_command_line.cpp")]
    result["lines of parse_command_line.cpp"] = lengths[command_line[0]]
    sizes = class_sizes(root)
    result["classes of host"] = len(sizes)
    result["classes of host over the limits"] = sum(f > wiring.MOST_FUNCTIONS or m > wiring.MOST_MEMBERS for f, m in sizes.values())
    train = sources(root, "host/train")
    result["copied fields in host/train"] = sum(wiring.copied_fields(p.read_text()) for p in train)
    result["callbacks in headers of host/train"] = sum(wiring.callbacks(p.read_text()) for p in train if p.suffix == ".hpp")
    result.update(journeys.counts(root))
    total = mirrored = 0
    for p in sources(root, "host/train", (".cpp",)):
        n = lengths[p]
        total += n
        test = root / "tests" / p.relative_to(root).parent / (p.stem + "_test.cpp")
        mirrored += n if test.exists() else 0
    result["lines of host/train with a mirroring test, in percent"] = round(100 * mirrored / total)
    virtuals = mentions = 0
    for p in sources(root, "sdk/include/tenon", (".hpp",)):
        lines = p.read_text().split("\n")
        for i, line in enumerate(lines):
            if re.match(r"\s+virtual (?!~)", line):
                virtuals += 1
                comment = []
                k = i - 1
                while k >= 0 and re.match(r"\s*(//|/?\*)", lines[k]):
                    comment.append(lines[k])
                    k -= 1
                mentions += any(re.search(r"\b(Errors|[Tt]hrow|[Ee]rror)", c) for c in comment)
    result["virtuals of the SDK's wrappers"] = virtuals
    result["of them, whose comment mentions errors"] = mentions
    return result, long_functions, rings


def rows_that_differ(root):
    """Folders whose row in docs/architecture.md does not list what layers.json lets them include."""
    allowed = {}
    for room in json.loads((root / "tests/tree/layers.json").read_text()):
        folder = room["folder"].split("/")[0]
        others = {included.split("/")[0] for included in room["may_include"]} - {folder}
        allowed[folder] = allowed.get(folder, set()) | others
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", (root / "docs/architecture.md").read_text(), flags=re.M)
    written = {folder: set(cell.split()) - {"SDK"} for folder, cell in rows}
    return [f for f, others in allowed.items() if written.get(f) not in (others, {"all", "above"})]


# Who derives something from the arrangement of ranks: the classes that answer for a rank, and what
# prints the mesh or plans for another one.
ASKS_THE_MESH = ("host/distributed/", "host/train/run/run_report.cpp", "host/train/plan/recipe_plan.cpp")


def mesh_questions(root):
    """Lines outside of those files that ask the mesh, instead of the role of the rank."""
    lines = []
    for p in sources(root, "host"):
        path = p.relative_to(root).as_posix()
        if path.startswith(ASKS_THE_MESH):
            continue
        for number, line in enumerate(p.read_text().splitlines(), start=1):
            if re.search(r"\bworld_size\(\)|\bMeshDim::|mesh->world_size|mesh->coordinate", line):
                lines.append(f"{path}:{number}: asks the mesh; ask RankRole or a group (rank_role.hpp)")
    return lines


# Loops over the blocks of a graph. All else interprets a program (program_visitor.hpp), so that the
# order of blocks and lifetimes is decided once. These decide, or do nothing that depends on order:
LOOPS_OVER_BLOCKS = {
    "host/model/graph.cpp": "makes the graph",
    "host/model/joined_graph.cpp": "makes the graph",
    "host/model/graph_facts.cpp": "what compilers ask about the graph",
    "host/model/group_facts.cpp": "what compilers ask about groups",
    "host/model/group_layout.cpp": "lays out the groups",
    "host/model/compile_program.cpp": "compiles",
    "host/model/compile_generation.cpp": "compiles",
    "host/model/block_tiles.cpp": "a property of each block",
    "host/model/divided_graph.cpp": "a property of each block",
    "host/model/parameter_store.cpp": "makes the parameters",
    "host/model/block_runner.cpp": "makes what calls each block",
    "host/model/microbatch_state.cpp": "makes the tapes",
    "host/model/program_runner.cpp": "checks that lookups have tables",
    "host/model/stages.cpp": "assigns blocks to stages",
    "host/model/stage_values.cpp": "which blocks a stage has",
    "host/model/block_end_step.cpp": "the end of a step, behind all passes",
    "host/train/components/recomputed_blocks.cpp": "a property of each block",
    "host/train/components/sharding_options.cpp": "a property of each parameter",
    "host/train/run_plan/divided_model.cpp": "which blocks are divided",
    "host/model/position_levels.cpp": "a property of each block",
    "host/train/run_plan/plan_run.cpp": "which values hooks may read",
    "host/train/plan/planned_activations.cpp": "sizes of values",
    "host/train/plan/planned_memory.cpp": "makes the tapes",
    "host/train/flop_meter.cpp": "sums over blocks",
    "host/train/non_finite_origin.cpp": "parameters by block, behind all passes",
    "host/tools/check/model_checks.cpp": "properties of each block",
}
LOOP_OVER_BLOCKS = re.compile(r"(for \(.*|while \(.*|irange\(.*|iota\(.*)\bblocks\.size\(\)|for \(.*num_blocks\(\)"
                              r"|for \([^;]*: [\w.>-]*(graph|graph_)(\.|->)blocks\)")


def walks_over_blocks(root):
    """Loops over the blocks of a graph outside of those files, and names of files that have none."""
    lines = []
    unused = set(LOOPS_OVER_BLOCKS)
    for p in sources(root, "host"):
        path = p.relative_to(root).as_posix()
        for number, line in enumerate(p.read_text().splitlines(), start=1):
            if LOOP_OVER_BLOCKS.search(line):
                unused.discard(path)
                if path not in LOOPS_OVER_BLOCKS:
                    lines.append(f"{path}:{number}: loops over blocks; interpret a program (program_visitor.hpp)")
    return lines + [f"{path}: listed in LOOPS_OVER_BLOCKS, and has no loop over blocks" for path in sorted(unused)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2], type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="name long functions, large classes and cycles")
    arguments = parser.parse_args()
    result, long_functions, rings = counts(arguments.root)
    if not arguments.check:
        for name, value in result.items():
            print(f"{value:>7}  {name}")
        if arguments.verbose:
            for length, path, line, head in long_functions:
                print(f"{length:>7}  {path}:{line}  {head}")
            for name, (functions, members) in sorted(class_sizes(arguments.root).items(), key=lambda c: -max(c[1])):
                if functions > wiring.MOST_FUNCTIONS or members > wiring.MOST_MEMBERS:
                    print(f"         {functions} functions, {members} members: {name}")
            for ring in rings:
                print("         cycle: " + " ".join(ring))
        return 0
    problems = [f"{name}: {result[name]} (at most {limit})" for name, limit in MOST.items() if result[name] > limit]
    problems += [f"{name}: {result[name]} (at least {limit})" for name, limit in LEAST.items() if result[name] < limit]
    problems += [f"docs/architecture.md: the row of `{f}` differs from tests/tree/layers.json" for f in rows_that_differ(arguments.root)]
    problems += wiring.class_problems(class_sizes(arguments.root))
    problems += mesh_questions(arguments.root)
    problems += walks_over_blocks(arguments.root)
    for problem in problems:
        print(problem)
    if any("functions over" in p for p in problems):
        for length, path, line, head in long_functions:
            print(f"  {length} lines: {path}:{line}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
