# SPDX-License-Identifier: Apache-2.0
"""Writes pipeline_golden.json: tables of PyTorch's pipeline schedules, in its CSV form.

    python tests/parity/pipeline_golden.py > tests/parity/pipeline_golden.json
    python tests/parity/pipeline_golden.py --all > ALL     more sizes, too large to keep

TENON_PIPELINE_GOLDEN=ALL lets pipeline_golden_test.cpp read another file.

Each case has the generator's name in Tenon, the ranks, the stages of each, the microbatches, and the
rows. "lowered" has the same tables in the form with messages and actions on parameters.

PyTorch's own tables have three properties that Tenon's do not have:
- gpipe and 1f1b end with REDUCE_GRAD; the others get it when they are lowered.
- The last rank of 1f1b starts with microbatch 1 and ends with one that does not exist; 1 is subtracted
  there. With fewer microbatches than stages, the table of 1f1b is wrong in other ways, so those sizes
  are not here.
- interleaved, zb-h1 and dualpipe-v refuse some numbers of microbatches.
"""

import json
import sys

import torch
from torch.distributed.pipelining import schedules as S

ALL = [(p, n) for p in (1, 2, 3, 4, 5, 8) for n in (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 24, 25)]
KEPT = [(p, n) for p in (1, 2, 3, 4) for n in (1, 2, 3, 4, 5, 8)] + [(5, 7), (3, 12), (8, 24)]
LOWERED = [(2, 3), (4, 4)]


def single(cls, p, n):
    schedule = object.__new__(cls)
    schedule._num_stages, schedule._n_microbatches = p, n
    order = schedule._get_pipeline_order()
    if cls is S.Schedule1F1B:
        order[p - 1] = [a._replace(microbatch_index=a.microbatch_index - 1)
                        if a is not None and a.computation_type == S.F else a for a in order[p - 1]]
    return order


def multi(cls, p, v, n):
    order = {}
    for rank in range(p):
        schedule = object.__new__(cls)
        schedule.pp_group_size, schedule.n_local_stages, schedule.rank = p, v, rank
        schedule._n_microbatches, schedule.num_stages, schedule._num_stages = n, p * v, p * v
        schedule.number_of_rounds = max(1, n // p)
        schedule.microbatches_per_round = n // schedule.number_of_rounds
        if n % schedule.number_of_rounds:
            return None
        order[rank] = schedule._calculate_single_rank_operations(rank)
    if cls is S.ScheduleInterleavedZeroBubble:
        schedule.pipeline_order = order
        order = schedule._add_bubbles_to_actions(p * v)
    return order


def tables(p, n):
    """(name, stages of a rank, order) of each schedule that PyTorch has at this size."""
    yield "gpipe", 1, single(S.ScheduleGPipe, p, n)
    if n >= p:
        yield "1f1b", 1, single(S.Schedule1F1B, p, n)
    if p > 1:
        yield "interleaved", 2, multi(S.ScheduleInterleaved1F1B, p, 2, n)
        yield "interleaved", 3, multi(S.ScheduleInterleaved1F1B, p, 3, n)
        yield "zb-h1", 1, multi(S.ScheduleInterleavedZeroBubble, p, 1, n)
    yield "zb-v", 2, multi(S.ScheduleZBVZeroBubble, p, 2, n)
    if n >= 2 * p:
        yield "dualpipe-v", 2, multi(S.ScheduleDualPipeV, p, 2, n)


def lowered(order, n):
    """The table as PyTorch runs it."""
    order = {r: [a for a in row if a is None or a.computation_type != S.REDUCE_GRAD] for r, row in order.items()}
    ranks = {}
    for rank, row in order.items():
        for action in row:
            for part in (action.sub_actions or (action,)) if action is not None else ():
                ranks[part.stage_index] = rank
    full = {r: S._add_reduce_grad(S._add_unshard_reshard(row), n) for r, row in order.items()}
    return S._add_send_recv(full, stage_to_rank=lambda s: ranks[s], num_stages=len(ranks))


def rows(order):
    return [",".join("" if a is None else str(a) for a in order[r]) for r in sorted(order)]


def main():
    cases = {"torch": torch.__version__.split("+")[0], "compute": [], "lowered": []}
    for p, n in ALL if "--all" in sys.argv[1:] else KEPT:
        for name, v, order in tables(p, n):
            if order is None:
                continue
            case = {"name": name, "ranks": p, "stages_per_rank": v, "microbatches": n}
            cases["compute"].append({**case, "rows": rows(order)})
            if (p, n) in LOWERED:
                cases["lowered"].append({**case, "rows": rows(lowered(order, n))})
    # A case a line.
    print(json.dumps(cases).replace('[{"name"', '[\n{"name"').replace(', {"name"', ',\n{"name"'))


if __name__ == "__main__":
    main()
