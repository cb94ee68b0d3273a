#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sdk/rust/tenon_abi.rs is what abi.json generates, and Rust lays its structs out as C does. The compiler refuses a
declaration that differs from abi.json: two fields swapped, a field of another width, a struct with another size.

    rust_abi_test.py RUSTC PROBLEM

PROBLEM states why there is no compiler, or is empty.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

SDK = pathlib.Path(__file__).resolve().parents[2] / "sdk"


def compiled(text):
    """What the compiler says of the declarations; "" if they compile."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "tenon_abi.rs"
        source.write_text(text)
        words = [sys.argv[1], "--edition", "2021", "--crate-type", "rlib", "--emit", "metadata", "-D", "warnings",
                 "--out-dir", folder, source]
        run = subprocess.run(words, capture_output=True, text=True)
        assert (run.returncode == 0) == (run.stderr == ""), run.stderr
        return run.stderr


def replaced(text, pattern, new):
    changed, count = re.subn(pattern, new, text)
    assert count == 1, pattern
    return changed


def main():
    run = subprocess.run([sys.executable, "-B", SDK / "abi/rust_declarations.py", "--check"])
    assert run.returncode == 0
    if sys.argv[2]:
        print(f"skipped: the declarations need rustc, {sys.argv[2]}")
        sys.exit(77)
    text = (SDK / "rust/tenon_abi.rs").read_text()
    assert compiled(text) == ""
    changes = {
        "dtype has another offset in C": [
            r"(    pub dtype: u32,\n)(    /// 0 for a scalar\n    pub ndim: u32,\n)", r"\2\1"],
        "is_contiguous has another size in C": [r"(    pub is_contiguous: )u32", r"\1u8"],
        "SIZE == 40": [r"(pub struct tenon_loss \{\n)", r"\1    pub added: u64,\n"],
    }
    for says, (pattern, new) in changes.items():
        output = compiled(replaced(text, pattern, new))
        assert says in output, f"{says}: {output}"
    print(f"the declarations compile; {len(changes)} changes of them do not")


if __name__ == "__main__":
    main()
