# SPDX-License-Identifier: Apache-2.0
"""Tests of the llamas that benchmarks train: the same sizes in the host and its peers, and operations of a step."""
import json
import re
import unittest

import llamas
import lm
import neighbor
import programs
from peers.shapes import SHAPES, Shape


class ShapeTest(unittest.TestCase):
    def test_the_recipe_is_the_small_shape(self):
        text = (programs.ROOT / "tests/bench/recipes" / llamas.RECIPE).read_text(encoding="utf-8")
        recipe = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.M))
        values = {f"model.options.{key}": value for key, value in recipe["model"]["options"].items()}
        values["data.batch_size"] = recipe["data"]["batch_size"]
        values["data.train.options.sequence_length"] = recipe["data"]["train"]["options"]["sequence_length"]
        for word in SHAPES["small"].overrides():
            key, value = word.split("=")
            self.assertEqual(values[key], int(value), key)

    def test_the_large_model_has_85_million_parameters(self):
        self.assertEqual(SHAPES["large"].parameters // 1_000_000, 85)
        self.assertEqual(SHAPES["grouped"].parameters // 1_000_000, 74)

    def test_operations_follow_the_formula(self):
        # A layer: four products of 2 to 2, three of 2 to 3; a head of 2 to 5; two sequences of 4.
        shape = Shape(dim=2, layers=1, heads=1, hidden=3, seq=4, batch=2, vocab=5)
        self.assertEqual(shape.product_weights, 4 * 4 + 3 * 6 + 10)
        self.assertEqual(shape.operations, 6 * 44 * 8 + 6 * 2 * 16 * 2)

    def test_grouped_heads_have_fewer_weights(self):
        shape = Shape(dim=8, layers=1, heads=4, kv_heads=2, hidden=1, seq=1, batch=1, vocab=1)
        self.assertEqual(shape.product_weights, 2 * 64 + 2 * 8 * 4 + 3 * 8 + 8)


class LlamasTest(unittest.TestCase):
    def test_the_share_is_of_the_faster_library(self):
        step_s = SHAPES["small"].operations / 50e9
        self.assertAlmostEqual(llamas.share("small", {"step_s": step_s}, {"rate": {"blas": 80e9, "onednn": 100e9}}), 0.5)

    def test_the_gain_of_a_second_thread_is_taken_within_rounds(self):
        one, two = ([{"tenon": {"step_s": a, "cpu_step_s": a}}, {"tenon": {"step_s": 4, "cpu_step_s": 4}}] for a in (6, 3))
        speed, cpu_time = llamas.gain_of_second_thread(one, two, {"tenon": "Tenon"})
        self.assertEqual((speed.rows, cpu_time.rows), ({"Tenon": [2, 1]}, {"Tenon": [0.5, 1]}))

    def test_the_small_shape_is_the_recipe_without_overrides(self):
        self.assertEqual(llamas.sets_of("small", "plain", 2), ["threads.compute=2", "kernels=plain"])
        self.assertIn("model.options.num_key_value_heads=2", llamas.sets_of("grouped", "tenon", 1))

    def test_every_courtesy_has_a_peer(self):
        words = {word for name in lm.TUNED_PEERS for word in name.split("+")}
        self.assertEqual(words, {"fused", "compile", "max", "onednn", "tuned"})

    def test_busy_processes_end(self):
        with neighbor.busy_cores([0]) as spinning:
            self.assertIsNone(spinning[0].poll())
        self.assertIsNotNone(spinning[0].poll())


unittest.main()
