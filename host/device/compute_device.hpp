// SPDX-License-Identifier: Apache-2.0
//
// The device that a run computes on, by the name that a recipe or the command line gives it.

#pragma once

#include "host/device/gpu.hpp"
#include "host/device/gpu_places.hpp"

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <string_view>

namespace tenon {

struct ComputeDevice {
  at::Device torch = at::kCPU;
  std::unique_ptr<Gpu> gpu;  // null on the CPU
  std::string warning;       // why "auto" left a GPU that is there unused; else ""
};

// Opens the device that a name means: "cpu"; "cuda", which is "cuda:0"; "cuda:N"; "auto", which is
// the first GPU if there is one that can be used, and else the CPU.
//
// Errors   device.unavailable, with what is missing: driver, GPU, module, or a good name
// Threads  [main], once, before the first operator and any other thread
ComputeDevice open_device(std::string_view name, const GpuPlaces& places);

// One line for people: "2 threads, AVX512, MKL_CBWR=AUTO,STRICT", and before it the GPU.
std::string describe_device(const ComputeDevice& device);

}  // namespace tenon
