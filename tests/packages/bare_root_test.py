#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs packages in a bare Debian without network, uses them, and removes them without a trace.

    python3 tests/packages/bare_root_test.py [--suite SUITE]... [--kind KIND]... [--only TEXT] [PART...]

PART is

    times    train the quickstart's first step; print how long it took from the package on
    plugins  make, build, check and train a plugin of each template, with the system's compilers, and
             install a package of a plugin
    guide    follow the pages of the plugin guide, as tests/docs/guide_test.py does
    old      be rejected by a system with an older glibc; only in a suite before bookworm

By default all parts run that the cached systems allow. It needs root, the systems of make_root.sh, and
the packages of ./dev package in build/packages.
"""

import argparse
import os
import pathlib
import re
import shutil
import sys
import time
import traceback
import zipfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests/docs")]
from bare_root import HOME, PIP, BareRoot, Installation, root_file  # noqa: E402
from follow_page import differences, in_order, script_of, steps_of  # noqa: E402

SKIPPED = 77
KINDS = ("archive", "deb", "wheel")
GOALS_S = {"archive": 15, "deb": 30, "wheel": 60}
OLD = ("bullseye",)  # glibc 2.31
COMMANDS = "\nbuild it, test it and train with it:\n"


def check(is_true, message):
    if not is_true:
        raise AssertionError(message)


class Removed:
    """Checks at its end that an installation has left nothing."""

    def __init__(self, root, installation, with_sdk):
        self.root, self.installation, self.with_sdk = root, installation, with_sdk

    def __enter__(self):
        self.installation.copy_into(self.root)
        self.before = self.root.files()
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None:
            return
        self.installation.remove(self.root, self.with_sdk)
        left = sorted(
            path
            for path in self.root.files() ^ self.before
            if not self.installation.is_foreign(path)
        )
        check(not left, "the removal has left or removed:\n" + "\n".join(left[:40]))


def program_of(prefix):
    return f"{prefix}/bin/tenon"


def times(suite, kind, given):
    with BareRoot(suite, with_tools=False) as root:
        installation = Installation(kind, given.packages)
        prefix = installation.prefix(root)
        with Removed(root, installation, with_sdk=False):
            os.sync()
            began = time.monotonic()
            installation.install(root, with_sdk=False)
            installed = time.monotonic()
            recipes = f"{prefix}/share/tenon/recipes"
            root.run(
                f"{program_of(prefix)} --recipe {recipes}/quickstart.json --set train.steps=1 "
                "--set eval.at_end=false --quiet",
                "you",
            )
            ended = time.monotonic()
            root.run(f"{program_of(prefix)} --recipe {recipes}/iris.json --quiet", "you")
        if kind != "wheel":  # the archive or the package, unpacked for this run alone
            shutil.copy(ROOT / "dev", root.folder / HOME[1:])
            file = f"/packages/{installation.files[0].name}"
            root.run(f"./dev quickstart --package {file} --set train.steps=1 --quiet", "you")
    return (
        f"installed in {installed - began:.1f} s, first step after {ended - began:.1f} s "
        f"(goal: {GOALS_S[kind]} s), removed without a trace"
    )


def variants(root, prefix):
    """Kind and language of each folder KIND-LANGUAGE of the installed templates."""
    found = []
    for name in root.run(f"ls {prefix}/share/tenon/templates").split():
        kind, _, language = name.partition("-")
        if language:
            found.append((kind, re.sub("^cpp", "c++", language)))
    return sorted(found)


def make_plugin(root, program, kind, language):
    """Makes a project and runs the commands that the program prints."""
    name, folder = f"own_{kind}", f"{kind}-{language}"
    made = root.run(
        f"cd ~/plugins; {program} --new-plugin {kind} {name} --lang {language} --dir {folder}",
        "you",
    )
    check(COMMANDS in made, f"--new-plugin prints no commands:\n{made}")
    printed = root.run("cd ~/plugins\n" + made.split(COMMANDS)[1], "you")
    for pattern in (rf"{name}_checks \.+ +Passed", "100% tests passed", r"\ndone: reached "):
        check(re.search(pattern, printed), f"`{pattern}` was not printed:\n{printed[-4000:]}")


def plugins(suite, kind, given):
    with BareRoot(suite, with_tools=True) as root:
        installation = Installation(kind, given.packages)
        prefix = installation.prefix(root)
        root.run("mkdir ~/plugins", "you")
        with Removed(root, installation, with_sdk=True):
            installation.install(root)
            made = []
            for component, language in variants(root, prefix):
                if given.only in f"{component}-{language}":
                    began = time.monotonic()
                    make_plugin(root, program_of(prefix), component, language)
                    print(f"  {component} in {language}: {time.monotonic() - began:.0f} s")
                    made.append(language)
            if not given.only:
                package_of_plugin(root, installation, prefix)
    return f"{len(made)} templates build, pass their checks and train; removed without a trace"


def package_of_plugin(root, installation, prefix):
    """Builds the plugin of this folder, packs it as a team would, and installs the package."""
    project = root.folder / HOME[1:] / "packaged"
    shutil.copytree(HERE / "plugin", project)
    shutil.copy(ROOT / "tests/support/plugins/plain_loss.c", project)
    root.run(f"chown -R you {HOME}/packaged")
    root.run(
        f"cd ~/packaged; cmake -B build -DCMAKE_PREFIX_PATH={prefix}; cmake --build build", "you"
    )
    listed = f"{program_of(prefix)} --list-plugins"
    if installation.kind == "archive":
        root.run("cd ~/packaged; cmake --install build --prefix ~/tenon", "you")
        remove = f"rm {prefix}/lib/tenon/plugins/plain_loss.so"
    elif installation.kind == "deb":
        root.run("cd ~/packaged/build; cpack", "you")
        root.run(f"apt-get install -y {HOME}/packaged/build/packaged-*.deb")
        remove = "apt-get purge -y packaged"
    else:
        write_wheel(project)
        root.run(f"pip install {PIP} --no-index {HOME}/packaged/packaged-*.whl")
        remove = f"pip uninstall {PIP} -y packaged"
    check("loss:plain_loss" in root.run(listed, "you"), "the plugin of the package was not found")
    root.run(remove)
    check("loss:plain_loss" not in root.run(listed, "you"), "the plugin is still found")


def write_wheel(project):
    """What a build tool of Python writes if it is told where the plugin belongs."""
    info = "packaged-0.1.0.dist-info"
    texts = {
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: packaged\nVersion: 0.1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n",
    }
    plugin = "tenon/lib/tenon/plugins/plain_loss.so"
    with zipfile.ZipFile(project / "packaged-0.1.0-py3-none-any.whl", "w") as wheel:
        wheel.write(project / "build/plugins/plain_loss.so", plugin)
        for path, text in texts.items():
            wheel.writestr(path, text)
        names = [plugin, *texts, f"{info}/RECORD"]
        wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in names))


def guide(suite, kind, given):
    with BareRoot(suite, with_tools=True) as root:
        installation = Installation(kind, given.packages)
        prefix = installation.prefix(root)
        followed = 0
        with Removed(root, installation, with_sdk=True):
            if kind == "archive":  # the guide's own commands install it
                shutil.copy(installation.files[0], root.folder / HOME[1:])
            else:
                installation.install(root)
            for page in in_order((ROOT / "docs/plugin-guide").glob("*.md")):
                if given.only in page.name:
                    followed += follow(page, root, kind, prefix)
            compare_pages(root, kind, prefix)
    return f"the commands of {followed} pages print what the pages show; removed without a trace"


def follow(page, root, kind, prefix):
    """Follows a page, in the paths of an installation. Returns 0 if it has no command, else 1."""
    text = page.read_text(encoding="utf-8")
    if kind != "archive":
        text = text.replace("$HOME/tenon", prefix).replace(f"{HOME}/tenon", prefix)
    steps = [step for step in steps_of(text) if kind == "archive" or not step.is_installation]
    if not steps:
        return 0
    path = f"export PATH={prefix}/bin:$PATH\n"  # as the first page says
    status, printed = root.start(path + script_of(steps), "you")
    problems = differences(steps, printed)
    check(status == 0 and not problems, f"{page.name}:\n{'; '.join(problems)}\n{printed[-3000:]}")
    return 1


def compare_pages(root, kind, prefix):
    """The guide that is installed is the guide that was followed."""
    docs = root.folder / f"{prefix}/share/doc/tenon{'-dev' if kind == 'deb' else ''}"[1:]
    for page in (ROOT / "docs/plugin-guide").glob("*.md"):
        installed = docs / "plugin-guide" / page.name
        check(installed.exists(), f"{installed} does not exist")
        check(
            steps_of(installed.read_text(encoding="utf-8"))
            == steps_of(page.read_text(encoding="utf-8")),
            f"{installed} is not the page of this checkout",
        )


def old(suite, kind, given):
    with BareRoot(suite, with_tools=False) as root:
        installation = Installation(kind, given.packages)
        if kind == "wheel":  # without torch, whose wheel runs there
            shutil.copy(installation.files[0], root.folder / "packages")
            status, printed = root.start("pip install --no-deps /packages/*.whl")
            wanted = "is not a supported wheel on this platform"
        else:
            installation.copy_into(root)
            if kind == "archive":
                installation.install(root)
                status, printed = root.start("~/tenon/bin/tenon --version", "you")
                wanted = "version `GLIBC_2.35' not found"
            else:
                status, printed = root.start("apt-get install -y /packages/tenon_*.deb")
                wanted = "Depends: libc6 (>= 2.35)"
        check(status != 0 and wanted in printed, f"`{wanted}` was not printed:\n{printed}")
    lines = [line.strip() for line in printed.splitlines() if wanted in line]
    return f"rejected: {lines[0]}"


PARTS = {"times": times, "plugins": plugins, "guide": guide, "old": old}


def why_not(part, suite, kind, given):
    """Why a part cannot run; "" if it can."""
    if (part == "old") != (suite in OLD):
        return "not for this suite"
    tar = root_file(suite, with_tools=part in ("plugins", "guide"))
    if not tar.exists():
        return f"{tar} does not exist; run tests/packages/make_root.sh {suite}"
    sums = given.packages / "SHA256SUMS"
    if not sums.exists():
        return f"{given.packages} has no packages; run ./dev package"
    program = given.packages.parent / "bin/host"
    if program.exists() and sums.stat().st_mtime < program.stat().st_mtime:
        return f"the packages in {given.packages} are older than the build; run ./dev package"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--suite", action="append", help="default: bookworm, trixie, bullseye")
    parser.add_argument("--kind", action="append", choices=KINDS, help="default: all")
    parser.add_argument("--only", default="", help="only templates or pages whose name has this")
    parser.add_argument("--packages", type=pathlib.Path, default=ROOT / "build/packages")
    given = parser.parse_args()
    unknown = [part for part in given.parts if part not in PARTS]
    if unknown:
        parser.error(f"unknown part: {unknown[0]} (expected {', '.join(PARTS)})")
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        print("skipped: it needs root and the program unshare")
        return SKIPPED
    ran, failed, reasons = 0, 0, []
    for suite in given.suite or ("bookworm", "trixie", *OLD):
        for part in given.parts or PARTS:
            for kind in given.kind or KINDS:
                reason = why_not(part, suite, kind, given)
                if reason:
                    reasons.append(reason)
                    continue
                ran += 1
                try:
                    print(f"{suite} {kind} {part}: {PARTS[part](suite, kind, given)}", flush=True)
                except Exception:  # the next one is to run
                    failed += 1
                    print(f"{suite} {kind} {part}: FAILED\n{traceback.format_exc()}", flush=True)
    if ran == 0:
        print(f"skipped: {reasons[0]}")
        return SKIPPED
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
