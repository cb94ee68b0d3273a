# SPDX-License-Identifier: Apache-2.0
"""Times the steps of a peer, as stopwatch.hpp times the host: wall time, and CPU time of all threads, user and system."""
import json
import os
import pathlib
import time


class Clock:
    def __init__(self, warmup, steps):
        self.warmup, self.last = warmup, warmup + steps
        self.wall, self.cpu = {}, {}

    def tick(self, step):
        """After each step, from 1. Returns whether it was the last one."""
        if step in (1, self.warmup, self.last):
            self.wall[step], self.cpu[step] = time.monotonic(), time.process_time()
        return step == self.last

    def values(self):
        def per_step(times):
            return (times[self.last] - times[self.warmup]) / (self.last - self.warmup)

        # BENCH_STARTED_NS: when the process was started, by the same clock.
        started = int(os.environ.get("BENCH_STARTED_NS", self.wall[1] * 1e9)) * 1e-9
        return {"step_s": per_step(self.wall), "cpu_step_s": per_step(self.cpu), "first_step_s": self.wall[1] - started,
                "cpu_first_step_s": self.cpu[1], "peak_mib": peak_mib()}

    def report(self):
        print(json.dumps(self.values()), flush=True)


def peak_mib():
    """VmHWM: ru_maxrss would be inherited from the parent process."""
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024
