# SPDX-License-Identifier: Apache-2.0
"""The fastest of several products of two square fp32 matrices, by PyTorch's BLAS and by oneDNN.

usage: sgemm_peer.py THREADS SIZE REPEATS     (prints a line of JSON: operations per second, and per second of CPU time)
"""
import json
import sys
import time

import torch

from onednn import eager_product

threads, size, repeats = (int(word) for word in sys.argv[1:4])
torch.set_num_threads(threads)
a, b = torch.randn(size, size), torch.randn(size, size)
seconds, cpu_seconds = {}, {}
with torch.no_grad():
    for i in range(repeats + 1):
        for name, product in (("blas", torch.mm), ("onednn", eager_product)):
            begin, cpu_begin = time.monotonic(), time.process_time()
            product(a, b)
            if i > 0:  # the first one is not counted
                seconds.setdefault(name, []).append(time.monotonic() - begin)
                cpu_seconds.setdefault(name, []).append(time.process_time() - cpu_begin)
operations = 2 * size**3
print(json.dumps({"rate": {name: operations / min(found) for name, found in seconds.items()},
                  "cpu_rate": {name: operations / min(found) for name, found in cpu_seconds.items()}}))
