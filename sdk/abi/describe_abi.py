#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Describes the C ABI as data: every struct, union, field, offset, width, function, thread role and constant.

    python3 sdk/abi/describe_abi.py            write sdk/abi/abi.json
    python3 sdk/abi/describe_abi.py --check    fail if the headers differ from it

abi.json belongs to one ABI number. If the headers describe another ABI under the same number, this program writes
nothing and says what to do. Other languages generate their bindings from abi.json, and tests their structs.

The headers are parsed as the small part of C that they use. Sizes, offsets and values come from the C compiler, which
also finds each name that was misread.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ABI = pathlib.Path(__file__).resolve().parent
INCLUDE = ABI.parent / "include"
FILE = ABI / "abi.json"
ROLES = ("load", "main", "step", "worker", "any")


def headers():
    folder = INCLUDE / "tenon"
    return sorted(folder.glob("*.h")) + sorted((folder / "draft").glob("*.h"))


def without_comments(text):
    return re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def words(text):
    """One line, with one space between words and none around parentheses."""
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"\s*([(),])\s*", r"\1", text).replace(",", ", ")


def split(text, at):
    """Splits at a character outside of parentheses and braces. Returns pairs of the start and the part."""
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "({") - (c in ")}")
        if c == at and depth == 0:
            parts.append((begin, text[begin:i]))
            begin = i + 1
    return parts


def roles_of(comment):
    """The thread roles that a comment names after its tag Threads; ["call"] if they are those of a call in progress."""
    found = re.search(r"Threads\s+(.*?)(?=\n[ *]*(?:[A-Z][a-z]+\s{2,}|\*/)|\Z)", comment, re.S)
    roles = [role for role in ROLES if found and f"[{role}]" in found.group(1)]
    return roles or (["call"] if found else [])


def last_comment(text):
    """The comment that ends a text, or ""."""
    found = re.search(r"/\*(?:[^*]|\*(?!/))*\*/\s*$", text)
    return found.group() if found else ""


def function_of(declaration, comment):
    result, name, parameters = re.match(r"(.*?)\(\*(\w+)\)\((.*)\)$", declaration).groups()
    function = {"returns": words(result), "parameters": [words(p) for p in re.split(r",(?![^()]*\))", parameters)]}
    if roles_of(comment):
        function["threads"] = roles_of(comment)
    return name, function


def fields_of(body, code):
    """The fields of a struct. `body` has comments, `code` has spaces in their place."""
    fields = []
    shared = ""  # the comment of functions that follow without one of their own
    for begin, part in split(code, ";"):
        declaration = re.sub(r"\s+", " ", part).strip()
        first = begin + len(part) - len(part.lstrip())
        comment = last_comment(body[:first])
        if "(*" in declaration and re.search(r"\)\s*\(", declaration):
            shared = comment or shared
            name, function = function_of(declaration, shared)
            fields.append({"name": name, "function": function})
            continue
        array = re.search(r"\[(\w+)\]$", declaration)
        pointer = re.match(r"(.*)\(\*(\w+)\)\[(\d+)\]$", declaration)
        if pointer:
            kind, name = f"{pointer.group(1).strip()} (*)[{pointer.group(3)}]", pointer.group(2)
        elif declaration.startswith("union"):
            body_of_union, union = re.match(r"union \{(.*)\}\s*(\w+)$", declaration).groups()
            pairs = [re.match(r"(.*?)(\w+)$", m.strip()).groups() for m in body_of_union.split(";") if m.strip()]
            members = [{"name": name, "type": kind.strip()} for kind, name in pairs]
            fields.append({"name": union, "type": "union", "members": members})
            continue
        else:
            plain = declaration[:array.start()] if array else declaration
            kind, name = re.match(r"(.*?)(\w+)$", plain).groups()
            kind = kind.strip() + (f"[{array.group(1)}]" if array else "")
        fields.append({"name": name, "type": kind})
    return fields


def structs_of(text, code):
    for found in re.finditer(r"^(?:typedef )?struct (tenon_\w+) \{(.*?)^\}", code, re.S | re.M):
        body = text[found.start(2):found.end(2)]
        fields = fields_of(body, found.group(2))
        before = re.sub(r"typedef struct \w+ \w+;\s*$", "", text[:found.start()])
        yield {"name": found.group(1), "is_sized": fields[0]["name"] == "struct_size",
               "threads": roles_of(last_comment(before)), "fields": fields}


def function_types_of(code):
    """The named types of function pointers."""
    for declaration in re.findall(r"^typedef ([^;{}]*\(\*tenon_\w+\)[^;]*);", code, re.M):
        name, function = function_of(re.sub(r"\s+", " ", declaration), "")
        yield {"name": name, **function}


def constants_of(code):
    for body in re.findall(r"^enum \{(.*?)\};", code, re.S | re.M):
        yield from re.findall(r"(TENON_\w+)\s*=", body)
    for name, value in re.findall(r"^#define (TENON_\w+) (\d\w*|\"[^\"]*\"|UINT32_MAX)\s*$", code, re.M):
        yield name


