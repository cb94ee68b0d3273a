# SPDX-License-Identifier: Apache-2.0
"""Writes metrics_golden.json: ranking metrics of some samples, by scikit-learn.

What scikit-learn does not have is written out: the first k of a group by trying all orders of equal
scores, calibration as a quotient of means.

    python metrics_golden.py        (scikit-learn 1.9, numpy)
"""

import itertools
import json
import math
import pathlib

import numpy
import sklearn
from sklearn import metrics

rng = numpy.random.default_rng(11)
SIZES = [7, 6, 1, 8, 5, 7, 4, 8, 6]  # samples of each group
GROUPS = numpy.repeat([5, -3, 2**40, 7, 0, 11, 12, 13, 14], SIZES)
N = len(GROUPS)
LOGITS = numpy.round(rng.normal(size=N), 1)  # with ties
GRADES = rng.integers(0, 4, size=N)
GRADES[GROUPS == 11] = 0
GRADES[GROUPS == 12] = 3
LABELS = (GRADES >= 2).astype(int)
WEIGHTS = numpy.round(rng.uniform(0.25, 2.0, size=N), 3)
WEIGHTS[::9] = 0.0
ORDER = rng.permutation(N)
GROUPS, LOGITS, GRADES, LABELS, WEIGHTS = (
    x[ORDER] for x in (GROUPS, LOGITS, GRADES, LABELS, WEIGHTS)
)
PROBABILITIES = 1 / (1 + numpy.exp(-LOGITS))
SURE = PROBABILITIES.copy()
SURE[:4] = [0.0, 1.0, 0.0, 1.0]
ONES = numpy.ones(N)


def gauc(weights):
    total = weight = 0.0
    for g in sorted(set(GROUPS)):
        at = (GROUPS == g) & (weights > 0)
        if len(set(LABELS[at])) == 2:
            area = metrics.roc_auc_score(LABELS[at], LOGITS[at], sample_weight=weights[at])
            total += weights[at].sum() * area
            weight += weights[at].sum()
    return total / weight


def ndcg(k, gain):
    values = []
    for g in sorted(set(GROUPS)):
        at = GROUPS == g
        worth = gain(GRADES[at].astype(float))
        if worth.sum() > 0:
            if at.sum() == 1:  # scikit-learn wants two
                values.append(1.0)
            else:
                values.append(metrics.ndcg_score([worth], [LOGITS[at]], k=k))
    return float(numpy.mean(values))


def hits(labels, scores, k):
    """The mean over all orders of the samples that their scores allow."""
    total, count = 0, 0
    n = len(labels)
    blocks = [
        [i for i in range(n) if scores[i] == s] for s in sorted(set(scores.tolist()), reverse=True)
    ]
    for orders in itertools.product(*(itertools.permutations(b) for b in blocks)):
        ranked = [i for block in orders for i in block]
        total += sum(labels[i] for i in ranked[:k])
        count += 1
    return total / count


def first_k(k):
    precision, recall = [], []
    for g in sorted(set(GROUPS)):
        at = GROUPS == g
        found = hits(LABELS[at], LOGITS[at], k)
        precision.append(found / k)
        if LABELS[at].sum() > 0:
            recall.append(found / LABELS[at].sum())
    return float(numpy.mean(precision)), float(numpy.mean(recall))


def logloss(p, weights):
    return metrics.log_loss(LABELS, p, sample_weight=weights)


def calibration(weights):
    return float((PROBABILITIES * weights).sum() / (LABELS * weights).sum())


CASES = [
    ("auc", {}, "logits", "labels", False, metrics.roc_auc_score(LABELS, LOGITS)),
    ("auc", {}, "logits", "labels", True, metrics.roc_auc_score(LABELS, LOGITS, sample_weight=WEIGHTS)),
    ("auc", {"max_bytes": 0}, "logits", "labels", False, metrics.roc_auc_score(LABELS, LOGITS)),
    ("auc", {"max_bytes": 0, "thresholds": 5}, "logits", "labels", True, metrics.roc_auc_score(LABELS, LOGITS, sample_weight=WEIGHTS)),
    ("auc", {"max_bytes": 0, "thresholds": 50, "scores": "probabilities"}, "probabilities", "labels", False, metrics.roc_auc_score(LABELS, PROBABILITIES)),
    ("gauc", {}, "logits", "labels", False, gauc(ONES)),
    ("gauc", {}, "logits", "labels", True, gauc(WEIGHTS)),
    ("logloss", {}, "logits", "labels", False, logloss(PROBABILITIES, ONES)),
    ("logloss", {}, "logits", "labels", True, logloss(PROBABILITIES, WEIGHTS)),
    ("logloss", {"scores": "probabilities"}, "sure", "labels", True, logloss(SURE, WEIGHTS)),
    ("calibration", {}, "logits", "labels", False, calibration(ONES)),
    ("calibration", {"scores": "probabilities"}, "probabilities", "labels", True, calibration(WEIGHTS)),
    ("precision_at_k", {"k": 3}, "logits", "labels", False, first_k(3)[0]),
    ("precision_at_k", {"k": 5}, "logits", "labels", False, first_k(5)[0]),
    ("recall_at_k", {"k": 3}, "logits", "labels", False, first_k(3)[1]),
    ("recall_at_k", {"k": 1}, "logits", "labels", False, first_k(1)[1]),
    ("ndcg_at_k", {"k": 3}, "logits", "grades", False, ndcg(3, lambda y: y)),
    ("ndcg_at_k", {"k": 100}, "logits", "grades", False, ndcg(100, lambda y: y)),
    ("ndcg_at_k", {"k": 4, "gain": "power"}, "logits", "grades", False, ndcg(4, lambda y: 2**y - 1)),
]  # fmt: skip


def main():
    golden = {
        "scikit-learn": sklearn.__version__,
        "logits": LOGITS.tolist(),
        "probabilities": PROBABILITIES.tolist(),
        "sure": SURE.tolist(),
        "labels": LABELS.tolist(),
        "grades": GRADES.tolist(),
        "weights": WEIGHTS.tolist(),
        "groups": GROUPS.tolist(),
        "cases": [
            dict(zip(("type", "options", "scores", "labels", "weighted", "figure"), case))
            for case in CASES
        ],
    }
    assert all(math.isfinite(case["figure"]) for case in golden["cases"])
    text = json.dumps(golden, separators=(",", ":")).replace('{"type"', '\n{"type"')
    pathlib.Path(__file__).with_name("metrics_golden.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
