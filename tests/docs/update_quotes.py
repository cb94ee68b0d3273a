# SPDX-License-Identifier: Apache-2.0
"""Updates quotes of whole files on pages, and lists other quotes that differ from their files.

A quote is a fenced block below a comment "<!-- quote: FILE -->". A block that starts with the SPDX
line of its file quotes the whole file. quotes_test.cpp compares all quotes.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUOTE = re.compile(r"<!-- quote: (\S+) -->\n```(\w+)\n(.*?)```", re.DOTALL)
FOLDERS = ("docs", "plugins", "sdk", "tests", "recipes")


def pages():
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        yield from (ROOT / folder).rglob("*.md")


def main():
    stale = []

    def updated(match):
        path, language, block = match.groups()
        source = (ROOT / path).read_text(encoding="utf-8")
        if "\n" + block in "\n" + source:
            return match.group(0)
        if "SPDX-License-Identifier" in block.partition("\n")[0]:
            return f"<!-- quote: {path} -->\n```{language}\n{source}```"
        stale.append(f"{page.relative_to(ROOT)}: quote differs from {path}")
        return match.group(0)

    for page in pages():
        text = page.read_text(encoding="utf-8")
        new = QUOTE.sub(updated, text)
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(f"  {page.relative_to(ROOT)}")
    if stale:
        sys.exit("\n".join(stale))


main()
