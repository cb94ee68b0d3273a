# SPDX-License-Identifier: Apache-2.0
"""The machine and the versions behind a table of figures, in one paragraph."""
import os
import platform
import subprocess

import programs

PEER_PACKAGES = ("torch", "lightning", "transformers")


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


def peers():
    if not programs.has_peers():
        return "no peers"
    ask = ("import importlib.metadata as m, platform; print(', '.join(['Python ' + platform.python_version()] "
           f"+ [n + ' ' + m.version(n) for n in {PEER_PACKAGES}]))")
    return "peers: " + programs.run([programs.PYTHON, "-c", ask]).strip()


def describe():
    version = subprocess.run([programs.BUILD / "bin/host", "--version"], check=True,
                             stdout=subprocess.PIPE, text=True).stdout.strip()
    return (f"{cpu()}, {len(os.sched_getaffinity(0))} cores, {memory_gib():.0f} GiB, {system()}; {version}; "
            f"{peers()}; load of the machine at the start {os.getloadavg()[0]:.1f}.")
