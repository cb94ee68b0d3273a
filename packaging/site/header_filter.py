#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a header of the SDK in the form that Doxygen reads.

Headers have plain comments with tags, one a line (CONTRIBUTING.md). This program makes each comment that documents
something a Doxygen comment, whose text is reStructuredText: tags become a field list. It removes what is no interface:
seals, slots, include guards, and declarations that only the wrapper uses. The comment of a file is for its page.
"""
import re

TAGS = ("Shapes", "Units", "Errors", "Threads", "Owner", "Source", "Random", "Since")
TAG = re.compile(r"(" + "|".join(TAGS) + r")\s{2,}(\S.*)")
FOR_WRAPPER = re.compile(r"for the wrapper only|only the headers of the wrapper", re.I)
LINKED = re.compile(r"``(tenon_\w+)``|(?<![\w`/])(tenon_\w+)(?![\w`(])")
ITEM = re.compile(r"(?:- |\d+\. )")
# Declarations that check the ABI or open a language's linkage.
CHECKS = re.compile(r"^(TENON_(SEAL|SLOT|STATIC_ASSERT)|static_assert)\(.*?\);\n", re.M | re.S)
GUARD = re.compile(r"^#define TENON_\w+_HP?P?\n", re.M)


def inline(text, structs):
    """A paragraph of a comment as reStructuredText."""
    parts = re.split(r"(`[^`]+`)", text)
    for i, part in enumerate(parts):
        if i % 2 == 1:
            parts[i] = f"`{part}`"
        else:
            parts[i] = re.sub(r"\\|\*|\||_(?=\W|$)", r"\\\g<0>", part)
    text = "".join(parts)
    return LINKED.sub(lambda m: f":c:struct:`{m.group(1) or m.group(2)}`"
                      if (m.group(1) or m.group(2)) in structs else m.group(), text)


def paragraphs(lines):
    """Splits the text of a comment at empty lines, at items of lists and at tags."""
    parts, before = [], ""
    for line in lines:
        is_code = line.startswith("    ")
        is_first = not before.strip()
        if not line.strip():
            pass
        elif parts and not is_first and not TAG.match(line) and not ITEM.match(line):
            parts[-1].append(line)
        elif is_first and is_code and parts and parts[-1][0].startswith("    "):
            parts[-1] += ["", line]  # code with an empty line inside
        else:
            parts.append([line])
        before = line
    return parts


def restructured(lines, structs):
    """The text of a comment as lines of reStructuredText."""
    out, fields = [], []
    for part in paragraphs(lines):
        tag = TAG.match(part[0])
        if tag:
            words = " ".join([tag.group(2), *(line.strip() for line in part[1:])])
            fields.append(f":{tag.group(1)}: {inline(words, structs)}")
        elif part[0].startswith("    "):
            out += ["::", "", *part, ""]
        else:
            words = " ".join(line.strip() for line in part)
            item = ITEM.match(words)
            start = item.group() if item else ""
            out += [start + inline(words[len(start):], structs), ""]
    return out + fields


def stripped(comment):
    """The lines of a comment without its marks."""
    if comment.startswith("//"):
        return [re.sub(r"^\s*// ?", "", line) for line in comment.splitlines()]
    lines = comment[2:-2].rstrip().split("\n")
    return [lines[0].strip()] + [re.sub(r"^\s*\* ?", "", line) for line in lines[1:]]


def doxygen(opening, lines, structs):
    return "\n".join([opening, "@verbatim embed:rst", *restructured(lines, structs), "@endverbatim", "*/"])


class Header:
    """The text of a header. `structs` are the structs that some header defines."""

    def __init__(self, text, structs):
        self.text = text
        self.structs = structs

    def comments(self):
        """Each comment that starts a line or follows code: begin, end."""
        pattern = r"/\*(?:[^*]|\*(?!/))*\*/|(?:(?<=\n)|^)(?://[^\n]*\n)+"
        return [(m.start(), m.end()) for m in re.finditer(pattern, self.text)]

    def write(self):
        """The text for Doxygen. Sets `about`: the comments on the file itself, as reStructuredText."""
        self.about = []
        out, at, is_first = [], 0, True
        for begin, end in self.comments():
            if begin < at:
                continue
            comment = self.text[begin:end]
            before = self.text[self.text.rfind("\n", 0, begin) + 1:begin]
            out.append(self.text[at:begin])
            at = end
            line_end = "\n" if comment.endswith("\n") else ""
            lines = stripped(comment.rstrip("\n"))
            if is_first:
                lines = [line for line in lines if "SPDX-License-Identifier" not in line]
                self.about += restructured(lines, self.structs)
                out.append(line_end)
                is_first = False
            elif before.strip():  # behind code
                out.append(doxygen("/**<", lines, self.structs))
            elif re.match(r"[ \t]*\n[ \t]*\n", line_end + self.text[end:]):  # alone: a heading, or about the file
                if not re.fullmatch(r"-+ .* -+", " ".join(lines).strip()):
                    self.about += ["", *restructured(lines, self.structs)]
                out.append(line_end)
            elif FOR_WRAPPER.search(" ".join(lines)):
                at = self.end_of_hidden(end)
            else:
                out.append(doxygen("/**", lines, self.structs) + line_end)
        return "".join(out) + self.text[at:]

    def end_of_hidden(self, begin):
        """Where declarations end that only the wrapper uses: at an empty line, or where the scope ends."""
        depth = 0
        for found in re.finditer(r"[{}]|\n[ \t]*\n|\n(?=[ \t]*(?:/\*|private:|public:|protected:))", self.text[begin:]):
            if found.group() == "{":
                depth += 1
            elif found.group() == "}":
                depth -= 1
            if depth < 0 or (depth == 0 and found.group().startswith("\n")):
                return begin + found.start()
        return len(self.text)


def defined_structs(include):
    """The structs that C headers define."""
    texts = [header.read_text() for header in (*include.glob("*.h"), *include.glob("draft/*.h"))]
    return set(re.findall(r"^(?:typedef )?struct (tenon_\w+) \{", "\n".join(texts), re.M))


def opaque_structs(include):
    """The structs that no header defines."""
    texts = [header.read_text() for header in (*include.glob("*.h"), *include.glob("draft/*.h"))]
    return set(re.findall(r"^typedef struct (tenon_\w+) \1;", "\n".join(texts), re.M)) - defined_structs(include)


def filtered(file):
    """The text of a header for Doxygen, and the comment of the file as reStructuredText."""
    include = next(parent for parent in file.parents if parent.name == "tenon")
    structs, opaque = defined_structs(include), opaque_structs(include)
    text = GUARD.sub("", CHECKS.sub("", file.read_text()))
    text = re.sub(r"^#include SIMD_KERNELS\n|^#(define|undef) SIMD_LANES.*\n", "", text, flags=re.M)
    # Doxygen lists the members of an unnamed union beside those of the struct.
    text = re.sub(r"^  union \{\n(.*?)^  \} (\w+);\n", lambda m: "".join(
        f"{line} /* in the union `{m.group(2)}` */\n" for line in m.group(1).splitlines()), text, flags=re.M | re.S)
    header = Header(text, structs | opaque)
    text = header.write()
    # C has a name space for structs, so a typedef of the same name is no second declaration.
    text = re.sub(r"^typedef struct (tenon_\w+) \{(.*?)^\} \1;", r"struct \1 {\2};", text, flags=re.M | re.S)

    def of_typedef(found):
        is_documented = text[:found.start()].rstrip().endswith("*/")
        return f"struct {found.group(1)} {{}};" if found.group(1) in opaque and is_documented else ""

    text = re.sub(r"^typedef struct (tenon_\w+) \1;", of_typedef, text, flags=re.M)
    return re.sub(r"^TENON_C_(BEGIN|END)$", "", text, flags=re.M), "\n".join(header.about)
