#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The headers keep each baseline of the ABI as sdk/abi/baseline/rules.json states, and a break is reported with what to
do: in a copy of the SDK, two fields are swapped, a type changes its sign, the number is raised, a struct of the entry
loses a function. Each ABI number is in CHANGELOG.md and docs/abi-policy.md.

    baseline_test.py COMPILER
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sdk/abi"))
import baseline  # noqa: E402, beside the headers
COMPILER = sys.argv[1]


class Copy:
    """A copy of the SDK whose headers a test changes."""

    def __init__(self, folder):
        self.sdk = pathlib.Path(folder) / "sdk"
        shutil.copytree(ROOT / "sdk", self.sdk, ignore=shutil.ignore_patterns("templates", "cmake"))

    def replace(self, header, old, new):
        file = self.sdk / "include/tenon" / header
        text = file.read_text()
        assert old in text, f"{header} lacks {old}; adapt this test"
        file.write_text(text.replace(old, new))

    def raise_number(self, major, minor):
        """Gives the headers another number, as in a commit that changes the ABI on purpose."""
        file = self.sdk / "include/tenon/abi.h"
        text = re.sub(r"(TENON_ABI_MAJOR) \d+u", rf"\1 {major}u", file.read_text())
        text = re.sub(r"(TENON_ABI_MINOR) \d+u", rf"\1 {minor}u", text)
        file.write_text(re.sub(r'(TENON_ABI_STRING) ".*"', rf'\1 "{major}.{minor}"', text))

    def run(self, script, *arguments):
        run = subprocess.run([sys.executable, "-B", self.sdk / "abi" / script, "--compiler", COMPILER, *arguments],
                             capture_output=True, text=True)
        return run.returncode, run.stdout + run.stderr

    def describe(self):
        """Writes abi.json of the changed headers, also under a number that has one."""
        (self.sdk / "abi/abi.json").unlink()
        status, output = self.run("describe_abi.py")
        assert status == 0, output

    def number(self):
        return json.loads((self.sdk / "abi/abi.json").read_text())["abi"]

    def expect_broken(self, *texts):
        status, output = self.run("baseline.py", "--check")
        assert status != 0, f"not noticed: {texts}"
        for text in (*texts, "raise TENON_ABI_MINOR", "docs/abi-policy.md", "CHANGELOG.md", "tests/museum/README.md"):
            assert text in output, f"the report lacks {text!r}:\n{output}"


def swap_in_loss(copy):
    """Two fields of one type trade places: no size changes, and no assertion of the headers fails."""
    first = "  uint32_t additive_over;      /* TENON_ADDITIVE_* */\n"
    second = "  uint32_t flags;              /* TENON_LOSS_* */\n"
    copy.replace("loss.h", first + second, second + first)


def add_to_loss(copy):
    copy.replace("loss.h", "  size_t num_ports;\n} tenon_loss_info;", "  size_t num_ports;\n  size_t added;\n} tenon_loss_info;")
    copy.replace("loss.h", "TENON_SEAL(tenon_loss_info, num_ports);", "TENON_SEAL(tenon_loss_info, added);")


def remove_from_component(copy):
    copy.replace("component.h", "  const void* (*get_table)(const char* id);\n", "")
    copy.replace("component.h", "TENON_SEAL(tenon_component, get_table);", "TENON_SEAL(tenon_component, get_extension);")


def check_a_break_under_the_same_number(copy):
    number = copy.number()
    swap_in_loss(copy)
    copy.describe()
    copy.expect_broken(f"The headers of ABI {number} break ABI {number}:",
                       "struct tenon_loss_info: was uint32_t additive_over at byte 8, is uint32_t flags at byte 8")


def check_abidiff_alone(copy):
    """abi.json is not written again: abidiff reads the headers without it."""
    if not baseline.has_libabigail():
        print("skipped: abidiff not found; run ./dev deps")
        return
    copy.replace("tensor.h", "  int32_t index; /* -1", "  uint32_t index; /* -1")
    copy.expect_broken("abidiff: the headers differ", "typedef name changed from int32_t to uint32_t")


def check_a_break_on_purpose(copy):
    major, minor = map(int, copy.number().split("."))
    copy.raise_number(major, minor + 1)
    swap_in_loss(copy)
    copy.describe()
    copy.expect_broken(f"sdk/abi/baseline has no baseline of ABI {major}.{minor + 1}; run ./dev docs")
    if baseline.has_libabigail():
        assert copy.run("baseline.py") == (0, "")
        assert copy.run("baseline.py", "--check")[0] == 0, copy.run("baseline.py", "--check")
    remove_from_component(copy)  # of the entry, which all numbers keep
    copy.describe()
    copy.expect_broken(f"break ABI {major}.{minor}:", "struct tenon_component: was const void* (*get_table)(const char* id)"
                       " [any] at byte 80, is absent")


def check_minor_versions_from_1_0_on(copy):
    copy.raise_number(1, 0)
    copy.describe()
    shutil.copyfile(copy.sdk / "abi/abi.json", copy.sdk / "abi/baseline/1.0.json")
    copy.raise_number(1, 1)
    add_to_loss(copy)
    copy.describe()
    today = baseline.Baselines(copy.sdk)
    assert today.broken("1.0") == [], "a field at the end of a struct is no break"
    copy.replace("model.h", "TENON_INIT_MODULE = 6", "TENON_INIT_MODULE = 7")
    swap_in_loss(copy)
    copy.describe()
    broken = "\n".join(baseline.Baselines(copy.sdk).broken("1.0"))
    assert "constant TENON_INIT_MODULE was 6 and is 7" in broken, broken
    assert "struct tenon_loss_info: was uint32_t additive_over" in broken, broken


def check_numbers_have_reasons():
    numbers = baseline.Baselines(ROOT / "sdk").numbers()
    changelog, policy = (ROOT / "CHANGELOG.md").read_text(), (ROOT / "docs/abi-policy.md").read_text()
    for number in numbers:
        assert re.search(rf"ABI {re.escape(number)}\b", changelog), f"CHANGELOG.md does not name ABI {number}"
        assert re.search(rf"^\| {re.escape(number)} \| \S", policy, re.M), \
            f"docs/abi-policy.md has no row with the reason for ABI {number}"


def main():
    run = subprocess.run([sys.executable, "-B", ROOT / "sdk/abi/baseline.py", "--check", "--compiler", COMPILER])
    if run.returncode != 0:
        sys.exit(run.returncode)
    check_numbers_have_reasons()
    for case in (check_a_break_under_the_same_number, check_abidiff_alone, check_a_break_on_purpose,
                 check_minor_versions_from_1_0_on):
        with tempfile.TemporaryDirectory() as folder:
            case(Copy(folder))


if __name__ == "__main__":
    main()
