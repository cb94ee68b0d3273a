# SPDX-License-Identifier: Apache-2.0
"""The longest sequence of one AdamW step under RLIMIT_DATA of 3 GiB: 4 layers with the shape of SmolLM2, 42 M parameters.

The peers are transformers with gradient checkpointing, and a loop that is tuned by hand: checkpointing, and the head and the
loss in chunks that are checkpointed too. A search doubles their length until a step fails for lack of memory, and then
bisects. The host then runs a step of each length that a goal names, from the longest on, until one fits: a search would take
hours, since attention grows with the square of the length. All programs start from the same weights; their losses are
compared at the shortest length.

SETTINGS has the settings of the host; a further one is one more entry.
"""
import json
import pathlib
import re
import resource
import tempfile

import language
import programs
from table import Group, Result, at_least, by_clock, not_measured

LIMIT = 3 << 30
SHORTEST = 512
PARTS = 16  # a search ends when the step is this part of the length
OPTIONS = {**language.SMOLLM2_OPTIONS, "num_hidden_layers": 4}
IN_MEMORY = {"recompute": "blocks", "loss_chunk": 256, "tile": 1024}
SETTINGS = {"tenon": IN_MEMORY, "disk": {**IN_MEMORY, "recompute": "selective", "offload_activations": "disk"}}
# At the longest length of the tuned peer, for tokens/s: results of attention fit in memory there.
AT_PEERS_LENGTH = {**IN_MEMORY, "recompute": "selective"}
PEERS = {"transformers": "transformers, checkpointing", "tuned": "PyTorch, checkpointing and chunked loss"}
NAMES = {"tenon": "Tenon, recompute, tiles, chunked loss", "disk": "Tenon, activations on disk", **PEERS}
# Program, peer, and how many times the peer's longest sequence.
GOALS = (("tenon", "tuned", 2), ("tenon", "transformers", 16), ("disk", "tuned", 3))
SPEED_GOAL = 1.5
OUT_OF_MEMORY = re.compile(
    r"can't allocate memory|not enough memory|bad_alloc|out.of.memory|Cannot allocate|could not allocate", re.IGNORECASE)
SMALL_PROCESS = {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"}  # reserved memory counts
GOAL_TEXTS = [f"longest sequence, {NAMES[name]} / {PEERS[peer]}, at least {goal}" for name, peer, goal in GOALS]


def limit_memory():
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))


def text_of(folder, length):
    """A file of one window: the host reads windows from the start of a file."""
    path = folder / f"{length}.txt"
    if not path.exists():
        path.write_bytes((programs.ROOT / "data/kjv.txt").read_bytes()[:length + 1])
    return path


def ours(name, length, folder, settings=None):
    values = language.recipe(
        "long", {"type": "llama", "options": {**OPTIONS, "max_position_embeddings": length}},
        {"batch_size": 1, "train": {"type": "text", "options": {
            "path": str(text_of(folder, length)), "sequence_length": length, "tokenizer": {"type": "byte"}}}},
        {"type": "cross_entropy"}, {"type": "adamw", "options": {"lr": 1e-4}}, steps=1, **(settings or SETTINGS[name]))
    del values["hooks"]
    values.update(load=[{"from": str(folder / "model")}], checkpoint=None)
    with language.written(values) as path, tempfile.TemporaryDirectory() as made:
        run_dir = pathlib.Path(made, "run")
        programs.run(programs.OURS.command(path, run_dir), preexec=limit_memory)
        record = json.loads((run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[0])
    return {"losses": [record["loss"]], "step_s": record["step_seconds"]}


def step(name, length, folder):
    if name in SETTINGS:
        return ours(name, length, folder)
    return programs.peer("long_peer.py", name, folder / "model", text_of(folder, length), length, language.THREADS,
                         preexec=limit_memory, environment=SMALL_PROCESS)


def attempt(name, length, folder):
    """The values of a step; None if its memory does not suffice."""
    try:
        found = step(name, length, folder)
    except programs.Failed as failure:
        if not OUT_OF_MEMORY.search(str(failure)):
            raise
        programs.say(f"long, {name}: {length} tokens do not fit")
        return None
    programs.say(f"long, {name}: {length} tokens in {found['step_s']:.1f} s")
    return found


def longest_of_peer(name, folder):
    """The longest length that fits, and the values of its step."""
    low, best, high = 0, None, SHORTEST
    while True:
        found = attempt(name, high, folder)
        if found is None:
            break
        low, best, high = high, found, 2 * high
    while best is not None and high - low > max(64, low // PARTS):
        middle = (low + high) // 2 // 64 * 64
        found = attempt(name, middle, folder)
        low, best, high = (low, best, middle) if found is None else (middle, found, high)
    if best is None:
        raise programs.Failed(f"long: no step of {name} fits, not even with {SHORTEST} tokens")
    return {"length": low, **best}


def longest_of_goals(name, found, folder):
    """The longest length of a goal that fits, and the values of its step."""
    for length in sorted({goal * found[peer]["length"] for program, peer, goal in GOALS if program == name}, reverse=True):
        values = attempt(name, length, folder)
        if values is not None:
            return {"length": length, **values}
    return {"length": 0, "step_s": float("nan")}


def measure(quick):
    why = language.missing(needs_lm=False)
    if why:
        return Result(goals=not_measured("long", GOAL_TEXTS), notes=[why])
    with tempfile.TemporaryDirectory(prefix="bench-long-") as made:
        folder = pathlib.Path(made)
        programs.peer("long_peer.py", "make", folder / "model")
        first = {name: step(name, SHORTEST, folder) for name in NAMES}
        language.check_losses("long", first, list(NAMES))
        if quick:
            return Result(raw={"first": first}, notes=[f"One step of {SHORTEST} tokens; losses agree."])
        found = {name: longest_of_peer(name, folder) for name in PEERS}
        found.update({name: longest_of_goals(name, found, folder) for name in SETTINGS})
        same = ours("tenon", found["tuned"]["length"], folder, AT_PEERS_LENGTH)
    return tables(found, same)


def tables(found, same):
    """same: a step of the host with the longest sequence of the tuned peer."""
    length = found["tuned"]["length"]
    result = Result(
        groups=[Group("longest sequence that was run, tokens",
                      {text: [found[name]["length"]] for name, text in NAMES.items()}, 0),
                Group("tokens/s at the longest sequence", {
                    text: [found[name]["length"] / found[name]["step_s"]] for name, text in NAMES.items()}, 0),
                Group(f"tokens/s at {length:,} tokens", {
                    NAMES["tenon"]: [length / same["step_s"]], NAMES["tuned"]: [length / found["tuned"]["step_s"]]}, 0)],
        raw={"longest": found, "same": same},
        notes=[f"4 layers, 42 M parameters, RLIMIT_DATA of 3 GiB, {language.THREADS} threads; the peers' lengths "
               f"are within a {PARTS}th, Tenon's are those of the goals. At {length:,} tokens, Tenon keeps the results of "
               f"attention. Losses agree at {SHORTEST} tokens."])
    for name, peer, goal in GOALS:
        result.goals.append(at_least("long", f"longest sequence, {NAMES[name]} / {PEERS[peer]}", goal,
                                     found[name]["length"] / found[peer]["length"]))
    result.goals.append(by_clock(at_least("long", f"tokens/s at the longest sequence of {PEERS['tuned']}", SPEED_GOAL,
                                          found["tuned"]["step_s"] / same["step_s"])))
    return result
