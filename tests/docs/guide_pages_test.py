#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The guide's page of each kind has the order of calls, the contract and common mistakes, and the page of names has the
metrics of the host and fields that exist."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs/plugin-guide"
HEADINGS = ("Order of calls", "Contract", "Common mistakes")


def pages_of_kinds():
    """The pages in the first table of the section Pages."""
    section = re.search(r"^## Pages\n\n(.*?)\n\n", (GUIDE / "index.md").read_text(), re.M | re.S).group(1)
    return re.findall(r"\]\(([\w-]+\.md)\)", section)


def names_of(text, array):
    body = re.search(array + r" = \{(.*?)\};", text, re.S).group(1)
    return re.findall(r'"(\w+)"', body)


def main():
    pages = pages_of_kinds()
    assert len(pages) >= 14, f"the table of pages has {pages}"
    for page in pages:
        text = (GUIDE / page).read_text()
        headings = re.findall(r"^## (.*)$", text, re.M)
        for heading in HEADINGS:
            assert any(heading.lower() in found.lower() for found in headings), \
                f"docs/plugin-guide/{page} has no section {heading!r}"
        assert "<!-- quote: " in text, f"docs/plugin-guide/{page} quotes no example"

    names = (GUIDE / "fields-and-units.md").read_text()
    metrics = (ROOT / "host/text/metric_name.cpp").read_text()
    for name in names_of(metrics, "kHostMetrics"):
        assert f"`{name}`" in names, f"fields-and-units.md does not list the metric {name}"
    for folder in names_of(metrics, "kHostFolders"):
        assert f"`{folder}/" in names, f"fields-and-units.md does not list metrics of {folder}/"

    sources = "".join(file.read_text() for folder in ("datasets", "models", "losses", "metrics")
                      for file in (ROOT / "plugins" / folder).rglob("*.cpp"))
    fields = re.search(r"^## Fields\n(.*?)^## ", names, re.M | re.S).group(1)
    for field in re.findall(r"^\| `(\w+)` \|", fields, re.M):
        assert f'"{field}"' in sources, f"no first-party plugin has a field {field}"


if __name__ == "__main__":
    main()
