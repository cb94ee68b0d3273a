#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes two small models of SentencePiece, trained on data/kjv.txt, and sentencepiece_golden.json: what
the package `sentencepiece` 0.2.3 makes of texts with them. Ranges count bytes.

    pip install sentencepiece==0.2.3
    python3 tests/parity/sentencepiece_golden.py
"""

import json
import pathlib
import random

import sentencepiece
from tokenizers_oracle import WORDS, bytes_of_ranges, random_text

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = pathlib.Path(__file__).parent


def ranges_of(processor, text):
    found = processor.encode(text, return_type="offset_mapping")
    ids, ranges = found["ids"], [tuple(pair) for pair in found["offsets"]]
    for i in reversed(range(len(ids) - 1)):  # the byte tokens of a character share its range
        is_bytes = processor.is_byte(ids[i]) and processor.is_byte(ids[i + 1])
        if is_bytes and ranges[i][0] == ranges[i][1] == ranges[i + 1][0]:
            ranges[i] = ranges[i + 1]
    return ids, bytes_of_ranges(text, ranges)


def main():
    lines = (ROOT / "data/kjv.txt").read_text().splitlines()[:3000]
    rng = random.Random(1)
    texts = ["", " ", "the", *WORDS[:60], *(random_text(rng) for _ in range(40))]
    golden = []
    for kind, size in (("bpe", 420), ("unigram", 400)):
        prefix = FOLDER / f"sentencepiece_{kind}"
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_prefix=str(prefix), model_type=kind, vocab_size=size,
            byte_fallback=True, normalization_rule_name="identity", minloglevel=2, num_threads=1,
            remove_extra_whitespaces=kind == "unigram", split_digits=True,
        )
        prefix.with_suffix(".vocab").unlink()
        processor = sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")
        answers = []
        for text in texts:
            ids, ranges = ranges_of(processor, text)
            answers.append({"text": text, "ids": ids, "begins": [b for b, _ in ranges],
                            "ends": [e for _, e in ranges], "decoded": processor.decode(ids)})
        golden.append({"model": f"{prefix.name}.model", "texts": answers})
    out = FOLDER / "sentencepiece_golden.json"
    out.write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")).replace('{"text"', '\n{"text"') + "\n", encoding="utf-8")
    print(out, out.stat().st_size)


if __name__ == "__main__":
    main()
