# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel of a tree: the package `tenon`, which starts the program and has no other Python.

The program finds libtorch in the package `torch` beside it, by a relative path.
"""

import base64
import hashlib
import io
import os
import time
import zipfile

from archive import files_below, is_program
from tree import NEWEST_VERSIONS

GLIBC = NEWEST_VERSIONS["GLIBC"]
_TAG = f"py3-none-manylinux_{GLIBC[0]}_{GLIBC[1]}_x86_64"

_INIT = '''# SPDX-License-Identifier: Apache-2.0
"""Starts the program `tenon` of this package. See `tenon --help`."""

import os
import sys

__version__ = "{version}"

PREFIX = os.path.dirname(os.path.abspath(__file__))
_GLIBC = {glibc}


def _check_system():
    """Says what is missing: the loader of an older system names a symbol only."""
    try:
        found = os.confstr("CS_GNU_LIBC_VERSION").split()[-1]
        is_old = tuple(int(part) for part in found.split(".")[:2]) < _GLIBC
    except (AttributeError, ValueError, OSError):  # another C library
        found, is_old = "another C library", True
    if is_old:
        needed = ".".join(str(part) for part in _GLIBC)
        sys.exit(f"tenon: needs glibc {{needed}} or newer (found {{found}})")


def main():
    """Replaces this process by the program, with the same arguments."""
    _check_system()
    program = os.path.join(PREFIX, "bin", "tenon")
    os.execv(program, ["tenon", *sys.argv[1:]])
'''

_MAIN = """# SPDX-License-Identifier: Apache-2.0
from tenon import main

main()
"""

_METADATA = """Metadata-Version: 2.1
Name: tenon
Version: {version}
Summary: Trains the model that a recipe describes
License: Apache-2.0
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Requires-Python: >=3.10
Requires-Dist: torch=={torch}
Description-Content-Type: text/markdown

Tenon is a native training program for PyTorch models. A recipe in JSON names the components of a
run, which are plugins behind a C interface. This wheel has the program `tenon`, its plugins,
recipes, and the SDK for plugins. It uses the libtorch of the package torch, for CPUs or for CUDA.
"""

_WHEEL = """Wheel-Version: 1.0
Generator: tenon
Root-Is-Purelib: false
Tag: {tag}
"""


def write_wheel(tree, folder, level):
    """Writes the wheel of `tree`, which has bin/, include/, lib/ and share/; returns its path."""
    build = tree.build
    name = f"tenon-{build.version}"
    info = f"{name}.dist-info"
    texts = {
        "tenon/__init__.py": _INIT.format(version=build.version, glibc=GLIBC),
        "tenon/__main__.py": _MAIN,
        f"{info}/METADATA": _METADATA.format(version=build.version, torch=build.torch_version),
        f"{info}/WHEEL": _WHEEL.format(tag=_TAG),
        f"{info}/entry_points.txt": "[console_scripts]\ntenon = tenon:main\n",
        f"{info}/licenses/LICENSE": open(os.path.join(build.source, "LICENSE")).read(),
    }
    files = {f"tenon/{path}": os.path.join(tree.root, path) for path in files_below(tree.root)}
    out = os.path.join(folder, f"{name}-{_TAG}.whl")
    record = []
    # Zip stores times in two seconds, from 1980.
    times = max(time.gmtime(build.epoch)[:6], (1980, 1, 1, 0, 0, 0))
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=min(level, 9)) as wheel:

        def add(path, content, mode):
            entry = zipfile.ZipInfo(path, times)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100000 | mode) << 16
            digest = hashlib.sha256()
            size = 0
            with wheel.open(entry, "w") as target:
                while part := content.read(1 << 20):
                    digest.update(part)
                    size += len(part)
                    target.write(part)
            text = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={text},{size}\n")

        for path in sorted(
            [*files, *[t for t in texts if t.startswith("tenon/")]], key=os.fsencode
        ):
            if path in texts:
                add(path, io.BytesIO(texts[path].encode()), 0o644)
            else:
                with open(files[path], "rb") as file:
                    add(path, file, 0o755 if is_program(files[path]) else 0o644)
        for path in sorted(t for t in texts if t.startswith(info)):
            add(path, io.BytesIO(texts[path].encode()), 0o644)
        record.append(f"{info}/RECORD,,\n")
        entry = zipfile.ZipInfo(f"{info}/RECORD", times)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.create_system = 3
        entry.external_attr = (0o100000 | 0o644) << 16
        wheel.writestr(entry, "".join(record))
    return out
