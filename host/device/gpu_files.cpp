// SPDX-License-Identifier: Apache-2.0

#include "host/device/gpu_files.hpp"

#include <system_error>

namespace tenon {

GpuFiles gpu_files_of(const std::filesystem::path& program) {
  namespace fs = std::filesystem;
  const fs::path built = (program.parent_path() / "../lib/tenon_cuda.so").lexically_normal();
  const fs::path installed =
      (program.parent_path() / TENON_INSTALLED_GPU_MODULE).lexically_normal();
  std::error_code ignored;
  const bool is_installed = !fs::exists(built, ignored) && fs::exists(installed, ignored);
  return {.module = is_installed ? installed : built};
}

}  // namespace tenon
