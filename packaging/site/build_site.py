#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the site: the pages of docs/ and a reference of the SDK's headers, searchable offline.

    python3 packaging/site/build_site.py --out build/site [--plain]

`./dev docs --site` calls it. Doxygen reads the headers; breathe and Sphinx make pages of them. Each warning of one of
them is an error. The exit status is 77 if a program is missing. build/site/html/index.html is the site.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from xml.etree import ElementTree

sys.dont_write_bytecode = True
SITE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(SITE))
import header_filter  # noqa: E402, beside this file

ROOT = SITE.parents[1]
INCLUDE = ROOT / "sdk/include/tenon"
LINK = re.compile(r"(\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^()\s#]+)(#[^()\s]*)?\)")
# Pages whose tables list the pages below them.
INDEXES = ("docs/index.md", "docs/plugin-guide/index.md", "docs/coming-from/index.md")
DECISIONS = "docs/decisions/index.md"  # made from the table of INDEXES[0]
MODULES = ("sphinx", "breathe", "myst_parser", "furo")


def python_with_sphinx():
    """A Python that has the modules, or None. Those of Debian belong to Debian's Python."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", f"import {', '.join(MODULES)}"], capture_output=True).returncode == 0:
            return python
    return None


def headers():
    return sorted(str(file.relative_to(INCLUDE)) for file in INCLUDE.rglob("*.h*") if file.name != "tenon.h")


def concepts():
    """The parts of reference.json, of which each header is on one page."""
    parts = json.loads((SITE / "reference.json").read_text())
    listed = sorted(header for part in parts for page in part["pages"] for header in page["headers"])
    if listed != headers():
        wrong = set(listed) ^ set(headers()) or {name for name in listed if listed.count(name) > 1}
        sys.exit(f"packaging/site/reference.json: list each header of the SDK once (expected {', '.join(sorted(wrong))}"
                 " to be in the SDK and on one page)")
    return parts


def run(words, folder):
    result = subprocess.run(words, cwd=folder)
    if result.returncode != 0:
        sys.exit(f"{words[0]} failed with status {result.returncode}")


# ---- the reference ----

def write_xml(out):
    """Lets Doxygen read the headers, in the form that header_filter.py gives them. Returns the comments of the files."""
    about = {}
    if out.exists():
        shutil.rmtree(out)
    for name in headers():
        file = out / "include/tenon" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        text, about[name] = header_filter.filtered(INCLUDE / name)
        file.write_text(text)
    doxyfile = out / "Doxyfile"
    doxyfile.write_text((SITE / "Doxyfile").read_text() + f'INPUT = "{out}/include"\nOUTPUT_DIRECTORY = "{out}"\n'
                        f'STRIP_FROM_PATH = "{out}/include"\n')
    run(["doxygen", doxyfile.name], out)
    return about


def classes_of_headers(xml):
    """For each header its structs and classes, in the order of the file: pairs of the kind and the name."""
    found = {name: [] for name in headers()}
    for file in (*xml.glob("struct*.xml"), *xml.glob("class*.xml")):
        described = ElementTree.parse(file).getroot().find("compounddef")
        name, place = described.findtext("compoundname"), described.find("location")
        if described.get("prot") == "public" and "<" not in name and "@" not in name:
            found[place.get("file").removeprefix("tenon/")].append((int(place.get("line")), described.get("kind"), name))
    names = {name for classes in found.values() for _, _, name in classes}
    return {header: [(kind, name) for _, kind, name in sorted(classes) if name.rpartition("::")[0] not in names]
            for header, classes in found.items()}


def heading(text, mark):
    return [text, mark * len(text), ""]


def page_of_concept(page, about, classes):
    title = (ROOT / page["guide"]).read_text().split("\n", 1)[0].lstrip("# ")
    lines = [*heading(page["title"], "="), f"Guide: :doc:`{title} </{page['guide'].removesuffix('.md')}>`", ""]
    for header in page["headers"]:
        lines += [*heading(f"<tenon/{header}>", "-"), about[header], ""]
        if len(classes[header]) > 1:
            domain = "cpp" if header.endswith("hpp") else "c"
            lines += [", ".join(f":{domain}:{kind}:`~{name}`" for kind, name in classes[header]), ""]
        for kind, name in classes[header]:
            lines += [f".. doxygen{kind}:: {name}", "   :members:", "   :undoc-members:", ""]
        lines += [f".. doxygenfile:: tenon/{header}", "   :sections: enum define typedef func var", ""]
    return "\n".join(lines)


def write_reference(source, about, xml):
    folder, classes = source / "api", classes_of_headers(xml)
    folder.mkdir(parents=True)
    lines = heading("API reference", "=") + [
        "Made from the headers of the SDK. ``<tenon/tenon.h>`` includes all C headers except drafts.",
        ":doc:`conventions` explains names, ownership and thread roles.", ""]
    for part in concepts():
        lines += heading(part["part"], "-") + [".. list-table::", ""]
        for page in part["pages"]:
            (folder / f"{page['name']}.rst").write_text(page_of_concept(page, about, classes))
            lines += [f"   * - :doc:`{page['name']}`",
                      "     - " + ", ".join(f"``{header}``" for header in page["headers"])]
        lines += ["", ".. toctree::", "   :hidden:", "", *("   " + page["name"] for page in part["pages"]), ""]
    (folder / "index.rst").write_text("\n".join(lines))


# ---- the pages ----

def pages():
    """All pages of the project, relative to its root."""
    names = [file.relative_to(ROOT) for pattern in ("*.md", "docs/**/*.md", "plugins/**/*.md", "tests/**/*.md")
             for file in ROOT.glob(pattern)]
    return sorted({str(name) for name in names})


def page_of_header(header):
    return next(page["name"] for part in concepts() for page in part["pages"] if header in page["headers"])


def relinked(text, page, known, source):
    """The text of a page with links that the site has: a header leads to the reference, a file to a copy of it."""
    folder = pathlib.Path(page).parent

    def of_link(found):
        words, target, anchor = found.group(1), found.group(2), found.group(3) or ""
        if "://" in target or target.startswith("mailto:"):
            return found.group()
        name = os.path.normpath(folder / target)
        file = ROOT / name
        if name in known:
            return found.group()
        if f"{name}/README.md" in known:
            return f"{words}({target.rstrip('/')}/README.md{anchor})"
        if file.is_file() and INCLUDE in file.parents and file.name != "tenon.h":
            api = f"api/{page_of_header(str(file.relative_to(INCLUDE)))}.rst"
            return f"{words}({os.path.relpath(api, folder)})"
        if file.is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, source / name)
            return f"{words}({target})"
        return words[1:-1] if file.is_dir() else found.group()

    parts = re.split(r"(^```.*?^```)", text, flags=re.M | re.S)
    return "".join(part if i % 2 else LINK.sub(of_link, part) for i, part in enumerate(parts))


def toctree(caption, targets):
    return "\n".join(["", "```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "", *targets,
                      "```", ""])


def tables_of(text):
    """The pages that each section of an index lists in its tables."""
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        yield section.split("\n", 1)[0], re.findall(r"^\| \[[^\]]*\]\(([^()#\s]+\.md)\)", section, flags=re.M)


def with_tables_of_contents(texts):
    """Appends hidden tables of contents to the indexes, from their tables. Returns the pages in them."""
    start, listed = INDEXES[0], {INDEXES[0], DECISIONS}
    folders = [os.path.dirname(page) for page in INDEXES[1:]]
    for page in INDEXES:
        folder = os.path.dirname(page)
        for section, targets in tables_of(texts[page]):
            names = [os.path.normpath(os.path.join(folder, target)) for target in targets]
            if page == start:  # without pages that another index lists
                names = [name for name in names if name in INDEXES or os.path.dirname(name) not in folders]
            names = [name for name in dict.fromkeys(names) if name not in listed]
            listed.update(names)
            if page == start and section == "Decisions":
                relative = [os.path.relpath(name, os.path.dirname(DECISIONS)) for name in names]
                texts[DECISIONS] = "# Decisions\n\nA record explains a choice that the code cannot explain.\n\n" + \
                    toctree("", relative).replace(":hidden:", ":maxdepth: 1")
                continue
            relative = [os.path.relpath(name, folder) for name in names]
            if page == start:
                relative += {"Write plugins": ["../api/index"], "Change the host": ["decisions/index"]}.get(section, [])
            texts[page] += toctree(section if page == start else "", relative) if relative else ""
    return listed


def write_pages(source):
    known = pages()
    texts = {page: (ROOT / page).read_text() for page in known}
    listed = with_tables_of_contents(texts)
    for page, text in texts.items():
        file = source / page
        file.parent.mkdir(parents=True, exist_ok=True)
        orphan = "" if page in listed else "---\norphan: true\n---\n\n"
        file.write_text(orphan + relinked(text, page, known, source))
    shutil.copytree(ROOT / "docs/images", source / "docs/images", dirs_exist_ok=True)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--out", type=pathlib.Path, required=True)
    options.add_argument("--plain", action="store_true", help="without a theme, which is faster; for tests")
    options = options.parse_args()
    python = python_with_sphinx()
    if python is None or shutil.which("doxygen") is None:
        print(f"skipped: Doxygen or a Python with {', '.join(MODULES)} not found; run ./dev deps --site")
        sys.exit(77)
    out = options.out.resolve()
    source = out / "source"
    for folder in (source, out / "html", out / "doctrees"):
        if folder.exists():
            shutil.rmtree(folder)
    about = write_xml(out / "xml")
    write_reference(source, about, out / "xml/xml")
    write_pages(source)
    os.environ.update(TENON_SITE_XML=str(out / "xml/xml"), TENON_SITE_THEME="basic" if options.plain else "furo")
    run([python, "-m", "sphinx", "-q", "-b", "html", "-c", str(SITE), "-d", str(out / "doctrees"), "-W",
         "--keep-going", str(source), str(out / "html")], out)
    (out / "html/index.html").write_text('<meta charset="utf-8"><meta http-equiv="refresh" content="0; '
                                         'url=docs/index.html"><a href="docs/index.html">Tenon</a>\n')
    print(f"{out}/html/index.html")


if __name__ == "__main__":
    main()
