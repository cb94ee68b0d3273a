#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the Rust declarations of the C ABI from abi.json, with the comments of the headers.

    python3 sdk/abi/rust_declarations.py            write sdk/rust/tenon_abi.rs
    python3 sdk/abi/rust_declarations.py --check    fail if the file differs

Types, sizes, offsets and values come from abi.json alone, and the file asserts them when it is compiled. The headers
only give the comments. A generator for another language can start from this one.
"""
import argparse
import json
import re
import sys

import describe_abi

FILE = describe_abi.ABI.parent / "rust/tenon_abi.rs"

PLAIN = {"void": "c_void", "char": "c_char", "float": "f32", "double": "f64", "size_t": "usize", "int32_t": "i32",
         "int64_t": "i64", "uint8_t": "u8", "uint32_t": "u32", "uint64_t": "u64"}
KEYWORDS = ("as async await become box break const continue crate do dyn else enum extern false final fn for if impl in "
            "let loop macro match mod move mut override priv pub ref return static struct trait true try type typeof "
            "unsafe unsized use virtual where while yield").split()

HEAD = """\
// SPDX-License-Identifier: Apache-2.0
//
// The C ABI of Tenon, version {abi}, in Rust. Written by sdk/abi/rust_declarations.py from abi.json;
// do not edit it. The comments are those of the C headers, where abi.h has the rules.
//
// A layout that differs from C's is an error of the compiler.
#![allow(non_camel_case_types)]

use std::ffi::{{c_void, CStr}};
use std::os::raw::c_char;

