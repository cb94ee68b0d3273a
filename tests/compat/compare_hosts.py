#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one plugin binary on libtorch's stable ABI with two hosts that have different libtorch releases.

usage: compare_hosts.py --build FOLDER --other FOLDER [--work FOLDER] [--if-built]

The plugin is the template loss-cpp-stable, built once, with the libtorch of the first host. It trains with both
hosts, by the recipe of the template. The losses must be equal up to rounding. A plugin of lane `torch` of the first
host must be refused by the second one. With --if-built, exits with 77 unless `./dev compat` passed with the first
host as it is now.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = "compat_loss"
TORCH_LANE = "adamw.so"  # a plugin of lane `torch` that both hosts have
# Sums in another order differ by about 1e-7. Twenty updates of the parameters amplify this.
TOLERANCE = 1e-4


class Mismatch(Exception):
    """What `./dev compat` looks for."""


def run(command, expected=0, **options):
    """Runs a program and returns what it printed on both streams."""
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, **options)
    if done.returncode != expected:
        words = " ".join(str(word) for word in command)
        raise Mismatch(f"`{words}` ended with status {done.returncode} (expected {expected}):\n{done.stdout}")
    return done.stdout


def sha256_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Host:
    """A built host, and the libtorch that it loads."""

    def __init__(self, build):
        self.build = build
        self.program = build / "bin/host"
        self.plugins = build / "plugins"
        self.libtorch = libtorch_version(run([self.program, "--version"]))
        self.libtorch_file = library_path(run(["ldd", self.program]), "libtorch_cpu.so")

    def train(self, project, run_dir):
        """Trains with the recipe of a project. Returns the loss of each step, and the hashes of the plugins by id."""
        shutil.rmtree(run_dir, ignore_errors=True)
        run([self.program, "--recipe", "recipe.json", "--plugin-dir", "build/plugins", "--plugin-dir", self.plugins,
             "--resume", "none", "--run-dir", run_dir], cwd=project)
        records = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
        summary = json.loads((run_dir / "summary.json").read_text())
        return [record["loss"] for record in records], {plugin["id"]: plugin["hash"] for plugin in summary["plugins"]}

    def check_plugin(self, project, plugin):
        """Runs the checks of --check-plugin, which must pass. Returns the last line of the report."""
        report = run([self.program, "--check-plugin", plugin, "--recipe", "recipe.json", "--plugin-dir",
                      "build/plugins", "--plugin-dir", self.plugins, "--seed", "1"], cwd=project)
        return report.strip().splitlines()[-1]


def libtorch_version(text):
    """The libtorch in the output of --version: 2.11.0+cu130."""
    found = re.search(r"libtorch ([^,)]+)", text)
    if found is None:
        raise Mismatch(f"--version names no libtorch: {text}")
    return found.group(1)


def library_path(text, name):
    """The file of a library in the output of ldd."""
    found = re.search(rf"^\s*{re.escape(name)} => (\S+)", text, re.MULTILINE)
    if found is None or not found.group(1).startswith("/"):
        raise Mismatch(f"{name} was not found by the loader:\n{text}")
    return pathlib.Path(found.group(1)).resolve()


def functions_in(listing):
    """The names of C functions in the output of nm that libtorch's C interfaces have: aoti_torch_* and torch_*."""
    return set(re.findall(r"^[0-9a-f ]*[TUW] ((?:aoti_torch|torch)_[A-Za-z0-9_]+)", listing, re.MULTILINE))


def missing_functions(plugin, library):
    """Returns how many C functions of libtorch a plugin needs, and those that the library lacks."""
    needed = functions_in(run(["nm", "-D", "--undefined-only", plugin]))
    return len(needed), sorted(needed - functions_in(run(["nm", "-D", "--defined-only", library])))


def largest_difference(first, second):
    """The largest relative difference of two lists of losses.

    Raises Mismatch if they differ by more than rounding, or have different lengths.
    """
    if len(first) != len(second) or not first:
        raise Mismatch(f"the runs have {len(first)} and {len(second)} losses (expected the same number)")
    differences = [abs(a - b) / max(abs(a), abs(b), 1e-30) for a, b in zip(first, second)]
    if not all(difference <= TOLERANCE for difference in differences):  # false for NaN
        raise Mismatch(f"losses differ (expected relative differences of at most {TOLERANCE:.0e}): {first} and {second}")
    return max(differences)


