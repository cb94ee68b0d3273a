// SPDX-License-Identifier: Apache-2.0
//
// The files that a program needs for a GPU, looked up when a run requests a GPU.

#pragma once

#include <filesystem>
#include <string>

namespace tenon {

struct GpuFiles {
  std::filesystem::path module;         // the CUDA module; see gpu_module.hpp
  std::string driver = "libcuda.so.1";  // a name for dlopen()
};

// Returns the files of a program. The module is in ../lib of a build tree, or where it was
// installed. If it is in neither folder, returns the path in the build tree.
GpuFiles gpu_files_of(const std::filesystem::path& program);

}  // namespace tenon
