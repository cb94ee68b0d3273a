#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sdk/abi/abi.json describes the headers, and a changed header does not go unnoticed: two slots swapped in any table, a
field moved in any struct, a field, a slot or a constant added. The text says what to do.

    abi_test.py COMPILER

Changes every eighth struct, or each if TENON_TEST_MEMBERS is "all".
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SDK = pathlib.Path(__file__).resolve().parents[2] / "sdk"
sys.path.insert(0, str(SDK / "abi"))
import describe_abi  # noqa: E402, beside the headers
WHAT_TO_DO = "raise TENON_ABI_MINOR"
MOVED = "static assertion failed"  # of the headers: TENON_SEAL, TENON_SLOT


def described(sdk):
    """The exit status and the output of the check of a copy of the SDK."""
    run = subprocess.run([sys.executable, "-B", sdk / "abi/describe_abi.py", "--check", "--compiler", sys.argv[1]],
                         capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr


def declarations(text, struct):
    """Where the declarations of a struct begin and end, without the comments before them."""
    code = describe_abi.without_comments(text)
    body = re.search(r"struct " + struct + r" \{(.*?)^\}", code, re.S | re.M)
    places = []
    for begin, part in describe_abi.split(body.group(1), ";"):
        end = body.start(1) + begin + len(part)
        places.append((end - len(part.lstrip()), end + 1))
    return places


def swapped(text, struct, i, k):
    """The text with two declarations of a struct swapped; their comments stay."""
    places = declarations(text, struct)
    (a, b), (c, d) = places[i], places[k]
    return text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]


def added(text, struct):
    """The text with a pointer at the end of a struct, which its seal names."""
    end = declarations(text, struct)[-1][1]
    text = text[:end] + "\n  void* added_for_test;" + text[end:]
    return re.sub(r"TENON_SEAL\(" + struct + r", \w+\)", f"TENON_SEAL({struct}, added_for_test)", text)


def main():
    status, output = described(SDK)
    assert status == 0, output
    abi = json.loads((SDK / "abi/abi.json").read_text())
    num_changes = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "sdk"
        shutil.copytree(SDK, copy)

        def expect_refused(header, changed, what):
            nonlocal num_changes
            file = copy / "include" / header
            text = file.read_text()
            assert changed != text, what
            file.write_text(changed)
            status, output = described(copy)
            file.write_text(text)
            num_changes += 1
            assert status != 0, f"{what} is not noticed"
            assert WHAT_TO_DO in output or MOVED in output, f"{what}: {output}"
            return output

        for struct in abi["structs"][::1 if os.environ.get("TENON_TEST_MEMBERS") == "all" else 8]:
            header, name, fields = struct["header"], struct["name"], struct["fields"]
            text = (copy / "include" / header).read_text()
            first = 1 if struct["is_sized"] else 0
            kinds = [field.get("type", "function") for field in fields]
            # Neighbors in the middle: of functions with the same type, and of data with another size or name.
            middle = [i for i in range(first, len(fields) - 1) if kinds[i] == kinds[i + 1] or "function" not in kinds]
            if middle:
                i = middle[len(middle) // 2]
                what = f"{name}: {fields[i]['name']} and {fields[i + 1]['name']} swapped"
                expect_refused(header, swapped(text, name, i, i + 1), what)
            if struct["is_sized"]:
                output = expect_refused(header, added(text, name), f"{name} with one more field")
                assert f"struct {name} differs: added_for_test" in output, output
        text = (copy / "include/tenon/model.h").read_text()
        output = expect_refused("tenon/model.h", text.replace("TENON_INIT_MODULE = 6", "TENON_INIT_MODULE = 7"),
                                "a constant")
        assert "constant TENON_INIT_MODULE differs" in output, output
        text = (copy / "include/tenon/loss.h").read_text()
        output = expect_refused("tenon/loss.h", text.replace("Threads  [step], after `compute`",
                                                             "Threads  [any], after `compute`"), "a thread role")
        assert "struct tenon_loss differs: backward" in output, output
        text = (copy / "include/tenon/tokenizer.h").read_text()
        output = expect_refused("tenon/tokenizer.h", text.replace("const int32_t* ids, size_t n", "const int32_t* ids, int n"),
                                "a type of functions")
        assert "function type tenon_ids_sink differs" in output, output
        text = (copy / "include/tenon/op.h").read_text()
        output = expect_refused("tenon/op.h", text.replace("const int64_t* ints;", "const int32_t* ints;"), "a union")
        assert "struct tenon_any differs: v" in output, output
    print(f"{num_changes} changes of the headers were noticed")


if __name__ == "__main__":
    main()
