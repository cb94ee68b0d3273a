#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the files of host/ that a reader visits on three journeys through the code.

  journeys.py [--root DIR] [--verbose]

  step   from main() to the first call of a block in the first step
  block  a block under ZeRO 3: from the step of the loop to the collectives of its parameters
  key    one recipe key: the files of host/ that name it

The rule of the first two: a journey follows calls from its first function to its last ones, through the
places that JOURNEYS names. Between two places it takes the chain with the fewest calls. It visits the
files of all functions of the chains, and the files of the functions that these call directly: a reader
looks at those to know what they do, and does not follow them. A header and its source are two files, if
the source defines what is called and the header has its comment.

Calls are found by name, in functions as clang-format lays them out (cpp_text.py). A name that several
files define counts only for files that the caller includes, or whose header its own header includes.
Names that still stand for more than two files are left out, as are log, error, text and JSON, which are
vocabulary. std::function and tables of functions are not followed: there a place is named. A place that
a revision lacks is passed over.
"""

import argparse
import collections
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cpp_text import functions_in, sources  # noqa: E402

VOCABULARY = ("host/error/", "host/json/", "host/log/", "host/text/", "host/terminal/")
MOST_FILES = 2  # that one name may stand for

JOURNEYS = {
    "step": "main run_recipe RunSession::RunSession RunSession::train RunComponents::RunComponents plan_run"
            " RunEngine::RunEngine AllocatedRun::AllocatedRun RunEngine::run Trainer::Trainer Trainer::run Trainer::train Trainer::run_step TrainStep::run_microbatches"
            " ForwardPass::run BlockRunner::forward".split(),
    "block": "TrainStep::run_microbatches ForwardPass::run ModelRunner::forward ProgramRunner::forward"
             " ShardedParameters::before_forward ShardedParameters::acquire BlockRunner::forward"
             " TrainStep::run_backward ModelRunner::backward ProgramRunner::backward BlockRunner::backward"
             " ShardedParameters::after_backward ShardedParameters::reduce".split(),
}
KEY = "clip_grad_norm"

WORDS = re.compile(r"\b([A-Za-z_]\w*)(?=\s*(?:<[\w:, *&]*>)?\s*[({])|\b(?:make_unique|make_shared|optional)<(\w+)>")


def code_of(text):
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


def definitions_in(text):
    """As functions_in(), with constructors whose body is empty."""
    found = functions_in(text)
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if re.match(r"(?:\w+::)*(\w+)::\1\(", line):
            end = next(j for j in range(i, len(lines)) if lines[j].endswith(("{", "}", ";")))
            if lines[end].endswith("{}"):
                found.append((i + 1, end - i + 1, line))
    return found


class Tree:
    def __init__(self, root):
        self.root = root
        self.text = {}      # by file
        self.includes = {}  # by file: files
        self.defined = collections.defaultdict(list)  # by last name: (file, whole name, body)
        for path in sources(root, "host"):
            name = path.relative_to(root).as_posix()
            text = path.read_text()
            self.text[name] = text
            self.includes[name] = set(re.findall(r'#include "(host/[^"]+)"', text))
            lines = text.split("\n")
            for line, length, head in definitions_in(text):
                found = re.search(r"([\w~]+(?:::[\w~]+)*)\(", head)
                if found:
                    whole = found.group(1)
                    body = code_of("\n".join(lines[line - 1 : line - 1 + length]))
                    self.defined[whole.split("::")[-1]].append((name, whole, body))
        self.functions = {(f, w): b for many in self.defined.values() for f, w, b in many}

    def header(self, file):
        other = file[:-4] + ".hpp"
        return other if other in self.text else None

    def seen_from(self, file):
        """The files whose functions a file can mean by a name."""
        own = {file, self.header(file) or file}
        near = set().union(*(self.includes[f] for f in own)) | own
        near |= set().union(*(self.includes[f] for f in near if f in self.includes))
        return near | {f[:-4] + ".cpp" for f in near}

    def calls_of(self, function):
        """The functions that a function calls, as (file, whole name)."""
        file, whole = function
        body = self.functions[function]
        seen = self.seen_from(file)
        found = set()
        for match in WORDS.finditer(body[body.index("(") :]):
            name = match.group(1) or match.group(2)
            many = {(f, w) for f, w, _ in self.defined.get(name, ()) if f in seen}
            files = {f for f, _ in many}
            own = {f for f in files if f == file}
            if len(files) > MOST_FILES and own:
                many = {(f, w) for f, w in many if f in own}
                files = own
            if len(files) <= MOST_FILES:
                found |= {(f, w) for f, w in many if not f.startswith(VOCABULARY)}
        found.discard(function)
        return found

    def places(self, names):
        """The functions of these names that exist: at least the first, and half of the others."""
        found = {whole: (file, whole) for many in self.defined.values() for file, whole, _ in many if whole in names}
        if names[0] not in found or 2 * len(found) < len(names):
            missing = [name for name in names if name not in found]
            sys.exit(f"journeys.py: no function of host/ is called {', '.join(missing)}; name others in JOURNEYS")
        return [found[name] for name in names if name in found]

    def chain(self, start, end):
        """The functions from one to another by the fewest calls; only both, if no chain is found."""
        before = {start: None}
        queue = collections.deque([start])
        while queue and end not in before:
            one = queue.popleft()
            for other in sorted(self.calls_of(one)):
                if other not in before:
                    before[other] = one
                    queue.append(other)
        if end not in before:
            return [start, end]
        found = [end]
        while found[-1] != start:
            found.append(before[found[-1]])
        return found[::-1]

    def visited(self, places):
        """(functions on the way, files)."""
        way = []
        for start, end in zip(places, places[1:]):
            way += [f for f in self.chain(start, end) if f not in way]
        called = set(way).union(*(self.calls_of(f) for f in way))
        files = {f for f, _ in called}
        return way, files | {self.header(f) for f in files if self.header(f)}


def counts(root, verbose=False):
    tree = Tree(root)
    result = {}
    for journey, names in JOURNEYS.items():
        way, files = tree.visited(tree.places(names))
        result[f"files on the journey \"{journey}\""] = len(files)
        if verbose:
            print(f"{journey}: {' > '.join(w for _, w in way)}")
            print("\n".join(f"  {f}" for f in sorted(files)))
    result["files on the journey \"key\""] = sum(bool(re.search(rf"\b{KEY}\b", text)) for text in tree.text.values())
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2], type=pathlib.Path)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    for name, value in counts(arguments.root, arguments.verbose).items():
        print(f"{value:>7}  {name}")


if __name__ == "__main__":
    main()
