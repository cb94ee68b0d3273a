#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Baselines of the ABI: what the headers of each ABI number promised, in sdk/abi/baseline/NUMBER.json and .abixml.

    python3 sdk/abi/baseline.py            write the baseline of the present number, unless it exists
    python3 sdk/abi/baseline.py --check    fail if the headers break a baseline; say what to do

NUMBER.json is a copy of abi.json. NUMBER.abixml is what abidw of libabigail reads from a compiled file with all structs:
a second opinion, which does not depend on describe_abi.py. baseline/rules.json states which baselines the headers keep.
"""
import argparse
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ABI = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ABI))
import describe_abi  # noqa: E402, beside this file

WHAT_TO_DO = """
Plugins of that number would misread these structs. If the change is a mistake, undo it: fields are only added at the
end of a struct, and never moved. If it is intended, make it one commit: raise TENON_ABI_MINOR and TENON_ABI_STRING in
sdk/include/tenon/abi.h, run ./dev docs, add the number with its reason to docs/abi-policy.md and to CHANGELOG.md, and
follow tests/museum/README.md."""


class Baselines:
    """The baselines beside a copy of the headers."""

    def __init__(self, sdk):
        self.folder = sdk / "abi/baseline"
        self.include = sdk / "include"
        self.today = json.loads((sdk / "abi/abi.json").read_text())
        self.rules = json.loads((self.folder / "rules.json").read_text())

    def numbers(self):
        """The numbers that have a baseline, oldest first."""
        names = [file.stem for file in self.folder.glob("*.json") if file.stem != "rules"]
        return sorted(names, key=lambda name: [int(part) for part in name.split(".")])

    def of(self, number):
        return json.loads((self.folder / f"{number}.json").read_text())

    def kept_structs(self, number):
        """The structs of a baseline that the headers keep: "all", or names."""
        rule = next(rule for rule in self.rules["keeps"] if fnmatch.fnmatch(number, rule["baselines"]))
        is_same = {"same minor": number == self.today["abi"],
                   "same major": number.split(".")[0] == self.today["abi"].split(".")[0]}
        return "all" if is_same[rule["all_structs_of"]] else self.rules["entry"]

    def broken(self, number):
        """What the headers of today break of a baseline, one text for each struct or constant."""
        old, kept = self.of(number), self.kept_structs(number)
        today = {struct["name"]: struct for struct in self.today["structs"]}
        texts = []
        for struct in old["structs"]:
            if struct["header"].startswith(self.rules["drafts"]) or (kept != "all" and struct["name"] not in kept):
                continue
            texts += changes_of(struct, today.get(struct["name"]))
        skipped = self.rules["constants_of_the_version"] + self.rules["constants_that_count"]
        for name, value in old["constants"].items() if kept == "all" else ():
            now = self.today["constants"].get(name, "absent")
            if name not in skipped and now != value:
                texts.append(f"constant {name} was {value} and is {now}")
        return texts


def text_of(field):
    """A field as C writes it, with its place."""
    if "function" in field:
        function = field["function"]
        what = f"{function['returns']} (*{field['name']})({', '.join(function['parameters'])}) " \
               f"[{', '.join(function['threads'])}]"
    else:
        what = f"{field['type']} {field['name']}"
    return f"{what} at byte {field['offset']}"


def changes_of(old, new):
    """What differs from the fields that a struct had. A struct with struct_size may have more fields at its end."""
    if new is None:
        return [f"struct {old['name']} is gone"]
    texts = []
    for i, field in enumerate(old["fields"]):
        now = new["fields"][i] if i < len(new["fields"]) else None
        if now != field:
            texts.append(f"struct {old['name']}: was {text_of(field)}, is {text_of(now) if now else 'absent'}")
    if not old["is_sized"] and new["size"] != old["size"]:
        texts.append(f"struct {old['name']} has no struct_size and never changes, but grew to {new['size']} bytes")
    return texts


# ---- what libabigail reads ----

def compiled(include, folder, compiler):
    """A shared library with debug information of each struct, all of which it uses."""
    headers = sorted(str(file.relative_to(include)) for file in (include / "tenon").glob("*.h"))
    headers += sorted(str(file.relative_to(include)) for file in (include / "tenon/draft").glob("*.h"))
    structs = [struct["name"] for header in headers
               for struct in describe_abi.structs_of(*2 * [describe_abi.without_comments((include / header).read_text())])]
    source, library = folder / "abi.c", folder / "abi.so"
    source.write_text("\n".join([*(f"#include <{header}>" for header in headers),
                                 *(f"void use_{name}({name}* x) {{ (void)x; }}" for name in structs)]) + "\n")
    subprocess.run([compiler, "-std=c11", "-g", "-w", "-fPIC", "-shared", f"-I{include}", source.name, "-o", library],
                   cwd=folder, check=True)  # the file's name goes into the .abixml
    return library


def has_libabigail():
    return shutil.which("abidw") is not None and shutil.which("abidiff") is not None


def differences(baseline, include, compiler):
    """What abidiff reports between a .abixml file and the headers; empty if they agree. None if they do not compile."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            library = compiled(include, pathlib.Path(folder), compiler)
        except subprocess.CalledProcessError:
            return None
        run = subprocess.run(["abidiff", "--no-show-locs", "--no-architecture", "--no-added-syms", baseline, library], capture_output=True, text=True)
        return "" if run.returncode == 0 else run.stdout + run.stderr


def write(baselines, compiler):
    number = baselines.today["abi"]
    described, read = (baselines.folder / f"{number}.{kind}" for kind in ("json", "abixml"))
    if not described.exists():
        shutil.copyfile(ABI / "abi.json", described)
    if read.exists():
        return
    if not has_libabigail():
        sys.exit("abidw not found; install the Debian package abigail-tools (./dev deps)")
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(baselines.include, pathlib.Path(folder), compiler)
        subprocess.run(["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-architecture",
                        "--type-id-style", "hash", "--out-file", read, library], check=True)


def check(baselines, compiler):
    """What is wrong, one text for each baseline."""
    problems = []
    for number in baselines.numbers():
        broken = baselines.broken(number)
        if broken:
            problems.append(f"The headers of ABI {baselines.today['abi']} break ABI {number}:\n  " + "\n  ".join(broken))
    number = baselines.today["abi"]
    if number not in baselines.numbers() or not (baselines.folder / f"{number}.abixml").exists():
        return problems + [f"sdk/abi/baseline has no baseline of ABI {number}; run ./dev docs"]
    if baselines.of(number) != baselines.today and not describe_abi.only_adds_drafts(baselines.of(number), baselines.today):
        problems.append(f"sdk/abi/abi.json differs from sdk/abi/baseline/{number}.json:\n"
                        + describe_abi.differences(baselines.of(number), baselines.today))
    if has_libabigail():
        found = differences(baselines.folder / f"{number}.abixml", baselines.include, compiler)
        if found:
            problems.append(f"abidiff: the headers differ from sdk/abi/baseline/{number}.abixml:\n{found}")
    return problems


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--check", action="store_true")
    options.add_argument("--compiler", default=os.environ.get("CC", "gcc"))
    options = options.parse_args()
    baselines = Baselines(ABI.parent)
    if not options.check:
        write(baselines, options.compiler)
        return
    problems = check(baselines, options.compiler)
    if problems:
        sys.exit("\n".join(problems) + WHAT_TO_DO)
    print(f"ABI {baselines.today['abi']} keeps {', '.join(baselines.numbers())}"
          + ("" if has_libabigail() else "; skipped: abidiff not found"))


if __name__ == "__main__":
    main()
