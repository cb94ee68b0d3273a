// SPDX-License-Identifier: Apache-2.0
//
// Where a program's GPUs come from: files that are looked for when a run asks for a GPU.

#pragma once

#include <filesystem>
#include <string>

namespace tenon {

struct GpuPlaces {
  std::filesystem::path module;         // the CUDA module, gpu_module.hpp
  std::string driver = "libcuda.so.1";  // as dlopen() looks it up
};

// Those of a program: its module lies in ../lib of a build tree, or where it was installed to. The
// first of them, if it is in neither.
GpuPlaces gpu_places_of(const std::filesystem::path& program);

}  // namespace tenon
