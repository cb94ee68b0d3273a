// SPDX-License-Identifier: Apache-2.0
//
// Opens the device of a run, by its name in a recipe or on the command line.

#pragma once

#include "host/device/gpu.hpp"
#include "host/device/gpu_files.hpp"

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <string_view>

namespace tenon {

struct ComputeDevice {
  at::Device torch = at::kCPU;
  std::unique_ptr<Gpu> gpu;  // null on the CPU
  std::string warning;       // why "auto" does not use an existing GPU; else ""
};

// Opens a device by its name: "cpu", "cuda:N", "cuda" for "cuda:0", or "auto". "auto" selects the
// first GPU if it is usable, else the CPU.
//
// Errors   device.unavailable: the driver, GPU or module is missing, or the name is invalid
// Threads  [main], once, before the first operator and any other thread
ComputeDevice open_device(std::string_view name, const GpuFiles& files);

// Returns one line for display: the GPU, if any, and "2 threads, AVX512, MKL_CBWR=AUTO,STRICT".
std::string describe_device(const ComputeDevice& device);

}  // namespace tenon
