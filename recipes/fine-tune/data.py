# SPDX-License-Identifier: Apache-2.0
"""Writes the data of the tutorial on fine-tuning: text, a tokenizer, chats and pairs of answers.

    python recipes/fine-tune/data.py data/kjv.txt recipes/fine-tune

Needs the package `tokenizers`. All text is from the King James Bible. A chat asks who is named in a verse that
names one of eight people.
"""

import json
import pathlib
import re
import sys

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

NAMES = ("Moses", "David", "Jesus", "Jacob", "Solomon", "Joseph", "Peter", "Abraham")
ENDS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
VOCABULARY = 640
NUM_TRAIN, NUM_EVAL = 40, 5  # chats for each name


def verses_of(path):
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    return [line.split(" ", 1)[1] for line in lines if " " in line and 30 <= len(line) <= 120]


def named_in(verse):
    return [name for name in NAMES if re.search(rf"\b{name}\b", verse)]


def chat(verse, answer):
    return [
        {"role": "user", "content": f"Who is named in this verse? {verse}"},
        {"role": "assistant", "content": answer},
    ]


def write_lines(path, samples):
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples), encoding="utf-8")


def write_tokenizer(folder, texts):
    folder.mkdir(exist_ok=True)
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=ENDS,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def main():
    source, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    verses = verses_of(source)
    of_name = {name: [v for v in verses if named_in(v) == [name]] for name in NAMES}
    train, held_out, pairs = [], [], []
    for i in range(NUM_TRAIN + NUM_EVAL):
        for name in NAMES:
            messages = chat(of_name[name][i], f"{name} is named.")
            (train if i < NUM_TRAIN else held_out).append({"messages": messages})
    for i in range(NUM_TRAIN + NUM_EVAL, NUM_TRAIN + NUM_EVAL + 8):
        for name in NAMES:
            prompt, answer = chat(of_name[name][i], f"{name} is named.")
            refusal = {"role": "assistant", "content": "I do not know."}
            pairs.append({"prompt": [prompt], "chosen": [answer], "rejected": [refusal]})
    text = [verse for verse in verses if not named_in(verse)][:1500]
    (folder / "verses.txt").write_text("\n".join(text) + "\n", encoding="utf-8")
    write_lines(folder / "chats-train.jsonl", train)
    write_lines(folder / "chats-eval.jsonl", held_out)
    write_lines(folder / "pairs-train.jsonl", pairs[:-16])
    write_lines(folder / "pairs-eval.jsonl", pairs[-16:])
    said = [m["content"] for sample in train for m in sample["messages"]]
    write_tokenizer(folder / "tokenizer", text + said + ["I do not know."] * 20)


if __name__ == "__main__":
    main()
