// SPDX-License-Identifier: Apache-2.0

#include "host/device/device.hpp"

#include "host/error/error.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <cstdlib>

namespace tenon {
namespace {

constexpr const char* kMklVariable = "MKL_CBWR";
constexpr const char* kCublasVariable = "CUBLAS_WORKSPACE_CONFIG";

}  // namespace

void set_compute_threads(int n) {
  if (n < 1) {
    throw Error("device.bad_threads",
                formatted("the number of compute threads is {}; it must be at least 1", n));
  }
  // libtorch accepts the number of inter-op threads only once per process.
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
  context.setDeterministicCuDNN(on);
}

void choose_reproducible_math() {
  // AUTO keeps the fastest instructions of the machine. STRICT makes the result of a matrix product
  // independent of alignment and of the split over threads. In measurements, neither was slower;
  // COMPATIBLE took twice the time.
  ::setenv(kMklVariable, "AUTO,STRICT", /*overwrite=*/0);
}

void choose_reproducible_gpu_math() {
  // Eight buffers of 4 MiB. The other allowed setting, :16:8, is slower.
  ::setenv(kCublasVariable, ":4096:8", /*overwrite=*/0);
}

std::string reproducible_math() {
  const char* const value = std::getenv(kMklVariable);
  return value != nullptr ? value : "";
}

std::string describe_cpu() {
  const std::string text =
      formatted("{}, {}", counted(num_compute_threads(), "thread"), at::get_cpu_capability());
  const std::string math = reproducible_math();
  return math.empty() ? text : text + ", MKL_CBWR=" + math;
}

}  // namespace tenon
