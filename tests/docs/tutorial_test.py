#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Follows the tutorial on fine-tuning: runs its commands with the programs of this build.

TENON_BUILD_DIR=build python3 tests/docs/tutorial_test.py

Needs no network. Compares what the commands print with the page, and checks what numbers the page
speaks of: they are not compared line by line.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from follow_page import differences, script_of, steps_of  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENON_BUILD_DIR", ROOT / "build")).resolve()
PAGE = ROOT / "docs/tutorial-fine-tune.md"


def records_of(run):
    """The last value of each metric, and the first one."""
    first, last = {}, {}
    for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        last.update(record)
        first.update({key: value for key, value in record.items() if key not in first})
    return first, last


class Tutorial(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tenon-tutorial-")
        cls.home = pathlib.Path(cls.folder.name).resolve() / "you"
        cls.home.mkdir()
        shutil.copytree(ROOT / "recipes/fine-tune", cls.home / "fine-tune")
        cls.steps = [s for s in steps_of(PAGE.read_text("utf-8")) if not s.is_installation]
        cls.result = subprocess.run(
            ["sh", "-c", script_of(cls.steps)],
            env={
                "PATH": f"{BUILD}/bin:{os.environ['PATH']}",
                "HOME": str(cls.home),
                "LANG": "C.UTF-8",
                "TENON_PLUGIN_PATH": str(BUILD / "plugins"),
            },
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_page_shows_what_its_commands_print(self):
        printed = self.result.stdout.replace(str(self.home), "/home/you")
        printed = printed.replace(str(BUILD), "/home/you/tenon/build")
        problems = differences(self.steps, printed)
        self.assertEqual(problems, [], "\n\n".join(problems))
        self.assertEqual(self.result.returncode, 0, printed[-3000:])

    def test_the_loss_on_held_out_chats_falls(self):
        first, last = records_of(self.home / "fine-tune/runs/sft")
        self.assertGreater(first["eval/loss"], 4.0)
        self.assertLess(last["eval/loss"], 0.5)

    def test_the_chosen_answers_are_preferred(self):
        first, last = records_of(self.home / "fine-tune/runs/dpo")
        self.assertAlmostEqual(first["eval/loss"], 0.693147, places=4)
        self.assertLess(last["eval/loss"], 0.4)
        self.assertEqual(last["eval/preference/rewards/accuracies"], 1)

    def test_the_export_has_the_files_of_the_tokenizer_unchanged(self):
        chat_model = self.home / "fine-tune/chat-model"
        tokenizer = ROOT / "recipes/fine-tune/tokenizer"
        for name in sorted(path.name for path in tokenizer.iterdir()):
            self.assertEqual((chat_model / name).read_bytes(), (tokenizer / name).read_bytes(), name)


if __name__ == "__main__":
    unittest.main()
