# SPDX-License-Identifier: Apache-2.0
"""The machine, the commit and the versions behind a measurement."""
import datetime
import os
import platform
import subprocess

import programs

PEER_PACKAGES = ("torch", "lightning", "transformers", "fbgemm-gpu-cpu", "torchrec")


def cpu():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def memory_gib():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def system():
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (AttributeError, OSError, KeyError):
        return platform.platform()


def load():
    """The load average of the last minute."""
    return os.getloadavg()[0]


def commit(root):
    """The commit of a checkout, with a note if tracked files differ from the commit."""
    def git(*words):
        return subprocess.run(["git", "-C", root, *words], check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True).stdout.strip()
    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short", "HEAD") + (" with uncommitted changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def peers():
    if not programs.has_peers():
        return "not installed"
    ask = ("import importlib.metadata as m, platform; print(', '.join(['Python ' + platform.python_version()] "
           f"+ [n + ' ' + m.version(n) for n in {PEER_PACKAGES}]))")
    return programs.run([programs.PYTHON, "-B", "-c", ask]).strip()


def libraries():
    """libtorch and its math libraries, as the program `bare_mlp` finds them at run time."""
    found = programs.last_line(programs.run([programs.FOLDER / "bare_mlp", "libraries"]))
    return f"libtorch {found['libtorch']}; BLAS: {found['blas']}; {found['onednn']}; vectors: {found['vectors']}"


def describe():
    """From each property to its text."""
    version = programs.run([programs.OURS.build / "bin/host", "--version"]).strip().replace("\n", "; ")
    return {
        "CPU": f"{cpu()}, {len(os.sched_getaffinity(0))} cores",
        "memory": f"{memory_gib():.0f} GiB",
        "system": system(),
        "commit": commit(programs.ROOT),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "Tenon": version,
        "libraries": libraries(),
        "peers": peers(),
    }


def markdown(properties):
    return "\n".join(["| | |", "|---|---|"] + [f"| {name} | {text} |" for name, text in properties.items()]) + "\n"
