# SPDX-License-Identifier: Apache-2.0
"""A bare Debian below a temporary folder, and the three ways to install Tenon in it.

make_root.sh makes the tar files in the cache. A system has no network and sees nothing of this
machine except what is copied into it.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(
    os.environ.get("TENON_CACHE")
    or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tenon"
)
HOME = "/home/you"

_TAG = "import sys; print('cp%d%d' % sys.version_info[:2])"
PIP = "--quiet --root-user-action=ignore --break-system-packages"

# What changes while a system runs, and what belongs to its users.
_CHANGING = (
    "proc",
    "dev",
    "tmp",
    "packages",
    "home",
    "root",
    "var/log",
    "var/cache",
    "var/lib/apt",
    "var/lib/dpkg",
)


def root_file(suite, with_tools):
    return CACHE / "roots" / f"{suite}{'-tools' if with_tools else ''}.tar"


def locked_version(name):
    """The version of a wheel that ./dev deps installs."""
    text = (HERE.parents[1] / "cmake/deps.lock").read_text(encoding="utf-8")
    return re.search(rf"^{name}==(\S+)", text, re.MULTILINE).group(1)


class BareRoot:
    """A system, until it is closed."""

    def __init__(self, suite, with_tools):
        self.suite = suite
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"tenon-{suite}-"))
        self.folder.chmod(0o755)
        subprocess.run(["tar", "-C", self.folder, "-xf", root_file(suite, with_tools)], check=True)
        (self.folder / "packages").mkdir()
        self.run("useradd --create-home --shell /bin/sh you")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        shutil.rmtree(self.folder)

    def start(self, script, user="root"):
        """Runs a script; returns its exit status and what it printed."""
        result = subprocess.run(
            ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"]
            + [sys.executable, "-B", HERE / "enter_root.py", self.folder, user, script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return result.returncode, result.stdout

    def run(self, script, user="root"):
        """Runs a script that must succeed; returns what it printed."""
        status, printed = self.start("set -e\n" + script, user)
        if status != 0:
            raise AssertionError(f"{script}\nended with status {status}:\n{printed[-4000:]}")
        return printed

    def files(self):
        """The paths of all files and folders that installing and removing may touch."""
        found = set()
        for base, folders, names in os.walk(self.folder):
            below = os.path.relpath(base, self.folder)
            folders[:] = [
                name
                for name in folders
                if os.path.normpath(os.path.join(below, name)) not in _CHANGING
                and name != "__pycache__"
            ]
            found |= {os.path.normpath(os.path.join(below, name)) for name in folders + names}
        return found


class Installation:
    """One kind of package: the files to copy, and how to install, find and remove it."""

    def __init__(self, kind, packages):
        self.kind = kind
        if kind == "archive":
            self.files = _only(packages, "tenon-*-linux-x86_64.tar.zst")
        elif kind == "deb":
            self.files = _only(packages, "tenon_*_amd64.deb") + _only(
                packages, "tenon-dev_*_amd64.deb"
            )
        elif kind == "wheel":
            self.files = _only(packages, "tenon-*.whl")
        else:
            raise SystemExit(f"{kind} is not archive, deb or wheel")

    def copy_into(self, root):
        """Copies the packages. A wheel also needs those of libtorch, for the system's Python."""
        files = list(self.files)
        if self.kind == "wheel":
            tag = root.run(f'python3 -c "{_TAG}"').strip()
            for name, tags in (
                ("torch", f"{tag}-{tag}-*"),
                ("nvidia-cuda-runtime", "*"),
                ("nvidia-cuda-cupti", "*"),
            ):
                pattern = f"{name.replace('-', '_')}-{locked_version(name)}-{tags}.whl"
                files += _only(CACHE / "wheels", pattern)
        for file in files:
            shutil.copy(file, root.folder / "packages")

    def install(self, root, with_sdk=True):
        if self.kind == "archive":
            root.run(
                "mkdir -p ~/tenon\n"
                "tar --zstd --strip-components=1 -C ~/tenon -xf /packages/tenon-*-x86_64.tar.zst",
                "you",
            )
        elif self.kind == "deb":
            debs = "/packages/tenon_*.deb" + with_sdk * " /packages/tenon-dev_*.deb"
            root.run(f"apt-get install -y {debs}")
        else:  # without the packages that torch needs for Python and for GPUs
            root.run(f"pip install {PIP} --no-index --no-deps --no-compile /packages/*.whl")

    def prefix(self, root):
        if self.kind == "archive":
            return f"{HOME}/tenon"
        if self.kind == "deb":
            return "/usr"
        where = "import sysconfig; print(sysconfig.get_path('platlib'))"
        return root.run(f'python3 -c "{where}"').strip() + "/tenon"

    def remove(self, root, with_sdk=True):
        if self.kind == "archive":
            root.run("rm -r ~/tenon", "you")
        elif self.kind == "deb":
            root.run("apt-get purge -y tenon" + with_sdk * " tenon-dev")
        else:
            names = "tenon torch nvidia-cuda-runtime nvidia-cuda-cupti"
            root.run(f"pip uninstall {PIP} -y {names}")

    def is_foreign(self, path):
        """Whether pip and the wheels of others leave a path after their removal."""
        is_left = "dist-packages/nvidia" in path or path.endswith("local/bin")
        return self.kind == "wheel" and is_left


def _only(folder, pattern):
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"{folder} has {len(found)} files {pattern}, expected one")
    return found
