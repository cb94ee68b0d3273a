# SPDX-License-Identifier: Apache-2.0
"""Language models of Hugging Face folders: runs of the host and of Python peers from equal weights, on equal batches.

Each program also prints the losses of its steps. `check_losses` compares them: programs whose losses differ did not do the
same work, and their times mean nothing.
"""
import contextlib
import json
import pathlib
import tempfile

import programs
from table import Group, at_least, at_most, by_clock, ratios

LM = programs.ROOT / "data/lm"
SMOLLM2 = LM / "smollm2"
NO_LM = "Skipped: data/lm does not exist; fetch it with `./dev deps --lm`."
TOLERANCE = 1e-4
THREADS = 2
SMOLLM2_OPTIONS = {
    "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
    "num_key_value_heads": 3, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 100000.0,
    "tie_word_embeddings": True}


def missing(needs_lm=True):
    """Why a workload cannot run; None if it can."""
    if not programs.has_peers():
        return programs.NO_PEERS
    return NO_LM if needs_lm and not SMOLLM2.exists() else None


def recipe(name, model, data, loss, optimizer, **train):
    """A recipe that loads nothing and logs each step. The stopwatch is the first hook."""
    return {"name": f"bench-{name}", "seed": 1, "threads": {"compute": THREADS}, "model": model, "data": data,
            "loss": loss, "optimizer": optimizer,
            "hooks": [{"type": "bench_stopwatch", "options": {"all_events": False}}],
            "train": {"log_every": 1, **train}}


def chats(path, **options):
    """The options of a dataset of chats for SmolLM2. Tokens stay in memory, so that a start encodes the chats."""
    return {"files": [str(path)], "tokenizer": {"type": "hf", "options": {"file": str(SMOLLM2)}}, "max_length": 1024,
            "cache": "", **options}


def host(values, warmup, steps, sets=(), preexec=None):
    """Runs a recipe that is given as a value. The result also has the losses of all steps."""
    with written(values) as path:
        return programs.host_run(path, warmup, steps, sets, preexec=preexec)[0]


@contextlib.contextmanager
def written(values):
    """A file with the value as JSON."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = pathlib.Path(folder, "value.json")
        path.write_text(json.dumps(values), encoding="utf-8")
        yield path


def check_losses(workload, one, names):
    """Raises `Failed` if the losses of the programs of a round differ by more than the tolerance."""
    first, *others = names
    for other in others:
        a, b = one[first]["losses"], one[other]["losses"]
        gap = max((abs(x - y) / max(1, abs(x)) for x, y in zip(a, b)), default=0)
        if len(a) != len(b) or not gap <= TOLERANCE:
            raise programs.Failed(f"{workload}: the losses of {first} and {other} differ: {a} and {b}")


def greatest_gap(rounds, names):
    """The greatest difference between losses of the first program and of the others, for the notes."""
    first, *others = names
    return max(abs(x - y) for one in rounds for other in others
               for x, y in zip(one[first]["losses"], one[other]["losses"]))


def in_rounds(workload, names, num_rounds, run, equal=None):
    """Runs the programs in turn. run: from a name to its values. equal: the names whose losses are compared; null: all."""
    rounds = []
    for i in range(num_rounds):
        programs.say(f"{workload}: round {i + 1} of {num_rounds}")
        rounds.append({name: run(name) for name in programs.in_turn(names, i)})
        check_losses(workload, rounds[-1], equal or list(names))
    return rounds


def group(title, rounds, names, value, digits=2):
    return Group(title, {text: [value(one[name]) for one in rounds] for name, text in names.items()}, digits)


def quartiles(values):
    """The first quartile, the median and the third quartile."""
    ordered = sorted(values)

    def at(part):
        place = part * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (place - low) * (ordered[high] - ordered[low])

    return at(0.25), at(0.5), at(0.75)


def spread(values):
    """A median with its quartiles, as text."""
    low, middle, high = quartiles(values)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def peak_memory(rounds, name):
    return quartiles([one[name]["peak_mib"] for one in rounds])[1]


def memory_goal(workload, what, goal, rounds, ours, peer):
    """Peak memory of the process, ours over the peer's."""
    found = ratios(rounds, lambda run: run["peak_mib"], ours, peer)
    return at_most(workload, what, goal, quartiles(found)[1])


def with_spread(goal, found, by_cpu):
    goal.measured = spread(found) + (f"; CPU time {quartiles(by_cpu)[1]:.2f}" if by_cpu else "")
    return by_clock(goal)


def speed_goal(workload, what, goal, found, by_cpu=None):
    """found, by_cpu: how many times as fast as the peer in each round, by the clock and by CPU time."""
    return with_spread(at_least(workload, what, goal, quartiles(found)[1]), found, by_cpu)


def time_goal(workload, what, goal, found, by_cpu=None):
    """found, by_cpu: times, ours over the peer's, in each round."""
    return with_spread(at_most(workload, what, goal, quartiles(found)[1]), found, by_cpu)


def ratios_group(title, rows):
    """Ratios, with their quartiles as rows of their own if there are several rounds."""
    made = {}
    for name, values in rows.items():
        made[name] = values
        if len(values) > 2:
            low, _, high = quartiles(values)
            made[f"{name}, quartiles"] = [low, high]
    return Group(title, made)
