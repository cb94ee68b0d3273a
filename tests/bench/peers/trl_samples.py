# SPDX-License-Identifier: Apache-2.0
"""Samples of data/lm in the formats of TRL."""
ROLES = {"human": "user", "gpt": "assistant", "system": "system"}


def message(turn):
    return {"role": ROLES[turn["from"]], "content": turn["value"]}


def instruction(sample):
    text = sample["instruction"] + ("\n" + sample["input"] if sample.get("input") else "")
    return {"prompt": [{"role": "user", "content": text}],
            "completion": [{"role": "assistant", "content": sample["output"]}]}


def pair(sample):
    return {"prompt": [message(turn) for turn in sample["conversations"]], "chosen": [message(sample["chosen"])],
            "rejected": [message(sample["rejected"])]}
