# SPDX-License-Identifier: Apache-2.0
"""Holds an exported model that was trained on preferences against transformers.

    python tests/parity/preference_export_check.py FOLDER REFERENCE PAIRS MAX_LENGTH LOSS

FOLDER is what `host --export hf` wrote after a run with the loss `preference` of type dpo and beta 0.1, and REFERENCE the
folder of the run's reference. PAIRS are the held-out pairs, a JSON list of conversations in the form of ShareGPT with
`chosen` and `rejected`; as in the run, a pair with more than MAX_LENGTH tokens in an answer is not used. LOSS is the run's
last eval/loss. Computes the loss of Rafailov et al., Direct Preference Optimization (2023), equation 7, from the logits of
transformers, and fails if it differs by more than 1e-4.
"""

import json
import pathlib
import sys

import torch
import transformers
from chat_export_check import ids_of

BETA = 0.1
ROLES = {"human": "user", "gpt": "assistant", "system": "system"}


def message_of(turn):
    return {"role": ROLES[turn["from"]], "content": turn["value"]}


def logp_of(model, ids, num_prompt):
    with torch.no_grad():
        logps = model(input_ids=torch.tensor([ids])).logits.log_softmax(-1)
    targets = torch.tensor(ids[1:])[:, None]
    return logps[0, :-1].gather(1, targets)[num_prompt - 1 :].double().sum()


def main():
    folder, reference, pairs, max_length, loss = sys.argv[1:]
    torch.set_num_threads(1)
    policy, base = (transformers.AutoModelForCausalLM.from_pretrained(path).eval() for path in (folder, reference))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    losses = []
    for pair in json.loads(pathlib.Path(pairs).read_text(encoding="utf-8")):
        prompt = [message_of(turn) for turn in pair["conversations"]]
        num_prompt = len(ids_of(tokenizer, prompt, add_generation_prompt=True))
        answers = [ids_of(tokenizer, [*prompt, message_of(pair[key])]) for key in ("chosen", "rejected")]
        if max(map(len, answers)) > int(max_length):
            continue
        chosen, rejected = (logp_of(policy, ids, num_prompt) - logp_of(base, ids, num_prompt) for ids in answers)
        losses.append(-torch.nn.functional.logsigmoid(BETA * (chosen - rejected)).item())
    found = sum(losses) / len(losses)
    print(f"loss of transformers on {len(losses)} pairs {found:.6f}, of the run {float(loss):.6f}")
    if abs(found - float(loss)) > 1e-4:
        sys.exit("the losses differ")


if __name__ == "__main__":
    main()
