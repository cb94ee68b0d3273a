# SPDX-License-Identifier: Apache-2.0
"""The machine, the commit and the versions behind a measurement, and what else ran on the machine meanwhile."""
import datetime
import os
import platform
import re
import resource
import subprocess
import time

import cpu
import programs

PEER_PACKAGES = ("torch", "lightning", "transformers", "trl", "fbgemm-gpu-cpu", "torchrec")
SHARED_ABOVE = 0.05  # share of the processors' time that others may take before goals count by CPU time


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


def own_cpu_s():
    """CPU time of this process and of all its children that ended."""
    return sum(usage.ru_utime + usage.ru_stime for usage in
               (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def busy_cpu_s():
    """CPU time that all processes of the machine have taken, with what a hypervisor took from it."""
    with open("/proc/stat", encoding="ascii") as lines:
        user, nice, system_time, _idle, _wait, irq, softirq, steal = (int(word) for word in next(lines).split()[1:9])
    return (user + nice + system_time + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class Watch:
    """What other processes take while a workload is measured."""

    def __init__(self):
        self.load = load()
        self.begin = (time.monotonic(), busy_cpu_s(), own_cpu_s())

    def others(self):
        """Their share of the time of all processors, from 0 to 1."""
        wall, busy, own = (now - then for now, then in
                           zip((time.monotonic(), busy_cpu_s(), own_cpu_s()), self.begin))
        return min(1, max(0, (busy - own) / (wall * os.cpu_count())))

    def text(self, others):
        return (f"Load average {self.load:.1f} before, {load():.1f} after; other processes took {100 * others:.0f}% of the "
                "processors' time.")


def commit(root):
    """The commit of a checkout, with a note if tracked files differ from the commit. Pages do not count: a measurement
    writes them."""
    def git(*words):
        return subprocess.run(["git", "-C", root, *words], check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True).stdout.strip()
    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs")
        return git("rev-parse", "--short", "HEAD") + (" with uncommitted changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def date():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def short_blas(text):
    """"MKL 2024.2" of the name that MKL gives itself; other texts as they are."""
    found = re.search(r"Math Kernel Library Version (\d+(?:\.\d+)*)", text)
    return f"MKL {found[1]}" if found else text


def short_onednn(text):
    """"oneDNN 3.10.2" of "Intel(R) MKL-DNN v3.10.2 (Git Hash ...)"."""
    found = re.search(r"MKL-DNN v(\d+(?:\.\d+)*)", text)
    return f"oneDNN {found[1]}" if found else text


def peers():
    """The packages of the peers, and their math libraries."""
    if not programs.has_peers():
        return {"peers": "not installed"}
    ask = ("import importlib.metadata as m, json, platform, torch; print(json.dumps(dict(packages=', '.join("
           f"['Python ' + platform.python_version()] + [n + ' ' + m.version(n) for n in {PEER_PACKAGES}]), "
           "config=torch.__config__.show(), vectors=torch.backends.cpu.get_cpu_capability())))")
    found = programs.last_line(programs.run([programs.PYTHON, "-B", "-c", ask]))
    blas, onednn = (next((short(line.strip(" -")) for line in found["config"].splitlines() if word in line), f"no {word}")
                    for word, short in (("Math Kernel Library", short_blas), ("MKL-DNN", short_onednn)))
    return {"peers": found["packages"], "peers' BLAS": f"{blas}, {onednn}; vectors: {found['vectors']}"}


def libraries():
    """libtorch and its math libraries, as the program `bare_mlp` finds them at run time."""
    found = programs.last_line(programs.run([programs.FOLDER / "bare_mlp", "libraries"]))
    return (f"libtorch {found['libtorch']}: {short_blas(found['blas'])}, {short_onednn(found['onednn'])}; vectors: "
            f"{found['vectors']}; products: the fastest of both and Tenon's kernels, by measurement")


def describe():
    """From each property to its text."""
    version = programs.run([programs.OURS.build / "bin/host", "--version"]).strip().replace("\n", "; ")
    processor = cpu.read()
    switches = cpu.switches_set(os.environ)
    return {
        "CPU": processor.text(),
        "instruction sets": processor.sets_text(),
        **({"limited by": ", ".join(f"`{switch}`" for switch in switches)} if switches else {}),
        "memory": f"{memory_gib():.0f} GiB",
        "system": system(),
        "commit": commit(programs.ROOT),
        "date": date(),
        "Tenon": version,
        "Tenon's BLAS": libraries(),
        **peers(),
    }


def markdown(properties):
    return "\n".join(["| | |", "|---|---|"] + [f"| {name} | {text} |" for name, text in properties.items()]) + "\n"
