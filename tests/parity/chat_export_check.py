# SPDX-License-Identifier: Apache-2.0
"""Holds an exported chat model against transformers.

    python tests/parity/chat_export_check.py FOLDER CHATS LOSS [PROMPT ANSWER]

FOLDER is what `host --export hf` wrote after a run on chats. CHATS are the run's held-out chats, as JSON lines of
messages or as a JSON list in the form of Alpaca. LOSS is the run's last eval/loss. Loads model, tokenizer and template
by transformers, computes the mean loss over the tokens of the answers, and fails if it differs by more than 1e-4. PROMPT
and ANSWER are what `--generate --chat` was asked and printed; the greedy answer must be equal.

The mask is computed here: all tokens after the prompt with add_generation_prompt are those of the answer.
"""

import json
import pathlib
import sys

import torch
import transformers


def chats_of(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    samples = json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines()]
    for sample in samples:
        if "messages" in sample:
            yield sample["messages"]
        else:
            question = sample["instruction"] + ("\n" + sample["input"] if sample.get("input") else "")
            yield [{"role": "user", "content": question}, {"role": "assistant", "content": sample["output"]}]


def ids_of(tokenizer, messages, **options):
    text = tokenizer.apply_chat_template(messages, tokenize=False, **options)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def loss_of(model, tokenizer, chats):
    total, count = 0.0, 0
    for messages in chats:
        ids = torch.tensor([ids_of(tokenizer, messages)])
        num_prompt = len(ids_of(tokenizer, messages[:-1], add_generation_prompt=True))
        with torch.no_grad():
            logps = model(input_ids=ids).logits.double().log_softmax(-1)
        of_targets = logps[0, :-1].gather(1, ids[0, 1:, None])[num_prompt - 1 :, 0]
        total -= of_targets.sum().item()
        count += len(of_targets)
    return total / count


def answer_of(model, tokenizer, prompt):
    ids = torch.tensor([ids_of(tokenizer, [{"role": "user", "content": prompt}], add_generation_prompt=True)])
    eos = tokenizer.eos_token_id
    made = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=256, eos_token_id=eos, pad_token_id=eos)
    return tokenizer.decode(made[0, ids.shape[1] :], skip_special_tokens=True)


def main():
    folder, chats, loss, *asked = sys.argv[1:]
    torch.set_num_threads(1)
    model, report = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    wrong = {key: names for key, names in report.items() if names}
    if wrong:
        sys.exit(f"not all of it was loaded: {wrong}")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    found = loss_of(model.eval(), tokenizer, chats_of(chats))
    print(f"loss of transformers {found:.6f}, of the run {float(loss):.6f}")
    if abs(found - float(loss)) > 1e-4:
        sys.exit("the losses differ")
    if asked:
        prompt, answer = asked
        made = answer_of(model, tokenizer, prompt)
        print(f"answer of transformers: {made!r}")
        if made != answer:
            sys.exit(f"the answers differ: {answer!r}")


if __name__ == "__main__":
    main()
