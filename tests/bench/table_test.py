# SPDX-License-Identifier: Apache-2.0
"""Tests of what `./dev bench` computes and prints from samples."""
import unittest

import page
import programs
import ranks
from table import Goal, Group, Result, at_least, at_most, goal_table, ratios, table


class TableTest(unittest.TestCase):
    def test_a_row_has_median_min_and_max(self):
        group = Group("tokens/s", {"Tenon": [1000.2, 3000.4, 2000.3]}, 0)
        self.assertEqual(table([group]).splitlines()[2:],
                         ["| **tokens/s** | | | |", "| Tenon | 2,000 | 1,000 | 3,000 |"])

    def test_one_sample_has_no_spread(self):
        self.assertIn("| Tenon | 0.40 | - | - |", table([Group("startup, s", {"Tenon": [0.4]})]))

    def test_ratios_are_taken_within_rounds(self):
        rounds = [{"a": {"step_s": 1}, "b": {"step_s": 2}}, {"a": {"step_s": 9}, "b": {"step_s": 3}}]
        self.assertEqual(ratios(rounds, lambda run: run["step_s"], "a", "b"), [0.5, 3])

    def test_every_second_round_runs_backward(self):
        self.assertEqual([programs.in_turn("abc", i) for i in range(3)], [list("abc"), list("cba"), list("abc")])

    def test_parts_of_a_workload_are_joined(self):
        result = Result(missing=["no peers"])
        result.add("a", Result([Group("x", {})], [Goal("lm", "y", "1", True)], {"samples": 1}, ["no peers"]))
        self.assertEqual((len(result.groups), len(result.goals), result.raw, result.missing),
                         (1, 1, {"a": {"samples": 1}}, ["no peers"]))


class GoalTest(unittest.TestCase):
    def test_a_limit_is_met_at_the_limit(self):
        self.assertTrue(at_most("lm", "start", 0.6, 0.6, " s").is_met)
        self.assertFalse(at_most("lm", "start", 0.6, 0.61, " s").is_met)
        self.assertTrue(at_least("lm", "speed", 1.05, 1.05).is_met)
        self.assertFalse(at_least("lm", "speed", 1.05, 1.04).is_met)

    def test_a_quick_run_has_no_verdict(self):
        goals = [at_most("lm", "start", 0.6, 9, " s")]
        self.assertIn("| `lm` | start, at most 0.6 s | 9.00 s | missed |", goal_table(goals, is_quick=False))
        self.assertIn("| `lm` | start, at most 0.6 s | 9.00 s | quick run |", goal_table(goals, is_quick=True))


class EfficiencyTest(unittest.TestCase):
    def test_two_ranks_as_fast_as_two_runs_have_efficiency_one(self):
        self.assertAlmostEqual(ranks.efficiency(0.1, [0.1, 0.1]), 1)

    def test_ranks_that_take_twice_the_time_have_half(self):
        self.assertAlmostEqual(ranks.efficiency(0.2, [0.1, 0.1]), 0.5)


class PageTest(unittest.TestCase):
    TEXT = "a\n<!-- bench lm -->\n\nold\n\n<!-- end -->\nb\n<!-- bench mlp -->\n<!-- end -->\n"

    def test_a_table_replaces_the_old_table_of_its_name(self):
        text = page.replaced(self.TEXT, "lm", "| new |\n")
        self.assertEqual(text, self.TEXT.replace("old\n", "| new |\n"))
        self.assertEqual(page.replaced(text, "lm", "| new |\n"), text)

    def test_rows_of_other_workloads_stay(self):
        text = page.replaced(self.TEXT, "lm", "| a | b |\n|---|---|\n| lm | 1 |\n| lm | 2 |\n| abi | 3 |\n")
        self.assertEqual(page.joined(text, "lm", "| a | b |\n|---|---|\n| lm | 4 |\n| gpu | 5 |\n"),
                         "| a | b |\n|---|---|\n| lm | 4 |\n| abi | 3 |\n| gpu | 5 |\n")

    def test_a_page_without_the_place_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "no place for the table gpu"):
            page.replaced(self.TEXT, "gpu", "| new |\n")

    def test_the_pages_have_all_places(self):
        for path, names in ((page.PERFORMANCE, ("machine", "mlp", "lm", "ranks", "sparse", "abi", "reading", "checkpoint")),
                            (page.DEVELOPERS, ("goals",))):
            for name in names:
                page.replaced(path.read_text(encoding="utf-8"), name, "| new |\n")


unittest.main()
