# SPDX-License-Identifier: Apache-2.0
"""Finds functions and classes in C++ by their form, as clang-format lays them out.

A definition opens with a line at some indentation, and ends with a line that is a closing brace at the
same indentation.
"""

import re

SKIPPED_WORDS = ("namespace", "class", "struct", "enum", "union", "extern", "if", "for", "while", "switch", "else", "do", "try", "return", "case", "default")


def sources(root, folder, endings=(".cpp", ".hpp")):
    return sorted(p for p in (root / folder).rglob("*") if p.suffix in endings)


def functions_in(text):
    """(first line, number of lines, first line's text) of each function definition."""
    lines = text.split("\n")
    found = []
    i = 0
    while i < len(lines):
        line = lines[i]
        stripped = re.sub(r"\s*//.*", "", line).strip()
        indent = len(line) - len(line.lstrip(" "))
        starts = (
            stripped
            and indent in (0, 2, 4)
            and re.match(r"[A-Za-z_\[~:]", stripped)
            and not stripped.startswith(("#", "//"))
            and re.match(r"\w*", stripped).group(0) not in SKIPPED_WORDS
            and "(" in stripped
            and not stripped.endswith(";")
            and not re.match(r"\w+(\.|->)\w+\(", stripped)
        )
        if not starts:
            i += 1
            continue
        # The signature goes on to the line that ends with "{"; a declaration ends with ";".
        j = i
        while j < len(lines) and j < i + 40 and not lines[j].rstrip().endswith(("{", ";", "}")):
            j += 1
        if j >= len(lines) or not lines[j].rstrip().endswith("{"):
            i += 1
            continue
        end = j + 1
        while end < len(lines) and not re.match(r" {%d}\}" % indent, lines[end]):
            end += 1
        head = " ".join(part.strip() for part in lines[i : j + 1])
        if " = [" not in head and not re.match(r"[\w:<>,&* ]+ = ", head):
            found.append((i + 1, end - i + 1, stripped))
        i = end + 1 if indent == 0 else i + 1
    return found


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


def count_class(body):
    """(functions, data members) that a class declares itself, nested types left aside."""
    body = without_comments(body)
    flat = []
    depth = 0
    for char in body:
        if char == "{":
            depth += 1
            continue
        if char == "}":
            depth -= 1
            if depth == 0:
                flat.append(";" if not flat or flat[-1] != ";" else "")
            continue
        if depth == 0:
            flat.append(char)
    functions = members = 0
    for statement in re.split(r";|\b(?:public|private|protected):", "".join(flat)):
        statement = " ".join(statement.split())
        if not statement or re.match(r"(class|struct|enum|using|friend|static constexpr|template <[^>]*> friend)\b", statement):
            continue
        statement = re.sub(r"\s=.*$", "", statement) if "(" not in statement.split("=")[0] else statement
        bare = re.sub(r"<[^<>]*(<[^<>]*>[^<>]*)*>", "", statement)
        if "(" in bare.split("=")[0]:
            if "= delete" not in statement:
                functions += 1
        elif re.search(r"\w+_$", bare.strip()) or re.search(r"\w+$", bare.strip()):
            members += 1
    return functions, members
