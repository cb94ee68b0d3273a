# SPDX-License-Identifier: Apache-2.0
"""Puts measured tables into the page of a machine, docs/performance/SLUG.md, between "<!-- bench NAME -->" and
"<!-- end -->", and the list of machines into docs/performance.md. What stands outside of these places stays."""
import re

import programs

PERFORMANCE = programs.ROOT / "docs/performance.md"
MACHINES = programs.ROOT / "docs/performance"
END = "<!-- end -->\n"
# The sections of a machine's page, in order.
SECTIONS = {
    "mlp": "A small step", "lm": "A language model", "lm-large": "Larger language models", "sparse": "A click model",
    "ranks": "Many ranks", "start": "Startup with an empty cache", "neighbor": "Beside busy processes",
    "bf16": "bf16", "exported": "Models exported from PyTorch",
    "isa": "Older instruction sets", "reading": "Reading data", "packing": "Packing",
    "checkpoint": "Checkpoints",
    "sft": "Fine-tuning on instructions", "lora": "Adapters", "dpo": "Preference optimization",
    "decoders": "Decoders", "generate": "Generating text", "segments": "Packed attention", "long": "Long sequences",
    "optimizer-8bit": "AdamW with state in 8 bits", "process-data": "Preparing chats",
    "abi": "Calls into plugins", "gpu": "A GPU", "goals": "Goals"}
NEW_PAGE = """# Performance: {title}

**Summary.** Tables of `./dev bench` on one machine. [Performance](../performance.md) has the
questions, and explains the differences between machines.

Each table has the median, the minimum and the maximum of several rounds. Ratios are taken within
rounds. A dash marks a value that does not vary. Each table has its own commit and date.

<!-- bench machine -->
<!-- end -->
"""


def begin(name):
    return f"<!-- bench {name} -->\n"


def replaced(page, name, table):
    """The text of a page with another table.

    Raises `ValueError` if the page has no place for the table.
    """
    before, found, rest = page.partition(begin(name))
    _, end, after = rest.partition(END)
    if not found or not end:
        raise ValueError(f"no place for the table {name}; add {begin(name).strip()} and {END.strip()}")
    return f"{before}{begin(name)}\n{table}\n{end}{after}"


def with_section(page, name):
    """The text of a machine's page with a section for the table, before the sections that follow in order."""
    if begin(name) in page:
        return page
    section = f"## {SECTIONS[name]}\n\n{begin(name)}{END}"
    order = list(SECTIONS)
    for later in order[order.index(name) + 1:]:
        heading = f"## {SECTIONS[later]}\n"
        if heading in page:
            return page.replace(heading, f"{section}\n{heading}", 1)
    return f"{page}\n{section}"


def joined(text, name, table):
    """The table of a page, in which the rows of a new table replace the rows of the same workloads.

    The first column names the workload. Rows of other workloads stay.
    """
    old = text.partition(begin(name))[2].partition(END)[0].strip().splitlines()[2:]
    head, new = table.splitlines()[:2], table.splitlines()[2:]

    def workload(row):
        return row.split("|")[1]

    measured = {workload(row) for row in new}
    rows = [row for first in dict.fromkeys(map(workload, old + new))
            for row in (new if first in measured else old) if workload(row) == first]
    return "\n".join(head + rows) + "\n"


def machine_page(text, machine, tables, goals):
    """The text of a machine's page with new tables, from name to text, and new rows of goals, if any."""
    text = replaced(text, "machine", machine)
    for name, table in tables.items():
        text = replaced(with_section(text, name), name, table)
    if goals:
        text = with_section(text, "goals")
        text = replaced(text, "goals", joined(text, "goals", goals))
    return text


def machine_row(slug, text):
    """A row of the list of machines, from the page of one."""
    title = re.search(r"^# (?:Performance: )?(.*)$", text, flags=re.M)[1]

    def value(name):
        found = re.search(rf"^\| {name} \| (.*) \|$", text, flags=re.M)
        return found[1] if found else "-"

    return f"| [{title}](performance/{slug}.md) | {value('commit')} | {value('date')} |"


def machine_list():
    pages = sorted(MACHINES.glob("*.md"))
    rows = [machine_row(path.stem, path.read_text(encoding="utf-8")) for path in pages]
    return "\n".join(["| machine | last commit | last date |", "|---|---|---|", *rows]) + "\n"


def write(path, text):
    """A page without changes stays as it is."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        programs.say(f"wrote {path.relative_to(programs.ROOT)}")


def publish(slug, title, machine, tables, goals):
    """Writes the page of this machine, and lists it. The pages of other machines stay as they are."""
    path = MACHINES / f"{slug}.md"
    old = path.read_text(encoding="utf-8") if path.exists() else NEW_PAGE.format(title=title)
    write(path, machine_page(old, machine, tables, goals))
    write(PERFORMANCE, replaced(PERFORMANCE.read_text(encoding="utf-8"), "machines", machine_list()))
