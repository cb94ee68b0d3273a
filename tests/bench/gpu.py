# SPDX-License-Identifier: Apache-2.0
"""Whether there is a GPU to measure on. What is measured there comes with the host's use of GPUs."""
import ctypes

import programs
from table import Row

WHAT = "on a GPU: `llama` of 125 M parameters, bf16, against eager PyTorch and torch.compile"
GOAL = "at least 1.1 and 0.95"


def num_devices():
    """What CUDA's driver says; 0 where there is no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def measure(quick):
    programs.say("gpu: looking for a device")
    devices = num_devices()
    why = f"the host uses none of the {devices} devices yet" if devices else "no CUDA device"
    return [Row(WHAT, GOAL, f"skipped: {why}", None)], {"devices": devices}
