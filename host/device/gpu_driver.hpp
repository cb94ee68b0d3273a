// SPDX-License-Identifier: Apache-2.0
//
// Asks the CUDA driver for the number of GPUs, without linking CUDA: the call loads the driver's
// library. This takes milliseconds; loading libtorch's CUDA takes seconds.

#pragma once

#include <string>

namespace tenon {

struct GpuDriver {
  bool is_there = false;
  int num_gpus = 0;
  std::string problem;  // "" if there are usable GPUs, else why there are none
};

// Threads  [main]: the driver starts threads, and processes forked later must not use it
GpuDriver ask_gpu_driver(const std::string& library = "libcuda.so.1");

}  // namespace tenon
