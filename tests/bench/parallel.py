# SPDX-License-Identifier: Apache-2.0
"""Two or four ranks of one thread that divide sequences (`parallel.context`), blocks (`parallel.tensor`) or layers
(`parallel.pipeline`), on the CPUs of this machine: bytes of the exchanges, speed over one rank of one thread, and memory of
a rank.

Bytes are the host's own count, of the steps alone: a long run minus a short run. Speed is that of a llama of 85 million
parameters and sequences of 512; the runs of a round follow each other, so a machine that something else uses as well gives
other ratios. Memory follows from the peaks of two lengths: the activations of a position, and the state.
"""
import statistics

import programs
from table import Goal, Group, Result, at_least

RECIPE = "lm.json"
WIDTH, HEADS, KEY_HEADS, LAYERS = 128, 4, 2, 4
ONE_THREAD = ["threads.compute=1"]
LARGE = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12,
         "num_key_value_heads": 12, "max_position_embeddings": 512}
SPEED_GOAL, LENGTH_GOAL = 1.7, 3.5
STATE_GOAL, ACTIVATION_GOAL = 0.52, 0.55
MEMORY = 1 << 30


def options(values):
    return [f"model.options.{key}={value}" for key, value in values.items()]


def launched(num_ranks):
    return ["--launch", num_ranks] if num_ranks > 1 else []


def context(num_ranks, by="ulysses"):
    return [] if num_ranks == 1 else [f"parallel.context={num_ranks}", f"parallel.context_by={by}"]


def pipeline(num_ranks):
    return [] if num_ranks == 1 else [f"parallel.pipeline={num_ranks}"]


def tensor(num_ranks, has_pieces=False):
    return [f"parallel.tensor={num_ranks}", f"parallel.sequence_parallel={str(has_pieces).lower()}"]


# ---- bytes ----

def bytes_goal(what, share):
    """`share` is measured / theory."""
    over = 100 * (share - 1)
    return Goal("parallel", f"{what}, within 1% of theory", f"{over:+.2f}%", abs(over) < 1)


def sent(num_ranks, by, steps):
    """Bytes that rank 0 has sent in exchanges of attention."""
    sets = [*ONE_THREAD, "data.batch_size=4", "model.options.num_key_value_heads=2", *context(num_ranks, by)]
    summary = programs.host_run(RECIPE, 1, steps - 1, sets, launched(num_ranks))[1]
    return summary["sent_bytes"]["all_to_all"]


def traffic(quick):
    result, rows = Result(), {}
    positions = 4 * 128 // 2  # of rank 0 of two
    for by, n in (("ulysses", 2), ("gather", 2)) if quick else (("ulysses", 2), ("gather", 2), ("gather", 4)):
        programs.say(f"parallel: bytes of {n}, {by}")
        short, long = 2, 6
        bytes_a_step = (sent(n, by, long) - sent(n, by, short)) / (long - short)
        key_width = KEY_HEADS * WIDTH // HEADS
        formula = 2 * (n - 1) / n * (2 * WIDTH + 2 * key_width) if by == "ulysses" else 6 * (n - 1) * key_width
        theory = formula * 4 * LAYERS * positions * 2 / n
        rows[f"{by}, {n} ranks"] = [bytes_a_step / theory]
        result.goals.append(bytes_goal(f"bytes sent, {by}, {n} ranks", bytes_a_step / theory))
        result.raw[f"bytes, {by}, {n}"] = {"bytes_per_step": bytes_a_step, "theory": theory}
    result.groups.append(Group("bytes of the exchanges of attention, measured / theory", rows, 4))
    return result


