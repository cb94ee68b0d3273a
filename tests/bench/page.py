# SPDX-License-Identifier: Apache-2.0
"""Puts measured tables into pages, between "<!-- bench NAME -->" and "<!-- end -->"."""
import programs

PERFORMANCE = programs.ROOT / "docs/performance.md"
DEVELOPERS = programs.ROOT / "docs/dev/bench.md"
END = "<!-- end -->\n"


def replaced(page, name, table):
    """The text of a page with another table.

    Raises `ValueError` if the page has no place for the table.
    """
    begin = f"<!-- bench {name} -->\n"
    before, found, rest = page.partition(begin)
    _, end, after = rest.partition(END)
    if not found or not end:
        raise ValueError(f"no place for the table {name}; add {begin.strip()} and {END.strip()}")
    return f"{before}{begin}\n{table}\n{end}{after}"


def joined(text, name, table):
    """The table of a page, in which the rows of a new table replace the rows of the same workloads.

    The first column names the workload. Rows of other workloads stay.
    """
    old = text.partition(f"<!-- bench {name} -->\n")[2].partition(END)[0].strip().splitlines()[2:]
    head, new = table.splitlines()[:2], table.splitlines()[2:]

    def workload(row):
        return row.split("|")[1]

    measured = {workload(row) for row in new}
    rows = [row for first in dict.fromkeys(map(workload, old + new))
            for row in (new if first in measured else old) if workload(row) == first]
    return "\n".join(head + rows) + "\n"


def write(path, tables):
    """Replaces tables, from name to text; a page without changes stays as it is."""
    old = text = path.read_text(encoding="utf-8")
    for name, table in tables.items():
        text = replaced(text, name, table)
    if text != old:
        path.write_text(text, encoding="utf-8")
        programs.say(f"wrote {path.relative_to(programs.ROOT)}")
