# SPDX-License-Identifier: Apache-2.0
"""Writes ngram_golden.json: ids of n-grams, computed in Python one by one from the definition in plugins/features/ngram/README.md.

    python tests/parity/ngram_golden.py > tests/parity/ngram_golden.json

Each sequence is cut at segments first, and then has its tokens -1 in front. Ids are unsigned, as text, since not every reader of JSON
keeps 64 bits.
"""

import itertools
import json
import random

BITS = 2**64


def mix(x):
    """The function of SplitMix64. Its numbers from the state 0 begin with those that are checked below."""
    x = (x + 0x9E3779B97F4A7C15) % BITS
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % BITS
    x = (x ^ x >> 27) * 0x94D049BB133111EB % BITS
    return x ^ x >> 31


assert mix(0) == 16294208416658607535
assert mix(0x9E3779B97F4A7C15) == 7960286522194355700


def ngram_id(tokens, head, seed, buckets):
    h = mix(mix(seed % BITS) ^ (len(tokens) * 2**32 + head))
    for x in tokens:
        h = mix(h ^ x % BITS)
    return h % buckets if buckets else h


def column(sequences, n, head, seed, buckets):
    ids = []
    for tokens in sequences:
        padded = [-1] * (n - 1) + tokens
        ids += [ngram_id(padded[t:t + n], head, seed, buckets) for t in range(len(tokens))]
    return ids


def segments_of(row, numbers):
    pairs = itertools.groupby(zip(row, numbers), key=lambda pair: pair[1])
    return [[token for token, _ in group] for _, group in pairs]


draw = random.Random(1)
token = lambda: draw.choice([0, 1, 2, 3, 255, 49151, 2**40, -5])
rows = [[token() for _ in range(9)] for _ in range(4)]
numbers = [[0] * 9, [0, 0, 0, 1, 1, 1, 1, 2, 2], [3, 4, 4, 3, 3, 3, 7, 8, 9], [5, 5, 5, 5, 5, 5, 5, 5, 0]]
lists = [[token() for _ in range(n)] for n in (3, 0, 1, 7, 2)]

cases = []
for kind, sequences in (("rows", rows), ("segments", [part for row in zip(rows, numbers) for part in segments_of(*row)]),
                        ("lists", lists)):
    for options in ({}, {"n": [1]}, {"n": [3, 2, 6, 12], "seed": 7}, {"n": [2, 3], "heads": 3, "buckets": 1000, "seed": -1}):
        cases.append({"kind": kind, "options": options,
                      "columns": [[str(i) for i in column(sequences, n, head, options.get("seed", 0), options.get("buckets"))]
                                  for n in options.get("n", [2, 3]) for head in range(options.get("heads", 1))]})
print(json.dumps({"rows": rows, "segments": numbers, "lists": lists, "cases": cases}))