/// Makes a constant string from bytes that end with NUL.
const fn text(bytes: &'static [u8]) -> &'static CStr {{
    unsafe {{ CStr::from_bytes_with_nul_unchecked(bytes) }}
}}

/// Asserts the size of a struct, and the offset and size of each field. Each byte of a value holds
/// its index, so the first byte of a field is the offset of the field.
macro_rules! layout {{
    ($name:ident, $size:literal: $($field:ident $offset:literal $width:literal),+) => {{
        const _: () = {{
            const SIZE: usize = std::mem::size_of::<$name>();
            assert!(SIZE == $size && SIZE <= 256);
            #[repr(C)]
            union View {{
                bytes: [u8; SIZE],
                value: $name,
            }}
            let mut bytes = [0; SIZE];
            let mut i = 0;
            while i < SIZE {{
                bytes[i] = i as u8;
                i += 1;
            }}
            let view = View {{ bytes }};
            $(assert!(
                unsafe {{ *(std::ptr::addr_of!(view.value.$field) as *const u8) }} == $offset,
                concat!(stringify!($name), ": ", stringify!($field), " has another offset in C")
            );
            assert!(
                width(|value: &$name| value.$field) == $width,
                concat!(stringify!($name), ": ", stringify!($field), " has another size in C")
            );)+
        }};
    }};
}}

/// Returns the size of the type that a function returns.
#[allow(dead_code)]
const fn width<S, T>(_: fn(&S) -> T) -> usize {{
    std::mem::size_of::<T>()
}}
"""


def pointee(text):
    """The Rust type of a C type, and whether that is constant: what a pointer to it points to."""
    text = text.strip()
    if text.endswith("const"):
        return pointee(text[: -len("const")])[0], True
    if text.endswith("*"):
        kind, is_constant = pointee(text[:-1])
        return f"*{'const' if is_constant else 'mut'} {kind}", False
    is_constant = text.startswith("const ")
    text = re.sub(r"^(const|struct) ", "", text)
    return PLAIN.get(text, text), is_constant


def rust_type(text):
    """The Rust type of the C type of a field, parameter or result."""
    row = re.match(r"(.*) \(\*\)\[(\d+)\]$", text)
    if row:
        return f"*mut [{rust_type(row.group(1))}; {row.group(2)}]"
    array = re.match(r"(.*)\[(\w+)\]$", text)
    if array:
        return f"[{rust_type(array.group(1))}; {array.group(2)} as usize]"
    return pointee(text)[0]


def rust_name(name):
    if name == "self":
        return "this"  # there is no r#self
    return f"r#{name}" if name in KEYWORDS else name


def parameter(text):
    if text == "void":
        return ""
    callback = re.match(r"(.*?)\(\*(\w+)\)\((.*)\)$", text)
    if callback:
        parts = re.split(r",(?![^()]*\))", callback.group(3))
        return f"{callback.group(2)}: {function_type(callback.group(1), parts)}"
    kind, name = re.match(r"(.*?)(\w+)$", text).groups()
    return f"{rust_name(name)}: {rust_type(kind)}"


def function_type(returns, parameters):
    result = "" if returns == "void" else f" -> {rust_type(returns)}"
    return f'Option<unsafe extern "C" fn({", ".join(filter(None, map(parameter, parameters)))}){result}>'


def folded(line):
    """A line of at most 100 columns, or one line for each parameter or field."""
    opening = {"pub": 'fn(', "lay": ": "}[line.strip()[:3]]
    if len(line) <= 100:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    head, _, rest = line.partition(opening)
    end = rest.rindex(") ->" if ") ->" in rest else ")")
    parts = [rest[begin : begin + len(part)].strip() for begin, part in describe_abi.split(rest[:end] + ",", ",")]
    if opening == ": ":
        lines, row = [head + ":"], ""
        for part in parts:
            if len(row) + len(part) > 95:
                lines, row = lines + [f"    {row}"], ""
            row += part + (", " if part is not parts[-1] else "")
        return [text.rstrip() for text in lines + [f"    {row}" + rest[end:]]]
    return [head + opening, *(f"{indent}    {part}," for part in parts), indent + rest[end:]]


# --- comments ---


def comment_lines(comment):
    """The text of a C comment, a line each, without its marks."""
    text = re.sub(r"^/\*|\*/$", "", comment.strip())
    lines = [re.sub(r"^\s*\* ?", "", line).rstrip() for line in text.split("\n")]
    lines[0] = lines[0].strip()
    while lines and not lines[-1]:
        lines.pop()
    return lines


def doc(comment, indent):
    """A C comment as a doc comment. What is indented or a tag stays a line of its own."""
    if not comment:
        return []
    return [f"{indent}/// {line}".rstrip() for line in comment_lines(comment)]


def comments_of(body, ends):
    """The comment of each declaration of a body: before it, or after it on its line. `ends` has the start and the end
    of each declaration."""
    comments, after = [], 0
    for begin, end in ends:
        trailing = re.match(r"[,;]?[ \t]*(/\*.*?\*/)", body[end:], re.S)
        comments.append(describe_abi.last_comment(body[after:begin]) or (trailing.group(1) if trailing else ""))
        after = end + trailing.end() if trailing else end
    return comments


def comments_of_headers():
    """The comments of structs, fields, function types and constants, by name; of constants also that of the enum."""
    comments = {}
    for header in describe_abi.headers():
        text = header.read_text()
        code = describe_abi.without_comments(text)
        for found in re.finditer(r"^(?:typedef )?struct (tenon_\w+) \{(.*?)^\}", code, re.S | re.M):
            before = re.sub(r"typedef struct \w+ \w+;\s*$", "", text[: found.start()])
            comments[found.group(1)] = describe_abi.last_comment(before)
            parts = describe_abi.split(found.group(2), ";")
            ends = [(begin + len(part) - len(part.lstrip()), begin + len(part)) for begin, part in parts]
            names = [re.search(r"\(\*(\w+)\)|(\w+)(\[\w+\])?$", part.strip()).group(1, 2) for _, part in parts]
            for name, comment in zip(names, comments_of(text[found.start(2) : found.end(2)], ends)):
                comments[f"{found.group(1)}.{name[0] or name[1]}"] = comment
        for found in re.finditer(r"^typedef (?:struct (tenon_\w+) \1;|[^;{}]*\(\*(tenon_\w+)\)[^;]*;)", code, re.M):
            comment = describe_abi.last_comment(text[: found.start()])
            comments.setdefault(found.group(1) or found.group(2), comment)
        for found in re.finditer(r"^enum \{(.*?)\};", code, re.S | re.M):
            constants = list(re.finditer(r"(TENON_\w+)\s*=[^,]*", found.group(1)))
            ends = [(m.start(), m.start() + len(m.group().rstrip())) for m in constants]
            for m, comment in zip(constants, comments_of(text[found.start(1) : found.end(1)], ends)):
                comments[m.group(1)] = comment
            if constants:
                comments["enum " + constants[0].group(1)] = describe_abi.last_comment(text[: found.start()])
        for found in re.finditer(r"^#define (TENON_\w+) [^\n]*$", code, re.M):
            comments[found.group(1)] = describe_abi.last_comment(text[: found.start()])
    return comments


# --- declarations ---


def constant(name, value):
    if isinstance(value, str) and name.endswith("_ID"):  # what functions of the host take
        return f'pub const {name}: &CStr = text(b"{value}\\0");'
    if isinstance(value, str):
        return f'pub const {name}: &str = "{value}";'
    return f"pub const {name}: u32 = {value};"


def struct_lines(struct, comments):
    name = struct["name"]
    fields, layout = [], []
    for field in struct["fields"]:
        if "function" in field:
            kind = function_type(field["function"]["returns"], field["function"]["parameters"])
        elif field["type"] == "union":
            kind = f"{name}_{field['name']}"
        else:
            kind = rust_type(field["type"])
        fields += doc(comments.get(f"{name}.{field['name']}"), "    ")
        fields += folded(f"    pub {rust_name(field['name'])}: {kind},")
        layout.append(f"{rust_name(field['name'])} {field['offset']} {field['size']}")
    for field in struct["fields"]:
        if field.get("type") == "union":
            yield from ("", "/// The values of a field of the struct below.", "#[repr(C)]", "#[derive(Clone, Copy)]",
                        f"pub union {name}_{field['name']} {{")
            yield from (f"    pub {rust_name(m['name'])}: {rust_type(m['type'])}," for m in field["members"])
            yield "}"
    yield from ("", *doc(comments.get(name), ""), "#[repr(C)]", "#[derive(Clone, Copy)]", f"pub struct {name} {{",
                *fields, "}", *folded(f"layout!({name}, {struct['size']}: {', '.join(layout)});"))


def opaque_names(abi):
    """Types that only pointers name."""
    named = set(re.findall(r"\b(?:tenon_\w+|DL\w+)\b(?=\*)", json.dumps(abi["structs"] + abi["function_types"])))
    return sorted(named - {s["name"] for s in abi["structs"]})


def declarations(abi):
    comments = comments_of_headers()
    lines = HEAD.format(abi=abi["abi"]).splitlines() + ["", "// ---- constants ----"]
    for name, value in abi["constants"].items():
        group = comments.get("enum " + name)
        lines += [""] if group or isinstance(value, str) else []
        lines += [f"// {line}".rstrip() for line in comment_lines(group)] if group else []
        lines += [*doc(comments.get(name), ""), constant(name, value)]
    lines += ["", "// ---- opaque types ----"]
    for name in opaque_names(abi):
        lines += ["", *doc(comments.get(name), "")]
        lines += ["#[repr(C)]", f"pub struct {name} {{", "    _private: [u8; 0],", "}"]
    lines += ["", "// ---- types of functions ----"]
    for function in abi["function_types"]:
        kind = function_type(function["returns"], function["parameters"])
        lines += ["", *doc(comments.get(function["name"]), ""), *folded(f"pub type {function['name']} = {kind};")]
    lines += ["", "// ---- structs ----"]
    for struct in abi["structs"]:
        lines += struct_lines(struct, comments)
    return "\n".join(lines) + "\n"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--check", action="store_true")
    options = options.parse_args()
    text = declarations(json.loads(describe_abi.FILE.read_text()))
    if options.check:
        if not FILE.exists() or FILE.read_text() != text:
            sys.exit("sdk/rust/tenon_abi.rs does not declare the ABI of sdk/abi/abi.json; run ./dev docs")
        return
    FILE.write_text(text)


if __name__ == "__main__":
    main()
