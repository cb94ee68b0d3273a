#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the SDK's headers as a later or an earlier version of the ABI has them.

    widen_headers.py FOLDER            one field more in each struct and table, one value more in each enum
    widen_headers.py FOLDER --narrow   the last field less in each struct and table; enums are unchanged
      --only STRUCT                    change only this struct, and no enum; repeat it for more

FOLDER then contains tenon/, and is an include path. Only structs with a TENON_SEAL change: all others never grow.
The C++ wrapper is copied beside widened headers as it is. It names fields that narrowed headers lack.

Constants that count other constants (TENON_NUM_EVENTS, TENON_MESH_DIMS) keep their values. They size arrays in the
sources of the host and of plugins, which would first have to name the new value; the host never sets that value.
"""
import argparse
import pathlib
import re
import sys

SDK = pathlib.Path(__file__).resolve().parents[2] / "sdk"
sys.path.insert(0, str(SDK / "abi"))
import describe_abi  # noqa: E402, beside the headers

FIELD = "museum_added"
COUNTS = re.compile(r"TENON_NUM_\w+|TENON_\w+_DIMS")


class Struct:
    """The declarations of a struct in the text of a header, without the comments before them."""

    def __init__(self, text, name):
        code = describe_abi.without_comments(text)
        body = re.search(r"struct " + name + r" \{(.*?)^\}", code, re.S | re.M)
        self.end = body.end() - 1  # of the closing brace
        self.parts = []  # begin, end and text
        for begin, part in describe_abi.split(body.group(1), ";"):
            self.parts.append((body.start(1) + begin, body.start(1) + begin + len(part) + 1, " ".join(part.split())))

    def is_function(self, i):
        return re.search(r"\(\*\w+\)\s*\(", self.parts[i][2]) is not None

    def is_half_word(self, i):
        return re.fullmatch(r"u?int32_t \w+", self.parts[i][2]) is not None

    def name(self, i):
        function = re.search(r"\(\*(\w+)\)", self.parts[i][2])
        return function.group(1) if function else re.search(r"(\w+)(\[\w+\])?$", self.parts[i][2]).group(1)


def sealed(text):
    return re.findall(r"^TENON_SEAL\((tenon_\w+), \w+\);", text, re.M)


def reseal(text, struct, last):
    return re.sub(r"^TENON_SEAL\(" + struct + r", \w+\);", f"TENON_SEAL({struct}, {last});", text, flags=re.M)


def widened(text, name):
    struct = Struct(text, name)
    kind = f"void (*{FIELD})(void)" if struct.is_function(-1) else f"uint64_t {FIELD}"
    return reseal(text[:struct.end] + f"  {kind};\n" + text[struct.end:], name, FIELD)


def narrowed(text, name):
    struct = Struct(text, name)
    # A struct has no padding at its end, so two fields of four bytes share the last word.
    n = 2 if struct.is_half_word(-1) else 1
    for i in range(-n, 0):
        text = re.sub(r"^TENON_SLOT\(" + name + ", " + struct.name(i) + r", \d+\);\n", "", text, flags=re.M)
    text = reseal(text, name, struct.name(-n - 1))
    struct = Struct(text, name)
    # With comments before the fields and after them.
    begin, end = text.index("\n", struct.parts[-n - 1][1]), text.index("\n", struct.parts[-1][1])
    return text[:begin] + text[end:]


def value_of(expression):
    return eval(re.sub(r"\b(\d+)[uU]\b", r"\1", expression), {"__builtins__": {}})  # of constants of these headers


def with_values(text):
    """The text with one value more in each enum: the next number, or the next bit if the values are bits."""
    code = describe_abi.without_comments(text)
    for found in reversed(list(re.finditer(r"^enum \{(.*?)\};", code, re.S | re.M))):
        constants = re.findall(r"(TENON_\w+)\s*=\s*([^,]+?)\s*(?:,|$)", found.group(1).strip())
        constants = [(value_of(value), name) for name, value in constants if not COUNTS.fullmatch(name)]
        last, name = max(constants)
        added = last * 2 if "<<" in found.group(1) else last + 1
        end = found.end() - 2
        text = text[:end] + f",\n  MUSEUM_AFTER_{name} = {added}\n" + text[end:]
    return text


def changed(text, narrow, only):
    for name in sealed(text):
        if only and name not in only:
            continue
        text = narrowed(text, name) if narrow else widened(text, name)
    return text if narrow or only else with_values(text)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("--narrow", action="store_true")
    options.add_argument("--only", action="append", default=[], metavar="STRUCT")
    options = options.parse_args()
    unknown = set(options.only).difference(*(sealed(header.read_text()) for header in describe_abi.headers()))
    if unknown:
        sys.exit(f"no header has a TENON_SEAL of {', '.join(sorted(unknown))}")
    texts = {}
    for file in (describe_abi.INCLUDE / "tenon").rglob("*.h*"):
        text = file.read_text()
        if file in describe_abi.headers():
            text = changed(text, options.narrow, options.only)
        elif options.narrow:
            continue
        texts[options.folder / file.relative_to(describe_abi.INCLUDE)] = text
    for file in set((options.folder / "tenon").rglob("*.h*")) - set(texts):
        file.unlink()
    for file, text in texts.items():
        if not file.exists() or file.read_text() != text:  # otherwise its users would be compiled again
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


if __name__ == "__main__":
    main()