def build_example(host, project):
    """Writes a project from the template and builds it, with the libtorch of a host. Returns the plugin."""
    shutil.rmtree(project, ignore_errors=True)
    project.parent.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"CMAKE_GENERATOR": "Ninja", "CCACHE_NOHASHDIR": "1", "CCACHE_BASEDIR": str(project)}
    if shutil.which("ccache"):
        environment |= {"CMAKE_C_COMPILER_LAUNCHER": "ccache", "CMAKE_CXX_COMPILER_LAUNCHER": "ccache"}
    run([host.program, "--new-plugin", "loss", NAME, "--lang", "c++-stable", "--dir", project])
    run(["cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={host.build / 'sdk-stage'}"],
        env=environment)
    run(["cmake", "--build", project / "build"], env=environment)
    return project / "build/plugins" / f"{NAME}.so"


def refusal(host, plugin, folder):
    """The line with which a host refuses a plugin of lane `torch` that was built with another libtorch."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy2(plugin, folder)
    listed = run([host.program, "--list-plugins", "--plugin-dir", os.path.relpath(folder)])
    lines = [line for line in listed.splitlines() if "[plugin.torch_mismatch]" in line]
    if len(lines) != 1:
        raise Mismatch(f"{plugin} was not refused by the host with libtorch {host.libtorch}:\n{listed}")
    return lines[0].strip()


def table(rows):
    """Lines with aligned columns. The first row has the titles."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def compare(pinned, other, work):
    if pinned.libtorch == other.libtorch:
        raise Mismatch(f"both hosts have libtorch {other.libtorch}; choose another with --torch")
    plugin = build_example(pinned, work / "example")
    digest = sha256_of(plugin)
    rows = [["libtorch", "steps", "first loss", "last loss", "SHA-256 of the plugin"]]
    losses = []
    for host in (pinned, other):
        found, hashes = host.train(work / "example", work / "runs" / host.libtorch)
        if digest not in hashes[f"com.example.{NAME}"]:
            raise Mismatch(f"the run with libtorch {host.libtorch} used {hashes} (expected {digest})")
        losses.append(found)
        rows.append([host.libtorch, str(len(found)), f"{found[0]:.6f}", f"{found[-1]:.6f}", digest[:16]])
        count, missing = missing_functions(plugin, host.libtorch_file)
        if missing:
            raise Mismatch(f"libtorch {host.libtorch} lacks functions that the plugin needs: {', '.join(missing)}")
    difference = largest_difference(*losses)
    for line in table(rows):
        print(line)
    print(f"\nlosses: the largest relative difference is {difference:.1e} (at most {TOLERANCE:.0e})")
    print(f"symbols: both releases have the {count} C functions of libtorch that the plugin needs")
    print(f"--check-plugin with libtorch {other.libtorch}: {other.check_plugin(work / 'example', plugin)}")
    line = refusal(other, pinned.plugins / TORCH_LANE, work / "torch_lane")
    for version in (pinned.libtorch, other.libtorch):
        if version not in line:
            raise Mismatch(f"the refusal does not name libtorch {version}: {line}")
    print(f"a plugin of lane torch, with libtorch {other.libtorch}:\n  {line}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--other", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--if-built", action="store_true")
    given = parser.parse_args()
    passed = given.other / "compat/passed"
    if given.if_built and not passed.exists():
        print("skipped: there is no host with another libtorch; ./dev compat fetches and builds one")
        sys.exit(77)
    if given.if_built and passed.stat().st_mtime < (given.build / "bin/host").stat().st_mtime:
        print("skipped: the host changed since the last ./dev compat; run it again")
        sys.exit(77)
    try:
        work = (given.work or given.other / "compat").resolve()
        compare(Host(given.build.resolve()), Host(given.other.resolve()), work)
    except Mismatch as error:
        sys.exit(f"compat: {error}")
    if not given.if_built:
        passed.touch()


if __name__ == "__main__":
    main()