def compiled(structs, constants, compiler):
    """Asks the compiler for all sizes, offsets and values."""
    lines = ["#include <stdio.h>", "#include <tenon/tenon.h>"]
    lines += [f"#include <tenon/draft/{h.name}>" for h in headers() if h.parent.name == "draft"]
    lines += ['#define V(x) _Generic((x), char*: "s", const char*: "s", default: "i")', "int main(void) {"]
    for struct in structs:
        name = struct["name"]
        lines.append(f'  printf("%zu\\n", sizeof({name}));')
        lines += [f'  printf("%zu %zu\\n", offsetof({name}, {f["name"]}), sizeof((({name}*)0)->{f["name"]}));'
                  for f in struct["fields"]]
    for name in constants:
        lines.append(f'  if (*V({name}) == \'s\') printf("\\"%s\\"\\n", (const char*)(size_t)({name}));')
        lines.append(f'  else printf("%lld\\n", (long long)(size_t)({name}));')
    lines += ["  return 0;", "}"]
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "abi.c"
        source.write_text("\n".join(lines) + "\n")
        words = [compiler, "-std=c11", "-w", f"-I{INCLUDE}", source, "-o", source.with_suffix("")]
        if subprocess.run(words).returncode != 0:
            sys.exit("The headers do not compile, or this program misreads them. If an assertion says that a field has\n"
                     "moved: fields are only added at the end of a struct, which its TENON_SEAL names.")
        return iter(subprocess.run([source.with_suffix("")], check=True, capture_output=True,
                                   text=True).stdout.splitlines())


def described(compiler):
    structs, function_types, constants = [], [], []
    for header in headers():
        text = header.read_text()
        code = without_comments(text)
        name = str(header.relative_to(INCLUDE))
        structs += [{"header": name, **struct} for struct in structs_of(text, code)]
        function_types += [{"header": name, **function} for function in function_types_of(code)]
        constants += constants_of(code)
    values = compiled(structs, constants, compiler)
    for struct in structs:
        struct["size"] = int(next(values))
        for field in struct["fields"]:
            field["offset"], field["size"] = map(int, next(values).split())
            if "function" in field and "threads" not in field["function"]:
                field["function"]["threads"] = struct["threads"]
        del struct["threads"]
    constants = {name: json.loads(next(values)) for name in constants}
    return {"abi": constants["TENON_ABI_STRING"], "structs": structs, "function_types": function_types,
            "constants": constants}


def differences(old, new):
    """The names of what differs, one a line."""
    lines = []
    for kind, key in (("struct", "structs"), ("function type", "function_types"), ("constant", "constants")):
        before, after = (abi[key] if key == "constants" else {s["name"]: s for s in abi.get(key, [])}
                         for abi in (old, new))
        for name in sorted(set(before) | set(after)):
            if before.get(name) == after.get(name):
                continue
            how = "is new" if name not in before else "is gone" if name not in after else "differs"
            fields = ""
            if key == "structs" and how == "differs":
                was, now = ({f["name"]: f for f in s[name]["fields"]} for s in (before, after))
                fields = ": " + ", ".join(f for f in {**was, **now} if was.get(f) != now.get(f))
            lines.append(f"  {kind} {name} {how}{fields}")
    return "\n".join(lines)


def only_adds_drafts(old, new):
    """True if all that differs is new in headers of drafts. A side without a draft asks for nothing of it."""
    of_drafts = {s["name"] for s in new["structs"] if "draft/" in s["header"]}
    for header in headers():
        if header.parent.name == "draft":
            of_drafts.update(constants_of(without_comments(header.read_text())))
    def values(abi):
        return {**{s["name"]: s for s in abi["structs"]}, **{f["name"]: f for f in abi["function_types"]}, **abi["constants"]}
    before, after = values(old), values(new)
    return all(name in before or name in of_drafts for name in after) and all(
        after.get(name) == value for name, value in before.items())


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--check", action="store_true")
    options.add_argument("--compiler", default=os.environ.get("CC", "cc"))
    options = options.parse_args()
    new = described(options.compiler)
    old = json.loads(FILE.read_text()) if FILE.exists() else None
    if old == new:
        return
    if old is not None and old["abi"] == new["abi"] and not only_adds_drafts(old, new):
        sys.exit(f"The headers describe another ABI than sdk/abi/abi.json, under the same number {new['abi']}:\n"
                 f"{differences(old, new)}\n"
                 "A plugin built with one would misread the other. If the change is intended, raise TENON_ABI_MINOR and\n"
                 "TENON_ABI_STRING in sdk/include/tenon/abi.h, run ./dev docs, and list the change in CHANGELOG.md and\n"
                 "its reason in docs/abi-policy.md, which has all steps.\n"
                 "Otherwise undo it: fields are only added at the end of a struct, and never moved.")
    if options.check:
        sys.exit(f"sdk/abi/abi.json does not describe ABI {new['abi']}; run ./dev docs")
    FILE.write_text(json.dumps(new, indent=1) + "\n")


if __name__ == "__main__":
    main()
