// SPDX-License-Identifier: Apache-2.0
//
// Finds and loads the module that has the host's CUDA code, and with it libtorch's.

#pragma once

#include "host/device/gpu.hpp"

#include <filesystem>
#include <memory>

namespace tenon {

// Loads the module, once a process and for good, and opens GPU `index`.
//
// Errors   device.unavailable: the module is missing, cannot be loaded, is of another build, or
//          cannot open the GPU
// Threads  [main], before anything asks libtorch for CUDA: it remembers that there was none
std::unique_ptr<Gpu> open_gpu(const std::filesystem::path& module, int index);

// The module that open_gpu() has loaded; null if none is.
// Threads: any.
const GpuModule* loaded_gpu_module();

}  // namespace tenon
