# SPDX-License-Identifier: Apache-2.0
"""Tests of what `./dev bench` computes and prints from samples."""
import unittest

import programs
import ranks
from table import (Goal, Group, Result, at_least, at_most, fastest, goal_table, ratio_group, ratios, speed_goal,
                   table)


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
        result = Result(notes=["no peers"])
        result.add("a", Result([Group("x", {})], [Goal("lm", "y", "1", True)], {"samples": 1}, ["no peers"]))
        self.assertEqual((len(result.groups), len(result.goals), result.raw, result.notes),
                         (1, 1, {"a": {"samples": 1}}, ["no peers"]))


class FastestPeerTest(unittest.TestCase):
    # "b" is faster by the clock, "a" takes less CPU time.
    ROUNDS = [{"ours": {"step_s": 1, "cpu_step_s": 2}, "a": {"step_s": 3, "cpu_step_s": 3},
               "b": {"step_s": 2 + i, "cpu_step_s": 4}} for i in (0, 0, 4)]
    PEERS = {"a": "peer A", "b": "peer B"}

    def test_it_has_the_lowest_median(self):
        self.assertEqual(fastest(self.ROUNDS, self.PEERS), "b")
        self.assertEqual(fastest(self.ROUNDS, self.PEERS, "cpu_step_s"), "a")

    def test_ratios_name_it(self):
        self.assertEqual(ratio_group("x", self.ROUNDS, {"ours": "Tenon"}, self.PEERS).rows, {"Tenon / peer B": [2, 2, 6]})

    def test_a_goal_counts_by_cpu_time_where_others_run(self):
        goal = speed_goal("lm", "speed", 1.8, self.ROUNDS, "ours", self.PEERS)
        self.assertEqual(goal.line(False), "| `lm` | speed, at least 1.8 | 2.00; CPU time 1.50 | met |")
        goal.is_shared = True
        self.assertEqual(goal.line(False), "| `lm` | speed, at least 1.8 | 2.00; CPU time 1.50 | missed, CPU time |")

    def test_threads_that_wait_for_others_decide_nothing(self):
        goal = speed_goal("lm", "speed", 1.8, self.ROUNDS, "ours", self.PEERS, threads=2)
        self.assertEqual(goal.verdict(), "met")
        goal.is_shared = True
        self.assertEqual(goal.verdict(), "undecided, shared machine")


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


unittest.main()
