#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Follows the plugin guide: runs the commands of each page with an installation of this build.

TENON_BUILD_DIR=build python3 tests/docs/guide_test.py

Follows the two pages on a first plugin, or each page if TENON_TEST_MEMBERS is "all".

tests/packages/bare_root_test.py follows the same pages in a bare system with packages.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from follow_page import differences, in_order, programs_of, script_of, steps_of  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD_DIR", ROOT / "build")).resolve()
GUIDE = ROOT / "docs/plugin-guide"
PAGES = "*.md" if os.environ.get("TENON_TEST_MEMBERS") == "all" else "first-plugin*.md"

home = None


def environment():
    path = f"{home}/tenon/bin:{os.environ['PATH']}"
    found = {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8"}
    # rustup's rustc looks below HOME.
    found["RUSTUP_HOME"] = os.environ.get("RUSTUP_HOME", os.path.expanduser("~/.rustup"))
    if shutil.which("ccache"):  # names of folders differ between runs
        found["CCACHE_DIR"] = os.environ.get("CCACHE_DIR", os.path.expanduser("~/.cache/ccache"))
        found["CCACHE_NOHASHDIR"] = "1"
        found["CCACHE_BASEDIR"] = str(home)
        found["CMAKE_C_COMPILER_LAUNCHER"] = "ccache"
        found["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"
    return found


def follow(page):
    """Runs the commands of a page; returns what differs, or None if the page has no command."""
    text = page.read_text(encoding="utf-8")
    steps = [step for step in steps_of(text) if not step.is_installation]
    if not steps:
        return None
    result = subprocess.run(
        ["sh", "-c", script_of(steps)],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    printed = result.stdout.replace(str(home), "/home/you")
    problems = differences(steps, printed)
    if result.returncode != 0:
        problems.append(f"a command failed with status {result.returncode}:\n{printed[-3000:]}")
    return problems


class Guide(unittest.TestCase):
    def test_each_page_shows_what_its_commands_print(self):
        followed = []
        for page in in_order(GUIDE.glob(PAGES)):
            missing = [p for p in programs_of(page.read_text()) if shutil.which(p) is None]
            if missing:
                print(f"{page.name}: not followed, because {missing[0]} is not installed")
                continue
            with self.subTest(page=page.name):
                problems = follow(page)
                if problems is not None:
                    followed.append(page.name)
                    self.assertEqual(problems, [], "\n\n".join(problems))
        self.assertIn("first-plugin-in-c.md", followed)
        self.assertIn("first-plugin-in-cpp.md", followed)


class Follower(unittest.TestCase):
    PAGE = (
        "Text.\n\n```console\n$ echo one; echo two 2.5\none\ntwo 7\n$ letters\n...\nz\n```\n\n"
        "<!-- needs: sh -->\n\n"
        "<!-- install -->\n```console\n$ false\n```\n\n<!-- file: list.txt -->\n```text\na\n```\n"
    )

    def test_finds_commands_files_and_installations(self):
        steps = steps_of(self.PAGE)
        self.assertEqual(
            [step.command for step in steps],
            ["echo one; echo two 2.5", "letters", "false", "cat list.txt"],
        )
        self.assertEqual([step.is_installation for step in steps], [False, False, True, False])
        self.assertEqual(steps[0].shown, ["one", "two 7"])

    def test_a_page_that_differs_is_found(self):
        steps = [step for step in steps_of(self.PAGE) if not step.is_installation]
        mark = "== step of the page\n"
        good = mark + "one\ntwo 8\n" + mark + "x\ny\nz\n" + mark + "a\n"
        self.assertEqual(differences(steps, good), [])
        for old, new in (
            ("one", "once"),
            ("z\n", "z\nand more\n"),
            ("a\n", "b\n"),
            ("two 8\n", ""),
        ):
            self.assertEqual(len(differences(steps, good.replace(old, new))), 1, old)
        self.assertEqual(len(differences(steps, good[: good.rindex(mark)])), 1)


def main():
    global home
    for name in ("cmake", "make", "c++"):
        if shutil.which(name) is None:
            print(f"skipped: {name} is not installed")
            return 77
    with tempfile.TemporaryDirectory(prefix="tenon-guide-") as folder:
        home = pathlib.Path(folder).resolve() / "you"
        home.mkdir()
        subprocess.run(
            ["cmake", "--install", BUILD, "--prefix", home / "tenon"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        result = unittest.main(argv=[sys.argv[0], *sys.argv[1:]], exit=False).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
