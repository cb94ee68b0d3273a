# SPDX-License-Identifier: Apache-2.0
"""Counts how much of host/ only carries things from place to place: sizes of all classes, fields that
are copied, callbacks. house.py holds the limits.
"""

import re

# A class that a reader can hold: its functions on one screen, its members on half of one.
MOST_FUNCTIONS = 40
MOST_MEMBERS = 20

# Classes over these limits, with the reason. A class that falls below must leave the list.
LARGE_CLASSES = {
    "host/train/run_state/outcome.hpp Outcome": "the fields of summary.json",
    "host/cli/command_line.hpp CommandLine": "one member for each option of the command line",
    "host/checkpoint/checkpoint_index.hpp CheckpointMetadata": "the fields of index.json",
    "host/recipe/recipe.hpp Recipe": "one member for each section of a recipe",
    "host/recipe/train_recipe.hpp TrainRecipe": "one member for each key of a section, which are bound by name",
    "host/distributed/failures/rank_monitor.hpp RankMonitor": "goes with the split of reporting from watching",
    "host/tensor/flat_group.hpp FlatGroup": "goes with separate classes for shards and whole values",
    "host/data/data_stream.hpp DataStream": "goes with the split of positions from reading",
}

CLASS = re.compile(r"(?<!enum )\b(?:class|struct)\s+(?:\[\[[^\]]*\]\]\s*)?([\w:]+(?:<[^{};()]*>)?)\s*(?:final\s*)?"
                   r"(?::[^{;()]*)?\{")
LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'', re.S)
COPY = re.compile(r"\.(\w+) = (?:std::move\()?[*&]?(?:[\w>.()\[\]-]+?[.>]|)(\w+?)_?(?:\(\))?\)?(?=[,}\n]|$)", re.M)


def classes_in(text):
    """(name, body) of each class, with the class around it in the name. Comments and literals are blanked."""
    text = LITERAL.sub(lambda m: '""' if m.group(0)[0] in "\"'R" else " ", text)
    found = []
    around = []  # (end, name) of the classes that are open
    for start in CLASS.finditer(text):
        depth, end = 1, start.end()
        while end < len(text) and depth > 0:
            depth += (text[end] == "{") - (text[end] == "}")
            end += 1
        around = [(e, n) for e, n in around if e > start.start()]
        name = "::".join([n for _, n in around[-1:]] + [start.group(1)])
        around.append((end, name))
        found.append((name, text[start.end() : end - 1]))
    return found


def copied_fields(text):
    """The number of designated initializers that copy a field or a variable of the same name."""
    return sum(field == value for field, value in COPY.findall(text))


def callbacks(text):
    """The number of std::function in a text."""
    return text.count("std::function<")


def class_problems(sizes):
    """What is wrong with sizes of classes, by "file name": (functions, members)."""
    large = {name for name, (functions, members) in sizes.items() if functions > MOST_FUNCTIONS or members > MOST_MEMBERS}
    problems = [f"{name}: {sizes[name][0]} functions (at most {MOST_FUNCTIONS}), {sizes[name][1]} members (at most {MOST_MEMBERS})"
                for name in sorted(large - LARGE_CLASSES.keys())]
    return problems + [f"{name}: listed in LARGE_CLASSES, and is not large" for name in sorted(LARGE_CLASSES.keys() - large)]
