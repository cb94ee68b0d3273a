// SPDX-License-Identifier: Apache-2.0
//
// Asks the CUDA driver how many GPUs there are, without CUDA: the driver's library is looked up
// when the question is asked. It takes milliseconds, where loading libtorch's CUDA takes seconds.

#pragma once

#include <string>

namespace tenon {

struct GpuDriver {
  bool is_there = false;
  int num_gpus = 0;
  std::string problem;  // "" if there are GPUs to use, else why not
};

// Threads  [main]: the driver starts threads, and no process may be forked off to use it afterwards
GpuDriver ask_gpu_driver(const std::string& library = "libcuda.so.1");

}  // namespace tenon
