// SPDX-License-Identifier: Apache-2.0

#include "host/device/device.hpp"

#include "host/device/gpu.hpp"
#include "host/error/error.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>

namespace tenon {
namespace {

constexpr const char* kMklVariable = "MKL_CBWR";

// 0 for "cuda", 1 for "cuda:1"; nothing for other names.
std::optional<int> gpu_index(const std::string& name) {
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

}  // namespace

at::Device select_device(const std::string& name) {
  if (name == "cpu") {
    return at::kCPU;
  }
  const std::optional<int> index = gpu_index(name);
  if (!index) {
    throw Error("device.unavailable",
                "'" + name + "' names no device; use \"cpu\", \"cuda\" or \"cuda:N\"");
  }
  if (*index >= num_gpus()) {
    throw Error("device.unavailable",
                "'" + name + "' is not there: this program sees " + std::to_string(num_gpus()) +
                    " GPUs; use \"cpu\"");
  }
  return {at::kCUDA, static_cast<c10::DeviceIndex>(*index)};
}

void set_compute_threads(int n) {
  if (n < 1) {
    throw Error("device.bad_threads",
                "the number of compute threads is " + std::to_string(n) + "; 1 is the least");
  }
  // libtorch takes the number of inter-op threads once a process.
  [[maybe_unused]] static const bool once = [] {
    at::set_num_interop_threads(1);
    return true;
  }();
  at::set_num_threads(n);
}

int num_compute_threads() noexcept {
  return at::get_num_threads();
}

void set_deterministic(Deterministic deterministic) {
  const bool on = deterministic == Deterministic::kYes;
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(on, /*warn_only=*/false);
  context.setDeterministicMkldnn(on);
  context.setDeterministicFillUninitializedMemory(!on);
}

void choose_reproducible_math() {
  // AUTO keeps the fastest instructions of the machine; STRICT makes the result of a matrix product
  // the same for any alignment and split over threads. Neither is slower where it was measured, and
  // COMPATIBLE takes twice the time.
  ::setenv(kMklVariable, "AUTO,STRICT", /*overwrite=*/0);
}

std::string reproducible_math() {
  const char* const value = std::getenv(kMklVariable);
  return value != nullptr ? value : "";
}

std::string describe_device(const at::Device& device) {
  if (device.is_cuda()) {
    return describe_gpu(device.index());
  }
  const int threads = num_compute_threads();
  std::string text = std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") +
                     at::get_cpu_capability();
  const std::string math = reproducible_math();
  return math.empty() ? text : text + ", MKL_CBWR=" + math;
}

}  // namespace tenon
