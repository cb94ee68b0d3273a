#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes packages of a build; `./dev package` calls it.

    python3 packaging/package.py --build build --out build/packages [archive] [sdk] [deb] [wheel]

The bits of a package depend on the sources, the libraries and the tools alone: not on folder, day
or user. Times are those of SOURCE_DATE_EPOCH, by default the last commit's.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from archive import digest_of, write_archive  # noqa: E402
from components import Origins  # noqa: E402
from debian import write_deb  # noqa: E402
from tree import CUDA_MODULE, Build, Tree  # noqa: E402
from wheel import write_wheel  # noqa: E402

KINDS = ("archive", "sdk", "deb", "wheel")

# Libraries that the wheel of torch brings. Plugins and modules find them in the program's process.
TORCH_LIBRARIES = (
    "libtorch_cpu.so",
    "libc10.so",
    "libgomp.so.1",
    "libtorch_cuda.so",
    "libc10_cuda.so",
)


def git(source, *words):
    result = subprocess.run(["git", "-C", source, *words], capture_output=True, text=True)
    return result.stdout.strip() if result.returncode == 0 else ""


def epoch_of(source):
    text = os.environ.get("SOURCE_DATE_EPOCH") or git(source, "log", "-1", "--format=%ct")
    if not text.isdigit():
        raise SystemExit(
            "package: the time of the last commit is unknown outside a git checkout; set "
            "SOURCE_DATE_EPOCH"
        )
    return int(text)


def commit_of(source):
    commit = git(source, "rev-parse", "HEAD") or "unknown"
    return commit + ("-modified" if git(source, "status", "--porcelain") else "")


def read_build(folder, source, wheels):
    if not os.path.exists(os.path.join(folder, "bin/host")):
        raise SystemExit(f"package: {folder} has no bin/host; run ./dev build")
    with open(os.path.join(folder, "CMakeCache.txt")) as file:
        cache = dict(re.findall(r"^(\w+):\w+=(.*)$", file.read(), re.MULTILINE))
    if cache.get("TENON_SANITIZE") or cache.get("CMAKE_BUILD_TYPE") not in (
        "RelWithDebInfo",
        "Release",
    ):
        raise SystemExit(f"package: {folder} is not a release build; run ./dev build release")
    if cache.get("CMAKE_INSTALL_LIBDIR", "lib") != "lib":
        raise SystemExit(
            f"package: {folder} installs libraries to {cache['CMAKE_INSTALL_LIBDIR']}; "
            "configure with -DCMAKE_INSTALL_LIBDIR=lib"
        )
    with open(os.path.join(folder, "generated/include/tenon_build.hpp")) as file:
        facts = dict(re.findall(r'(k\w+)\[\] = "([^"]*)"', file.read()))
    deps = cache.get("TENON_DEPS") or os.path.join(source, ".deps")
    return Build(
        folder=folder,
        source=source,
        version=facts["kVersion"],
        torch=os.path.realpath(os.path.join(folder, "lib/libtorch")),
        torch_version=facts["kTorchVersion"],
        cuda_major="".join(re.findall(r";cuda=(\d+)\.", facts["kTorchFingerprint"])),
        commit=commit_of(source),
        epoch=epoch_of(source),
        origins=Origins(source, deps, wheels),
    )


def make_full_tree(build, root):
    """Program, plugins, SDK and libraries: all that needs nothing but the base system."""
    tree = Tree(build, root)
    tree.add_program()
    tree.add_sdk()
    tree.add_docs()
    tree.remove(CUDA_MODULE)  # it needs libtorch_cuda and 2 GB of NVIDIA's libraries
    tree.add_libraries()
    tree.add_torch_headers()
    tree.finish()
    return tree


def make_sdk_tree(build, root, with_torch=False):
    tree = Tree(build, root)
    tree.add_sdk()
    tree.add_docs()
    if with_torch:
        tree.add_torch_headers()
    tree.finish()
    return tree


