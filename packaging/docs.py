# SPDX-License-Identifier: Apache-2.0
"""Lays out the documentation of a package, so that its links work without the sources."""

import os
import re
import shutil

# Where a package has a path of the sources. The first line that fits is taken.
_PLACES = (
    ("docs/", "share/doc/tenon/"),
    ("sdk/include/", "include/"),
    ("sdk/templates/", "share/tenon/templates/"),
    ("sdk/abi/abi.json", "share/tenon/abi.json"),
    ("recipes/", "share/tenon/recipes/"),
    ("plugins/", "share/doc/tenon/plugins/"),
    ("README.md", "share/doc/tenon/README.md"),
    ("CHANGELOG.md", "share/doc/tenon/CHANGELOG.md"),
    ("LICENSE", "share/doc/tenon/LICENSE"),
)
_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^()\s]+)\)")


def add_pages(source, root):
    """Adds pages that are not in docs/, and directs the links of all pages to files of the package.

    A link to a file that the package does not have becomes its text."""
    origins = {}  # page of the package: its path in the sources
    docs = os.path.join(root, "share/doc/tenon")
    for base, _, names in os.walk(docs):
        for name in names:
            if name.endswith(".md"):
                page = os.path.join(base, name)
                origins[page] = os.path.join("docs", os.path.relpath(page, docs))
    shutil.copyfile(os.path.join(source, "CHANGELOG.md"), os.path.join(docs, "CHANGELOG.md"))
    origins[os.path.join(docs, "CHANGELOG.md")] = "CHANGELOG.md"
    if os.path.isdir(
        os.path.join(docs, "reference")
    ):  # with the manual, not with the program alone
        shutil.copyfile(os.path.join(source, "README.md"), os.path.join(docs, "README.md"))
        origins[os.path.join(docs, "README.md")] = "README.md"
        for base, _, names in os.walk(os.path.join(source, "plugins")):
            if "README.md" in names:
                below = os.path.relpath(base, source)
                page = os.path.join(docs, below, "README.md")
                os.makedirs(os.path.dirname(page), exist_ok=True)
                shutil.copyfile(os.path.join(base, "README.md"), page)
                origins[page] = os.path.join(below, "README.md")
    for page, origin in origins.items():
        _direct_links(root, page, origin)


def _direct_links(root, page, origin):
    with open(page, encoding="utf-8") as file:
        parts = file.read().split("```")

    def directed(match):
        mark, text, link = match.groups()
        target, _, anchor = link.partition("#")
        if "://" in link or not target:
            return match.group()
        path = os.path.normpath(os.path.join(os.path.dirname(origin), target))
        placed = _placed(path)
        if placed is None or not os.path.exists(os.path.join(root, placed)):
            return text
        below = os.path.relpath(os.path.join(root, placed), os.path.dirname(page))
        return f"{mark}[{text}]({below}{'#' + anchor if anchor else ''})"

    parts[::2] = [_LINK.sub(directed, part) for part in parts[::2]]  # outside blocks of code
    with open(page, "w", encoding="utf-8") as file:
        file.write("```".join(parts))


def _placed(path):
    for source, place in _PLACES:
        if path == source or (source.endswith("/") and (path + "/").startswith(source)):
            return place + path[len(source) :]
    return None