def sent_by_layers(num_ranks, has_pieces, layers, steps):
    """Bytes that rank 0 has sent in collectives of tensors."""
    sets = [*ONE_THREAD, "data.batch_size=4", f"model.options.num_hidden_layers={layers}",
            *tensor(num_ranks, has_pieces)]
    sent_bytes = programs.host_run(RECIPE, 1, steps - 1, sets, launched(num_ranks))[1]["sent_bytes"]
    return sum(sent_bytes.get(kind, 0) for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"))


def tensor_traffic(quick):
    """Bytes of a layer: those of more layers and more steps, minus those of fewer. Gradients of norms are a part of them,
    and are not in the formula."""
    result, rows = Result(), {}
    positions = 4 * 128
    cases = ((2, False), (2, True)) if quick else ((2, False), (2, True), (4, False), (4, True))
    for n, has_pieces in cases:
        name = f"{n} ranks" + (", pieces of sequences" if has_pieces else "")
        programs.say(f"parallel: bytes of tensor, {name}")
        few, many, short, long = 2, 6, 2, 4
        a_step = [(sent_by_layers(n, has_pieces, layers, long) - sent_by_layers(n, has_pieces, layers, short))
                  / (long - short) for layers in (few, many)]
        theory = (10 if has_pieces else 8) * (n - 1) / n * WIDTH * 4 * positions
        share = (a_step[1] - a_step[0]) / (many - few) / theory
        rows[name] = [share]
        result.goals.append(bytes_goal(f"bytes sent, tensor, {name}", share))
    result.groups.append(Group("bytes of the exchanges of a layer divided by tensor ranks, measured / theory", rows, 4))
    return result


def pipeline_traffic(quick):
    """Bytes of rank 0, which sends values forward and receives gradients: D e for each position, and the same back. Headers of
    messages are not in the formula."""
    result, rows = Result(), {}
    positions = 4 * 128
    for n in (2,) if quick else (2, 4):
        programs.say(f"parallel: bytes of pipeline, {n} ranks")
        sets = [*ONE_THREAD, "data.batch_size=4", "train.global_batch_size=16", *pipeline(n)]
        short, long = (programs.host_run(RECIPE, 1, steps - 1, sets, launched(n))[1]["sent_bytes"]["send"]
                       for steps in (2, 4))
        share = (long - short) / 2 / (WIDTH * 4 * positions * 4)  # of 4 microbatches
        rows[f"{n} ranks"] = [share]
        result.goals.append(bytes_goal(f"bytes sent at a border, pipeline {n}", share))
    result.groups.append(Group("bytes of a border of a pipeline, forward, measured / theory", rows, 4))
    return result


# ---- speed ----

def step_times(label, programs_of_round, sets, num_rounds, warmup, steps):
    """By round and program, the seconds of a step. A program is a number of ranks and more settings."""
    rounds = []
    for i in range(num_rounds):
        programs.say(f"parallel: {label}, round {i + 1} of {num_rounds}")
        rounds.append({name: programs.host_run(RECIPE, warmup, steps, [*sets, *more], launched(n))[0]["step_s"]
                       for name in programs.in_turn(programs_of_round, i) for n, more in [programs_of_round[name]]})
    return rounds


def speed(quick):
    num_rounds, warmup, steps = (1, 1, 1) if quick else (5, 2, 6)
    shape = [] if quick else [*options(LARGE), "data.train.options.sequence_length=512"]
    sets = [*ONE_THREAD, "data.batch_size=1", *shape]
    divided = {**{by: (2, context(2, by)) for by in ("ulysses", "gather")},
               "tensor": (2, tensor(2)), "tensor, pieces": (2, tensor(2, has_pieces=True))}
    programs_of_round = {"alone": (1, []), **divided}
    rounds = step_times("speed", programs_of_round, sets, num_rounds, warmup, steps)
    found = {name: [one["alone"] / one[name] for one in rounds] for name in divided}
    result = Result([Group("tokens/s of two ranks / tokens/s of one, one thread each", found)], raw={"rounds": rounds})
    result.goals.append(at_least("parallel", "context 2 over one rank, 85 M llama, T = 512", SPEED_GOAL,
                                 statistics.median(found["ulysses"])))
    result.goals.append(at_least("parallel", "tensor 2 over one rank, 85 M llama, T = 512", SPEED_GOAL,
                                 statistics.median(found["tensor"])))
    return result


def pipeline_speed(quick):
    """16 microbatches of one sample in a step, on one rank as well."""
    num_rounds, warmup, steps = (1, 1, 1) if quick else (5, 1, 2)
    shape = [] if quick else [*options(LARGE), "data.train.options.sequence_length=512"]
    sets = [*ONE_THREAD, "data.batch_size=1", "train.global_batch_size=16", *shape]
    programs_of_round = {"alone": (1, []), "pipeline": (2, pipeline(2))}
    rounds = step_times("speed of a pipeline", programs_of_round, sets, num_rounds, warmup, steps)
    found = [one["alone"] / one["pipeline"] for one in rounds]
    result = Result([Group("tokens/s of a pipeline of two ranks / tokens/s of one, 16 microbatches", {"pipeline": found})],
                    raw={"pipeline rounds": rounds})
    result.goals.append(at_least("parallel", "pipeline 2 over one rank, 85 M llama, T = 512, 16 microbatches", SPEED_GOAL,
                                 statistics.median(found)))
    return result


# ---- memory ----

def peak(num_ranks, positions, more):
    """Bytes of tensors at the peak of a step of rank 0, whose part is the longest."""
    sets = [*ONE_THREAD, "data.batch_size=1", f"data.train.options.sequence_length={positions}",
            f"model.options.max_position_embeddings={positions}", "train.loss_chunk=256", *more]
    return programs.host_run(RECIPE, 1, 1, sets, launched(num_ranks))[1]["peak_tensor_bytes"]


def state_and_slope(num_ranks, short, more):
    """Bytes of the state and of the activations of a position: the line through two peaks."""
    lower, upper = (peak(num_ranks, n * short, more) for n in (1, 2))
    slope = (upper - lower) / short
    return lower - slope * short, slope


def longest(num_ranks, short):
    """The longest sequence at MEMORY: memory grows with the positions of a rank."""
    state, slope = state_and_slope(num_ranks, short, context(num_ranks))
    return (MEMORY - state) / slope


def length(quick):
    short = 256 if quick else 1024
    programs.say("parallel: longest sequence")
    alone, divided = longest(1, short), longest(4, 4 * short)
    result = Result([Group("longest sequence of a step at 1 GiB a rank, by measured peaks",
                           {"1 rank": [alone], "4 ranks": [divided]}, 0)],
                    raw={"longest": {"1": alone, "4": divided}})
    result.goals.append(at_least("parallel", "longest sequence at 1 GiB a rank, context 4 over one rank", LENGTH_GOAL,
                                 divided / alone))
    return result


def tensor_memory(quick):
    short = 64 if quick else 256
    programs.say("parallel: memory of tensor")
    alone, divided = (state_and_slope(n, short, [*options(LARGE), *more])
                      for n, more in ((1, []), (2, tensor(2, has_pieces=True))))
    state, slope = divided[0] / alone[0], divided[1] / alone[1]
    result = Result([Group("memory of tensor 2 with pieces of sequences / one rank, 85 M llama",
                           {"state": [state], "activations of a position": [slope]}, 3)],
                    raw={"memory": {"alone": alone, "divided": divided}})
    for name, goal, found in (("state", STATE_GOAL, state), ("activations", ACTIVATION_GOAL, slope)):
        result.goals.append(Goal("parallel", f"{name} of tensor 2 with pieces over one rank, at most {goal}",
                                 f"{found:.3f}", found <= goal))
    return result


def measure(quick):
    result = Result()
    for name, part in (("traffic", traffic), ("tensor traffic", tensor_traffic), ("pipeline traffic", pipeline_traffic),
                       ("speed", speed), ("pipeline speed", pipeline_speed), ("length", length),
                       ("tensor memory", tensor_memory)):
        result.add(name, part(quick))
    return result