def make_program_tree(build, root):
    tree = Tree(build, root)
    tree.add_program()
    tree.add_docs()
    tree.remove(CUDA_MODULE)
    tree.add_libraries()
    tree.finish()
    return tree


def make_wheel_tree(build, root):
    tree = Tree(build, root)
    tree.add_program()
    tree.add_sdk()
    tree.add_docs()
    runtime = (f"libcudart.so.{build.cuda_major}",) if build.cuda_major else ()
    tree.add_libraries(others=TORCH_LIBRARIES + runtime)
    tree.set_library_path("bin/tenon", "$ORIGIN/../lib/tenon:$ORIGIN/../../torch/lib")
    if os.path.exists(tree.path(CUDA_MODULE)):
        tree.set_library_path(CUDA_MODULE, "$ORIGIN/../../../torch/lib")
    tree.finish()
    return tree


def make(kind, build, scratch, out, level):
    """Makes one kind of package; returns its files."""
    place = os.path.join(scratch, kind)
    name = f"tenon-{build.version}-linux-x86_64"
    if kind == "archive":
        make_full_tree(build, place)
        files = [os.path.join(out, f"{name}.tar.zst")]
        write_archive(place, name, files[0], build.epoch, level)
    elif kind == "sdk":
        make_sdk_tree(build, place)
        files = [os.path.join(out, f"tenon-sdk-{build.version}.tar.zst")]
        write_archive(place, f"tenon-sdk-{build.version}", files[0], build.epoch, level)
    elif kind == "deb":
        files = [
            os.path.join(out, f"tenon_{build.version}_amd64.deb"),
            os.path.join(out, f"tenon-dev_{build.version}_amd64.deb"),
        ]
        write_deb(make_program_tree(build, place), "tenon", files[0], level)
        write_deb(
            make_sdk_tree(build, place + "-dev", with_torch=True), "tenon-dev", files[1], level
        )
    else:
        files = [write_wheel(make_wheel_tree(build, place), out, level)]
    shutil.rmtree(place)
    return files


def main():
    parser = argparse.ArgumentParser(prog="package", description="Make packages of a build.")
    parser.add_argument(
        "kinds", nargs="*", metavar="KIND", help=f"{', '.join(KINDS)}; default: all"
    )
    parser.add_argument("--build", default="build", help="folder of a release build")
    parser.add_argument("--out", default="build/packages", help="folder for the packages")
    parser.add_argument(
        "--wheels",
        default=os.path.expanduser("~/.cache/tenon/wheels"),
        help="folder of the wheels that ./dev deps downloaded, for their licenses",
    )
    parser.add_argument(
        "--level", type=int, default=12, help="compression of zstd, 1 to 19; default: 12"
    )
    given = parser.parse_args()
    unknown = [kind for kind in given.kinds if kind not in KINDS]
    if unknown:
        parser.error(f"unknown package: {unknown[0]} (expected {', '.join(KINDS)})")
    if not 1 <= given.level <= 19:
        parser.error(f"--level is {given.level} (expected 1 to 19)")
    kinds = given.kinds or KINDS
    for tool, package in (
        ("zstd", "zstd"),
        ("strip", "binutils"),
        *([("dpkg-shlibdeps", "dpkg-dev")] if "deb" in kinds else []),
    ):
        if shutil.which(tool) is None:
            raise SystemExit(f"package: {tool} not found; install the Debian package {package}")
    os.umask(0o022)
    source = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    build = read_build(os.path.abspath(given.build), source, given.wheels)
    out = os.path.abspath(given.out)
    os.makedirs(out, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".staging-") as scratch:
        for kind in kinds:
            for file in make(kind, build, scratch, out, given.level):
                print(f"{os.path.getsize(file) / 1e6:9.1f} MB  {os.path.relpath(file)}", flush=True)
    with open(os.path.join(out, "SHA256SUMS"), "w") as sums:
        for name in sorted(os.listdir(out)):
            if name.endswith((".zst", ".deb", ".whl")):
                sums.write(f"{digest_of(os.path.join(out, name), 'sha256')}  {name}\n")


if __name__ == "__main__":
    main()
