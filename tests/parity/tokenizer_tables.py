#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes plugins/tokenizers/engine/unicode_data.cpp: properties of all code points as `tokenizers`
0.23.3 has them.

    pip install tokenizers==0.23.3 regex
    python3 tests/parity/tokenizer_tables.py

Every code point is put through that package, since its parts use tables of several Unicode versions.
What it does not show is read from elsewhere and checked against it: combining classes from Python's
unicodedata, grapheme breaks from the package `regex`.
"""

import base64
import json
import pathlib
import struct
import unicodedata

import regex
import tokenizers
from tokenizers import Regex, Tokenizer
from tokenizers.normalizers import NFC, NFD, NFKC, NFKD, BertNormalizer, Lowercase, StripAccents
from tokenizers.pre_tokenizers import Digits, Punctuation, Split, UnicodeScripts, Whitespace, WhitespaceSplit

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "plugins/tokenizers/engine/unicode_data.cpp"
CODES = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
ALL = "".join(map(chr, CODES))
CATEGORIES = "Cn Cc Cf Co Cs Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp".split()
BREAKS = "Other CR LF Control Extend ZWJ Regional_Indicator Prepend SpacingMark L V T LV LVT".split()
SPACE, NUMERIC, PUNCTUATION, WORD, REMOVED, MARK, COMBINING = (1 << n for n in range(5, 12))
NFC_INERT, NFKC_INERT, NFD_INERT, NFKD_INERT = (1 << n for n in range(12, 16))
EXT_PICT, CONSONANT, LINKER, INCB_EXTEND = (1 << n for n in range(16, 20))
BREAK_SHIFT = 20


def kept(pre_tokenizer):
    """The code points in the pieces that are left."""
    found = set()
    for _, (begin, end) in pre_tokenizer.pre_tokenize_str(ALL):
        found.update(CODES[begin:end])
    return found


def matched(pattern):
    return set(CODES) - kept(Split(Regex(pattern), "removed"))


def read_flags():
    flags = dict.fromkeys(range(0x110000), 0)
    for number, name in enumerate(CATEGORIES):
        if name == "Cs":
            continue
        for code in matched(rf"\p{{{name}}}+"):
            assert flags[code] == 0, hex(code)
            flags[code] = number
    for code in range(0xD800, 0xE000):
        flags[code] = CATEGORIES.index("Cs")
    spaces = matched(r"\s+")
    assert spaces == set(CODES) - kept(WhitespaceSplit())
    numeric = set()
    for number, (_, (begin, end)) in enumerate(Digits(individual_digits=False).pre_tokenize_str(ALL)):
        if number % 2 == 1:  # runs alternate, and the first is not numeric
            numeric.update(CODES[begin:end])
    assert ord("0") in numeric and ord("a") not in numeric
    punctuation = set(CODES) - kept(Punctuation("removed"))
    words = set()
    whitespace = Whitespace()
    for piece, (begin, end) in whitespace.pre_tokenize_str(ALL):
        if len(whitespace.pre_tokenize_str("a" + piece[0])) == 1:
            words.update(CODES[begin:end])
    clean = BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    strip = BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False)
    accents = StripAccents()
    for code in CODES:
        text = chr(code)
        flags[code] |= (
            (SPACE if code in spaces else 0)
            | (NUMERIC if code in numeric else 0)
            | (PUNCTUATION if code in punctuation else 0)
            | (WORD if code in words else 0)
            | (REMOVED if clean.normalize_str(text) == "" else 0)
            | (MARK if strip.normalize_str(text) == "" else 0)
            | (COMBINING if accents.normalize_str(text) == "" else 0)
        )
    return flags


def read_classes():
    """Canonical combining classes: a mark changes places with one of a lower class."""
    nfd = NFD()
    classes = {}
    for code in CODES:
        known = unicodedata.combining(chr(code))
        text = chr(code)
        if nfd.normalize_str(text) != text:
            continue
        swaps = (
            nfd.normalize_str("a" + text + "\u0334") == "a\u0334" + text
            if known != 1
            else nfd.normalize_str("a\u0301" + text) == "a" + text + "\u0301"
        )
        if swaps:
            assert known > 0, hex(code)
            classes[code] = known
    return classes


def read_forms(flags, classes):
    forms = {"NFC": NFC(), "NFD": NFD(), "NFKC": NFKC(), "NFKD": NFKD()}
    canonical, compatible, pairs = {}, {}, {}
    changed = {name: set() for name in forms}
    for code in CODES:
        text = chr(code)
        results = {name: form.normalize_str(text) for name, form in forms.items()}
        for name, result in results.items():
            if result != text:
                changed[name].add(code)
        if 0xAC00 <= code <= 0xD7A3:
            continue
        if results["NFD"] != text:
            canonical[code] = results["NFD"]
            if len(results["NFD"]) >= 2 and results["NFC"] == text:
                first = forms["NFC"].normalize_str(results["NFD"][:-1])
                assert len(first) == 1, hex(code)
                pairs[ord(first), ord(results["NFD"][-1])] = code
        if results["NFKD"] not in (text, results["NFD"]):
            compatible[code] = results["NFKD"]
    seconds = {second for _, second in pairs} | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    for code in CODES:
        if code in classes:
            continue
        for name, flag in (("NFC", NFC_INERT), ("NFKC", NFKC_INERT)):
            if code not in changed[name] and code not in seconds:
                flags[code] |= flag
        for name, flag in (("NFD", NFD_INERT), ("NFKD", NFKD_INERT)):
            if code not in changed[name]:
                flags[code] |= flag
    return canonical, compatible, pairs


def precompiled(key, replacement):
    """A Precompiled normalizer that replaces one ASCII character."""
    units = [0] * 256
    units[0] = 1 << 10
    units[1 ^ ord(key)] = ord(key) | 1 << 8 | 1 << 10
    charsmap = struct.pack("<I", 1024) + struct.pack("<256I", *units) + replacement.encode() + b"\0"
    model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
    part = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
    return Tokenizer.from_str(json.dumps({"version": "1.0", "normalizer": part, "model": model})).normalizer


def add_breaks(flags):
    normalizer = precompiled("A", "X")

    def members(name):
        try:
            return {ord(c) for c in regex.findall(rf"\p{{{name}}}", ALL)}
        except regex.error:
            return set()

    named = {number: members(f"Grapheme_Cluster_Break={name}") for number, name in enumerate(BREAKS) if number}
    pictographic = members("Extended_Pictographic")
    # Indic_Conjunct_Break: consonants and linkers of the scripts that Unicode 15.1 names.
    linkers = {0x94D, 0x9CD, 0xACD, 0xB4D, 0xC4D, 0xD4D}
    consonants = (
        [(0x915, 0x939), (0x958, 0x95F), (0x978, 0x97F), (0x995, 0x9A8), (0x9AA, 0x9B0), (0x9B2, 0x9B2)]
        + [(0x9B6, 0x9B9), (0x9DC, 0x9DD), (0x9DF, 0x9DF), (0x9F0, 0x9F1), (0xA95, 0xAA8), (0xAAA, 0xAB0)]
        + [(0xAB2, 0xAB3), (0xAB5, 0xAB9), (0xAF9, 0xAF9), (0xB15, 0xB28), (0xB2A, 0xB30), (0xB32, 0xB33)]
        + [(0xB35, 0xB39), (0xB5C, 0xB5D), (0xB5F, 0xB5F), (0xB71, 0xB71), (0xC15, 0xC28), (0xC2A, 0xC39)]
        + [(0xC58, 0xC5A), (0xD15, 0xD3A)]
    )
    consonants = {code for first, last in consonants for code in range(first, last + 1)}
    unassigned = CATEGORIES.index("Cn")
    for code in CODES:
        number = next((n for n, members in named.items() if code in members), 0)
        name = BREAKS[number]
        joins = normalizer.normalize_str("A" + chr(code)) == "X"
        if joins and name not in ("Extend", "ZWJ", "SpacingMark"):
            number = BREAKS.index("Extend")
        elif not joins and name in ("Extend", "ZWJ", "SpacingMark"):
            number = 0
        elif flags[code] & 31 == unassigned and name not in ("Other", "Control") and not joins:
            number = 0
        flags[code] |= number << BREAK_SHIFT
        if code in pictographic:
            flags[code] |= EXT_PICT
        if code in consonants:
            flags[code] |= CONSONANT
        elif code in linkers:
            flags[code] |= LINKER
        elif BREAKS[number] in ("Extend", "ZWJ") and code != 0x200C:
            flags[code] |= INCB_EXTEND


def read_scripts():
    scripts = UnicodeScripts()

    def is_one(text):
        return len(scripts.pre_tokenize_str(text)) == 1

    anything = {code for code in CODES if is_one("a" + chr(code)) and is_one("\u03b1" + chr(code))}
    numbers = dict.fromkeys(range(0x110000), 0)
    known = []
    for piece, (begin, end) in scripts.pre_tokenize_str(ALL):
        members = [code for code in CODES[begin:end] if code not in anything]
        first = chr(members[0])
        number = next((n for n, other in enumerate(known, 1) if is_one(other + first)), None)
        if number is None:
            known.append(first)
            number = len(known)
        for code in members:
            numbers[code] = number
    assert len(known) < 256
    return numbers


def runs_of(values):
    """(first code point, value) of each run of equal values."""
    runs = []
    for code in range(0x110000):
        if not runs or runs[-1][1] != values[code]:
            runs.append((code, values[code]))
    return runs


def rows(items, indent="    "):
    lines, line = [], indent
    for item in items:
        if len(line) + len(item) + 1 > 100:
            lines.append(line)
            line = indent
        line += item + ","
    return "\n".join(lines + [line])


def run_table(name, values):
    runs = [f"{{{code:#x},{value:#x}}}" for code, value in runs_of(values)]
    return f"constexpr CodeRun {name}Runs[] = {{\n{rows(runs)}\n}};"


def mapping_table(name, mappings):
    text, entries, known = "", [], {}
    for code, result in sorted(mappings.items()):
        if result not in known:
            known[result] = text.find(result) if result in text else len(text)
            text += "" if result in text else result
        entries.append(f"{{{code:#x},{known[result]},{len(result)}}}")
    assert len(text) < 65536
    codes = rows([f"{ord(c):#x}" for c in text])
    return (
        f"constexpr char32_t {name}Text[] = {{\n{codes}\n}};\n"
        f"constexpr CodeMapping {name}Mappings[] = {{\n{rows(entries)}\n}};"
    )


def main():
    assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
    flags = read_flags()
    classes = read_classes()
    canonical, compatible, pairs = read_forms(flags, classes)
    add_breaks(flags)
    lower = Lowercase()
    lowercase = {c: lower.normalize_str(chr(c)) for c in CODES if lower.normalize_str(chr(c)) != chr(c)}
    class_values = {code: classes.get(code, 0) for code in range(0x110000)}
    compositions = [f"{{{a:#x},{b:#x},{c:#x}}}" for (a, b), c in sorted(pairs.items())]
    parts = [
        "// SPDX-License-Identifier: Apache-2.0",
        "//",
        "// Generated by tests/parity/tokenizer_tables.py from tokenizers 0.23.3. Do not edit.",
        "#include <iterator>\n",
        '#include "unicode_table.hpp"\n',
        "// clang-format off",
        "namespace tenon {\nnamespace {\n",
        run_table("kFlag", flags),
        run_table("kScript", read_scripts()),
        run_table("kClass", class_values),
        mapping_table("kLower", lowercase),
        mapping_table("kCanonical", canonical),
        mapping_table("kCompatible", compatible),
        f"constexpr CodePair kPairs[] = {{\n{rows(compositions)}\n}};",
        "\n}  // namespace\n",
    ]
    for table, name in (("Flag", "kFlag"), ("Script", "kScript"), ("Class", "kClass")):
        parts.append(f"const RunTable k{table}Table = {{{name}Runs, std::size({name}Runs)}};")
    for table, name in (("Lowercase", "kLower"), ("Canonical", "kCanonical"), ("Compatible", "kCompatible")):
        parts.append(
            f"const MappingTable k{table} = {{{name}Mappings, std::size({name}Mappings), {name}Text}};"
        )
    parts.append("const PairTable kCompositions = {kPairs, std::size(kPairs)};")
    parts.append("\n}  // namespace tenon\n// clang-format on\n")
    OUT.write_text("\n".join(parts))
    print(f"{OUT}: {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
