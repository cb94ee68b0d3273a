# SPDX-License-Identifier: Apache-2.0
"""Answers questions with choices by lm-eval and transformers, and prints accuracies and the mean
loss over the tokens of all choices, to compare with `multiple_choice`. Needs transformers 5.5.4 and
lm-eval 0.4.13.

    python3 tests/parity/choices_peer.py FOLDER_OF_MODEL QUESTIONS.jsonl [NUM_QUESTIONS]
"""
import json
import sys

import numpy
import torch
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM


def main():
    folder, path = sys.argv[1:3]
    questions = [json.loads(line) for line in open(path, encoding="utf-8") if line.strip()]
    questions = questions[: int(sys.argv[3])] if len(sys.argv) > 3 else questions
    model = HFLM(pretrained=folder, device="cpu", dtype="float32", batch_size=8)
    requests = []
    for question in questions:
        context = "Question: " + question["question"] + "\nAnswer:"
        for choice in question["choices"]:
            requests.append(Instance("loglikelihood", question, (context, " " + choice), 0))
    with torch.no_grad():
        scores = [score for score, _ in model.loglikelihood(requests, disable_tqdm=True)]
    num_tokens = sum(len(model._encode_pair(*one.args)[1]) for one in requests)
    acc = acc_norm = at = 0
    answers = []
    for question in questions:
        choices = question["choices"]
        lls = numpy.array(scores[at : at + len(choices)])
        at += len(choices)
        # ConfigurableTask.process_results of lm-eval
        pred = int(numpy.argmax(lls))
        pred_norm = int(numpy.argmax(lls / numpy.array([float(len(i)) for i in choices])))
        answers.append([pred, pred_norm])
        acc += pred == question["answer"]
        acc_norm += pred_norm == question["answer"]
    print(json.dumps({"questions": len(questions), "acc": acc / len(questions),
                      "acc_norm": acc_norm / len(questions),
                      "loss": -sum(scores) / num_tokens, "tokens": num_tokens}))


if __name__ == "__main__":
    main()
