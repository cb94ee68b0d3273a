# SPDX-License-Identifier: Apache-2.0
"""Writes choices_golden.json: questions, and the choices that the model of hf_tied answers with by
the rule of lm-eval 0.4.13 (TemplateLM._encode_pair, ConfigurableTask.process_results). Tokens are
bytes; the vocabulary has 64 of them. Needs torch and transformers.

    python3 tests/parity/choices_golden.py
"""
import json
import pathlib
import random

import numpy
import torch
from transformers import AutoModelForCausalLM

FOLDER = pathlib.Path(__file__).parent
DELIMITER = " "


def questions():
    rng = random.Random(7)
    made = []
    for _ in range(16):
        a, b = rng.randrange(100), rng.randrange(1000)
        choices = [str(a + b), str(a * b), "-" + str(b), "(" + str(a) + ")"][: rng.randrange(2, 5)]
        made.append({"question": f"{a}+{b}", "choices": choices,
                     "answer": rng.randrange(len(choices))})
    return made


def log_probabilities(model, context, choice):
    """Of the tokens of the choice, given all tokens before them."""
    whole = list((context + DELIMITER + choice).encode())
    start = len(context.encode())
    with torch.no_grad():
        logits = model(torch.tensor([whole[:-1]])).logits[0].double()
    logps = torch.log_softmax(logits, -1)
    return [logps[t, whole[t + 1]].item() for t in range(start - 1, len(whole) - 1)]


def main():
    model = AutoModelForCausalLM.from_pretrained(FOLDER / "hf_tied", dtype=torch.float32)
    made = questions()
    answers, answers_norm = [], []
    nats = tokens = 0
    for question in made:
        logps = [log_probabilities(model, question["question"] + "=", one)
                 for one in question["choices"]]
        lls = numpy.array([sum(one) for one in logps])
        nats -= lls.sum()
        tokens += sum(len(one) for one in logps)
        answers.append(int(numpy.argmax(lls)))
        answers_norm.append(
            int(numpy.argmax(lls / numpy.array([float(len(i)) for i in question["choices"]]))))
    right = [question["answer"] for question in made]
    golden = {
        "questions": made,
        "answers": answers,
        "answers_norm": answers_norm,
        "acc": float(numpy.mean([a == b for a, b in zip(answers, right)])),
        "acc_norm": float(numpy.mean([a == b for a, b in zip(answers_norm, right)])),
        "loss": float(nats / tokens),
    }
    path = FOLDER / "choices_golden.json"
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
