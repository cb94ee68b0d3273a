# SPDX-License-Identifier: Apache-2.0
"""A click model on tables that grow, and peers whose tables have a fixed size: 26 tables of dimension 16, batches of
2,048 samples, 64-bit ids from power laws, dense layers 429-512-256-1. Also tables alone: lookups and a plain gather,
inserts, memory of the index, and how even the steps of a growing table are.

A round runs each program once. Peers have fused AdamW for dense layers, and the settings of `programs.tuned_process`.
Two passes over 97 batches; the second pass is timed. All ids are known then, which favors the fixed tables of the peers.
Memory is not compared: the peers' memory follows from the table size chosen here.
"""
import json
import statistics

import llamas
import programs
from table import Group, Result, at_least, at_most, not_measured, ratio_group, ratios, speed_goal

BATCH = 2048
RECIPE = "sparse.json"
PEERS = {"embedding-bag": "PyTorch EmbeddingBag, SparseAdam", "tbe": "FBGEMM", "torchrec": "TorchRec",
         "tbe+compile": "FBGEMM, dense layers by torch.compile", "tbe+onednn": "FBGEMM, oneDNN products"}
PARTS = {"tenon": "Tenon", "tbe": "FBGEMM"}
SPEED_GOAL, START_GOAL, PART_GOAL = 1.1, 0.25, 1.0
LOOKUP_GOALS = {16: 2.2, 64: 1.5}
INSERT_GOAL, INDEX_GOAL, GROWTH_GOAL = 5, 24, 3


def sets_of(threads, batches):
    return [f"threads.compute={threads}", f"data.train.options.samples={batches * BATCH}"]


def run_program(name, threads, batches, *more):
    if name == "tenon":
        return programs.host(RECIPE, batches, batches, sets_of(threads, batches))
    return programs.peer("sparse_peer.py", name, threads, batches, *more, environment={
        "OMP_NUM_THREADS": str(threads), **llamas.caches(threads), **programs.tuned_process()})


def run_part(name, threads, batches):
    """Lookup, gradient and update, without the dense layers."""
    if name == "tenon":
        return programs.last_line(programs.run(
            [programs.FOLDER / "sparse_part", programs.OURS.build / "plugins", threads, batches]))
    return run_program(name, threads, batches, "--sparse-only")


def least(one, value):
    """The value of the best peer of a round."""
    return min(one[name][value] for name in PEERS)


def training_goals(threads, rounds, parts):
    threads_text = llamas.threads_text(threads)
    names = (("samples/s / fastest peer", f"at least {SPEED_GOAL}"),
             ("start to the first step / best peer", f"at most {START_GOAL}"),
             ("lookup, gradient and update / FBGEMM", f"at least {PART_GOAL}"))
    if not programs.has_peers():
        return not_measured("sparse", [f"{what}, {threads_text}, {goal}" for what, goal in names])
    start = statistics.median(one["tenon"]["first_step_s"] / least(one, "first_step_s") for one in rounds)
    part = statistics.median(ratios(parts, lambda run: run["step_s"], "tbe", "tenon"))
    return [speed_goal("sparse", f"{names[0][0]}, {threads_text}", SPEED_GOAL, rounds, "tenon", PEERS, threads),
            at_most("sparse", f"{names[1][0]}, {threads_text}", START_GOAL, start),
            at_least("sparse", f"{names[2][0]}, {threads_text}", PART_GOAL, part)]


def training(threads, num_rounds, batches):
    peers = PEERS if programs.has_peers() else {}
    names = {"tenon": "Tenon", **peers}
    part_names = {name: title for name, title in PARTS.items() if name in names}
    text = llamas.threads_text(threads)
    rounds, parts = [], []
    if peers:
        programs.say(f"sparse, {text}: filling caches")
        run_program("tbe+compile", threads, 2)
    for i in range(num_rounds):
        programs.say(f"sparse, {text}: round {i + 1} of {num_rounds}")
        rounds.append({name: run_program(name, threads, batches) for name in programs.in_turn(names, i)})
        parts.append({name: run_part(name, threads, batches) for name in programs.in_turn(part_names, i)})
    groups = [Group(f"samples/s, {text}",
                    {title: [BATCH / one[name]["step_s"] for one in rounds] for name, title in names.items()}, 0)]
    if peers:
        groups.append(ratio_group(f"samples/s / samples/s of the fastest peer, {text}", rounds, {"tenon": "Tenon"}, peers))
    groups.append(Group(f"CPU time of a step, all threads, ms, {text}",
                        {title: [1000 * one[name]["cpu_step_s"] for one in rounds] for name, title in names.items()}, 1))
    if peers:
        groups.append(ratio_group(f"CPU time of the fastest peer / CPU time, {text}", rounds, {"tenon": "Tenon"}, peers,
                                  "cpu_step_s"))
    groups += [
        Group(f"lookup, gradient and update alone, ms, {text}", {
            title: [1000 * one[name]["step_s"] for one in parts] for name, title in part_names.items()}),
        Group(f"start of the process to the end of the first step, s, {text}", {
            title: [one[name]["first_step_s"] for one in rounds] for name, title in names.items()})]
    return Result(groups, training_goals(threads, rounds, parts), {"rounds": rounds, "parts": parts},
                  [] if peers else [programs.NO_PEERS])


def tables(num_rows, num_rounds):
    rounds = []
    for i in range(num_rounds):
        programs.say(f"sparse, tables alone: round {i + 1} of {num_rounds}")
        rounds.append(json.loads(programs.run([programs.FOLDER / "tables", num_rows])))
    result = Result(raw={"rounds": rounds, "rows": num_rows})
    for dim, goal in LOOKUP_GOALS.items():
        found = [one[f"dim{dim}"] for one in rounds]
        ratio = [one["lookup_ratio"] for one in found]
        result.groups += [
            Group(f"a row of {dim} in a table of {num_rows:,} rows, ns", {
                "lookup of a known id": [one["lookup_ns"] for one in found],
                "plain gather of a row": [min(one["table_gather_ns"], one["plain_gather_ns"]) for one in found]}, 1),
            Group(f"lookup / plain gather, rows of {dim}", {"Tenon": ratio})]
        result.goals.append(at_most("sparse", f"lookup / gather, rows of {dim}", goal, statistics.median(ratio)))
    inserts = [1000 / one["dim16"]["insert_ns"] for one in rounds]
    index = [one["dim16"]["bytes_beside"] for one in rounds]
    growth = [one["growth"]["p999_ratio"] for one in rounds]
    result.groups += [
        Group("inserts, million ids/s, rows of 16", {"Tenon": inserts}),
        Group("index memory, bytes per row", {"Tenon": index}),
        Group("99.9th percentile / median of a step while the table grows", {"Tenon": growth})]
    result.goals += [
        at_least("sparse", "inserts", INSERT_GOAL, statistics.median(inserts), " million ids/s"),
        at_most("sparse", "index memory", INDEX_GOAL, statistics.median(index), " bytes per row"),
        at_most("sparse", "99.9th percentile / median of a step while growing", GROWTH_GOAL, statistics.median(growth))]
    return result


def measure(quick):
    num_rounds, batches = (1, 3) if quick else (5, 97)
    result = Result()
    for threads in (1, 2):
        result.add(f"threads_{threads}", training(threads, num_rounds, batches))
    result.add("tables", tables(100_000, 1) if quick else tables(10_000_000, 3))
    return result
