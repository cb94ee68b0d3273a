# SPDX-License-Identifier: Apache-2.0
"""A small language model: the host, with plain and with fused kernels, and four peers.

A round runs each program once. Each ratio is taken within a round; a figure is its median over the
rounds. "The fastest" is the peer against which the host's median ratio is worst.
"""
import statistics

import programs
from table import Row, at_least, at_most

TOKENS_A_STEP = 16 * 128
PEERS = {"bare": "bare PyTorch", "compile": "torch.compile, fused AdamW", "lightning": "Lightning",
         "hf": "Hugging Face Trainer"}
KERNELS = {"plain": 1.05, "fused": 1.3}  # with the goals on tokens a second


def run_host(kernels, threads, warmup, steps):
    return programs.host("lm.json", warmup, steps,
                         [f"model.options.kernels={kernels}", f"threads.compute={threads}"])


def run_peer(name, threads, warmup, steps):
    # One for each number of threads: it is written into the code that is kept, and not into its key.
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(programs.FOLDER / f"inductor-{threads}")}
    return programs.peer("lm_peer.py", name, threads, warmup, steps, environment=cache)


def speed_rows(threads, rounds):
    rows = []
    for kernels, goal in KERNELS.items():
        what = f"**lm**, {threads} thread{'s' if threads > 1 else ''}, {kernels} kernels: tokens/s against the fastest peer"
        ours = statistics.median(TOKENS_A_STEP / one[kernels]["step_s"] for one in rounds)
        if not programs.has_peers():
            rows.append(Row(what, f"at least {goal}", f"{ours:,.0f} tokens/s; {programs.NO_PEERS}", None))
            continue
        ratios = {name: statistics.median(one[name]["step_s"] / one[kernels]["step_s"] for one in rounds)
                  for name in PEERS}
        fastest = min(ratios, key=ratios.get)
        theirs = statistics.median(TOKENS_A_STEP / one[fastest]["step_s"] for one in rounds)
        rows.append(at_least(what, goal, ratios[fastest],
                             f" ({ours:,.0f} against {theirs:,.0f}, {PEERS[fastest]})"))
    return rows


def memory_row(raw):
    what = "**lm**: peak memory against bare PyTorch, the worst of the above"
    if not programs.has_peers():
        return Row(what, "at most 0.6", programs.NO_PEERS, None)
    ratios = {
        (threads, kernels): statistics.median(
            one[kernels]["peak_mib"] / one["bare"]["peak_mib"] for one in rounds)
        for threads, rounds in raw.items() for kernels in KERNELS}
    threads, kernels = max(ratios, key=ratios.get)
    ours = statistics.median(one[kernels]["peak_mib"] for one in raw[threads])
    theirs = statistics.median(one["bare"]["peak_mib"] for one in raw[threads])
    return at_most(what, 0.6, max(ratios.values()), f" ({ours:.0f} against {theirs:.0f} MiB)")


def start_row(raw):
    value = max(statistics.median(one[kernels]["first_step_s"] for one in rounds)
                for rounds in raw.values() for kernels in KERNELS)
    note = ""
    if programs.has_peers():
        theirs = {name: statistics.median(one[name]["first_step_s"] for rounds in raw.values() for one in rounds)
                  for name in PEERS}
        note = " (" + ", ".join(f"{PEERS[name]} {seconds:.1f}" for name, seconds in theirs.items()) + ")"
    return Row("**lm**: start of the process to first step done, the worst of the above", "at most 0.6 s",
               f"{value:.2f} s{note}", value <= 0.6)


def measure(quick):
    num_rounds, warmup, steps = (1, 1, 3) if quick else (5, 5, 30)
    raw = {}
    for threads in (2,) if quick else (1, 2):
        programs.say(f"lm, {threads} threads: warming caches")
        for kernels in KERNELS:  # plugins are vetted, once
            run_host(kernels, threads, 1, 1)
        if programs.has_peers() and not quick:  # and code compiled, which takes a minute
            run_peer("compile", threads, 1, 1)
        raw[threads] = []
        for i in range(num_rounds):
            programs.say(f"lm, {threads} threads: round {i + 1} of {num_rounds}")
            one = {kernels: run_host(kernels, threads, warmup, steps) for kernels in KERNELS}
            if programs.has_peers():
                one.update({name: run_peer(name, threads, warmup, steps) for name in PEERS})
            raw[threads].append(one)
    rows = [row for threads, rounds in raw.items() for row in speed_rows(threads, rounds)]
    return rows + [memory_row(raw), start_row(raw)], {"rounds": raw, "warmup": warmup, "steps": steps}
