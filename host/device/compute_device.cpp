// SPDX-License-Identifier: Apache-2.0

#include "host/device/compute_device.hpp"

#include "host/device/device.hpp"
#include "host/device/gpu_driver.hpp"
#include "host/device/gpu_module.hpp"
#include "host/error/error.hpp"
#include "host/text/formatted.hpp"

#include <charconv>
#include <limits>
#include <optional>

namespace tenon {
namespace {

// Returns 0 for "cuda", 1 for "cuda:1", nothing for other names.
std::optional<int> gpu_index(std::string_view name) {
  constexpr std::string_view kPrefix = "cuda:";
  if (name == "cuda") {
    return 0;
  }
  int index = 0;
  const char* const end = name.data() + name.size();
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size() ||
      std::from_chars(name.data() + kPrefix.size(), end, index).ptr != end || index < 0 ||
      index > std::numeric_limits<c10::DeviceIndex>::max()) {
    return std::nullopt;
  }
  return index;
}

ComputeDevice on_gpu(const GpuFiles& files, int index) {
  ComputeDevice device;
  device.gpu = open_gpu(files.module, index);
  device.torch = device.gpu->device();
  return device;
}

ComputeDevice open_best(const GpuFiles& files) {
  const GpuDriver driver = ask_gpu_driver(files.driver);
  if (driver.num_gpus > 0) {
    try {
      return on_gpu(files, 0);
    } catch (const Error& error) {
      ComputeDevice device;
      device.warning = std::string("a GPU exists, but the run uses the CPU: ") + error.what();
      return device;
    }
  }
  return {};
}

}  // namespace

ComputeDevice open_device(std::string_view name, const GpuFiles& files) {
  if (name == "cpu") {
    return {};
  }
  if (name == "auto") {
    return open_best(files);
  }
  const std::string shown(name);
  const std::optional<int> index = gpu_index(name);
  if (!index) {
    throw Error("device.unavailable",
                "'" + shown + "' is not a device; use \"auto\", \"cpu\", \"cuda\" or \"cuda:N\"");
  }
  const GpuDriver driver = ask_gpu_driver(files.driver);
  if (driver.num_gpus == 0) {
    throw Error("device.unavailable",
                "'" + shown + "' is not available: " + driver.problem +
                    "; check that nvidia-smi lists a GPU, or pass --device cpu");
  }
  if (*index >= driver.num_gpus) {
    throw Error("device.unavailable",
                formatted("'{}' is not available: the last GPU of this machine is cuda:{}",
                          shown,
                          driver.num_gpus - 1));
  }
  return on_gpu(files, *index);
}

std::string describe_device(const ComputeDevice& device) {
  const std::string cpu = describe_cpu();
  return device.gpu == nullptr ? cpu : device.gpu->describe() + ", " + cpu;
}

}  // namespace tenon
