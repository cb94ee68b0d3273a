#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws sentences at random from pages, comments of the SDK's headers, and messages, for an editor to read.

    python3 tests/docs/draw_sentences.py [--seed N] [--count N]

A third each comes from docs (decision records excepted), from comments in sdk/include, and from the
strings of host/ that are messages. One seed draws the same sentences from the same tree.
"""

import argparse
import pathlib
import random
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEAST_WORDS = 6


def sentences(paragraph):
    text = re.sub(r"\s+", " ", paragraph).strip()
    for sentence in re.split(r"(?<=[.:?!])\s+(?=[A-Z`\"'(])", text):
        if len(re.findall(r"[A-Za-z]{2,}", sentence)) >= LEAST_WORDS and not sentence.startswith(("|", "#", "<", "SPDX")):
            yield sentence


def of_pages():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        text = re.sub(r"^(\||    |<!--).*$", "", text, flags=re.M)
        for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
            if not paragraph.startswith("#"):
                for sentence in sentences(re.sub(r"^\s*(?:[-*]|\d+\.) ", "", paragraph)):
                    yield page, sentence


def of_headers():
    for header in sorted((ROOT / "sdk/include").rglob("*.h*")):
        block = []
        for line in [*header.read_text().split("\n"), ""]:
            comment = re.search(r"^\s*(?://|\*|/\*\*?)\s?(.*?)(?:\*/)?$", line) or re.search(r"\s//\s(.*)$", line)
            if comment:
                block.append(comment.group(1))
                continue
            for paragraph in re.split(r"\n\s*\n|\n(?=(?:Shapes|Units|Errors|Threads|Owner|Source|Since|Random)\b)", "\n".join(block)):
                for sentence in sentences(paragraph):
                    yield header, sentence
            block = []


def of_messages():
    for source in sorted((ROOT / "host").rglob("*.cpp")):
        text = re.sub(r"^#include.*$", "", source.read_text(), flags=re.M)
        text = re.sub(r'"\s*\n\s*"', "", text)
        for literal in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text):
            for sentence in sentences(literal.replace('\\"', '"').replace("\\n", " ")):
                yield source, sentence


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    for title, found in (("pages", of_pages()), ("headers", of_headers()), ("messages", of_messages())):
        print(f"## {title}")
        for place, sentence in draw.sample(list(found), arguments.count // 3):
            print(f"- {place.relative_to(ROOT)}: {sentence}")


if __name__ == "__main__":
    main()
