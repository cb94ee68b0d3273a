// SPDX-License-Identifier: Apache-2.0

#include "host/device/device.hpp"

#include "host/error/error.hpp"
#include "host/error/resource_failure.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <latch>
#include <map>
#include <system_error>
#include <thread>
#include <vector>

namespace tenon {
namespace {

constexpr const char* kMklVariable = "MKL_CBWR";
// A run that resumes on a smaller machine keeps its number of threads, for its bits.
constexpr int kMostThreadsPerProcessor = 64;
constexpr const char* kCublasVariable = "CUBLAS_WORKSPACE_CONFIG";

// Starts as many threads as libtorch's pool will have beside this one, and ends them. The pool
// itself would wait forever for a thread that the system refuses.
void check_can_start(int num_compute_threads) {
  std::latch may_end(1);
  std::vector<std::jthread> threads;  // joined before the latch is destroyed
  try {
    for (int i = 1; i < num_compute_threads; ++i) {
      threads.emplace_back([&may_end] { may_end.wait(); });
    }
  } catch (const std::system_error& error) {
    may_end.count_down();
    throw resource_failure(formatted("cannot start {} (/threads/compute)",
                                     counted(num_compute_threads, "compute thread")),
                           error.code().value());
  } catch (...) {
    may_end.count_down();
    throw;
  }
  may_end.count_down();
}

}  // namespace

void set_compute_threads(int n) {
  if (n < 1) {
    throw Error("device.bad_threads",
                formatted("the number of compute threads is {}; it must be at least 1", n));
  }
  const int num_processors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (const int most = kMostThreadsPerProcessor * num_processors; n > most) {
    throw Error("device.bad_threads",
                formatted("{} on {} would spend their time taking turns; set threads.compute to at "
                          "most {}",
                          counted(n, "compute thread"),
                          counted(num_processors, "processor"),
                          most));
  }
  check_can_start(n);
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
  set_deterministic_flags({.algorithms = on, .mkldnn = on, .fills_memory = !on, .cudnn = on});
}

DeterministicFlags deterministic_flags() {
  const at::Context& context = at::globalContext();
  return {.algorithms = context.deterministicAlgorithms(),
          .warns_only = context.deterministicAlgorithmsWarnOnly(),
          .mkldnn = context.deterministicMkldnn(),
          .fills_memory = context.deterministicFillUninitializedMemory(),
          .cudnn = context.deterministicCuDNN()};
}

void set_deterministic_flags(const DeterministicFlags& flags) {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(flags.algorithms, flags.warns_only);
  context.setDeterministicMkldnn(flags.mkldnn);
  context.setDeterministicFillUninitializedMemory(flags.fills_memory);
  context.setDeterministicCuDNN(flags.cudnn);
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

std::string cpu_model(const std::string& root) {
  std::map<std::string, std::string> first;  // of the first processor
  std::ifstream in(root + "proc/cpuinfo");
  for (std::string line; std::getline(in, line) && !line.empty();) {
    const size_t colon = line.find(':');
    const size_t end = line.find_last_not_of(" \t", colon - 1);
    if (colon != std::string::npos && end != std::string::npos) {
      const size_t begin = std::min(line.find_first_not_of(' ', colon + 1), line.size());
      first.try_emplace(line.substr(0, end + 1), line.substr(begin));
    }
  }
  if (first["model name"].empty()) {
    return "an unknown processor";
  }
  return formatted("{} ({} {}-{})",
                   first["model name"],
                   first["vendor_id"],
                   first["cpu family"],
                   first["model"]);
}

std::string cpu_features() {
  std::string features = at::get_cpu_capability();
  // libtorch's answer follows ATEN_CPU_CAPABILITY; the others have no answer to ask for.
  for (const char* const name :
       {"ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "TENON_SIMD", kMklVariable}) {
    if (const char* const value = std::getenv(name); value != nullptr && *value != '\0') {
      features += formatted(", {}={}", name, value);
    }
  }
  return features;
}

std::string describe_cpu() {
  return counted(num_compute_threads(), "thread") + ", " + cpu_features();
}

}  // namespace tenon
