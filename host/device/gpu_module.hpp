// SPDX-License-Identifier: Apache-2.0
//
// Loads the module that contains the host's CUDA code, and with it libtorch's CUDA libraries.

#pragma once

#include "host/device/gpu.hpp"

#include <filesystem>
#include <memory>

namespace tenon {

// Loads the module, once and for the life of the process, and opens GPU `index`.
//
// Errors   device.unavailable: the module is missing, cannot be loaded, is from another build, or
//          cannot open the GPU
// Threads  [main], before anything asks libtorch for CUDA: libtorch remembers its first answer
std::unique_ptr<Gpu> open_gpu(const std::filesystem::path& module, int index);

// Returns the module that open_gpu() has loaded; null if none is loaded.
// Threads: any.
const GpuModule* loaded_gpu_module();

}  // namespace tenon
