// SPDX-License-Identifier: Apache-2.0

#include "host/device/device.hpp"

#include "host/error/error.hpp"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <cstdlib>

#include "tests/support/catch.hpp"
#include "tests/support/no_threads.hpp"

namespace tenon {
namespace {

template <class Body>
std::string id_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error.id();
  }
  return "";
}

TEST_CASE("the number of compute threads can be set more than once", "[device]") {
  const int before = num_compute_threads();
  set_compute_threads(1);
  CHECK(num_compute_threads() == 1);
  set_compute_threads(2);
  CHECK(num_compute_threads() == 2);
  CHECK(at::get_num_interop_threads() == 1);
  CHECK(id_of([] { set_compute_threads(0); }) == "device.bad_threads");
  CHECK(id_of([] { set_compute_threads(1 << 20); }) == "device.bad_threads");
  CHECK(num_compute_threads() == 2);
  set_compute_threads(before);
}

// libtorch's own pool would wait forever for a thread that was not started.
TEST_CASE("compute threads that the system refuses are an error", "[device]") {
  const int before = num_compute_threads();
  {
    const NoThreads none;
    CHECK(id_of([] { set_compute_threads(3); }) == "run.out_of_resources");
    set_compute_threads(1);  // needs no other thread
  }
  set_compute_threads(before);
  CHECK(num_compute_threads() == before);
}

TEST_CASE("deterministic mode leaves unwritten memory alone", "[device]") {
  set_deterministic(Deterministic::kYes);
  CHECK(at::globalContext().deterministicAlgorithms());
  CHECK_FALSE(at::globalContext().deterministicAlgorithmsWarnOnly());
  CHECK_FALSE(at::globalContext().deterministicFillUninitializedMemory());
  set_deterministic(Deterministic::kNo);
  CHECK_FALSE(at::globalContext().deterministicAlgorithms());
  CHECK(at::globalContext().deterministicFillUninitializedMemory());
}

TEST_CASE("the reproducible code path is the environment's choice first", "[device]") {
  const std::string before = reproducible_math();
  unsetenv("MKL_CBWR");
  CHECK(reproducible_math().empty());
  choose_reproducible_math();
  CHECK(reproducible_math() == "AUTO,STRICT");
  setenv("MKL_CBWR", "COMPATIBLE", 1);
  choose_reproducible_math();
  CHECK(reproducible_math() == "COMPATIBLE");
  if (before.empty()) {
    unsetenv("MKL_CBWR");
  } else {
    setenv("MKL_CBWR", before.c_str(), 1);
  }
}

TEST_CASE("cuBLAS is asked for the same bits unless the environment has decided", "[device]") {
  unsetenv("CUBLAS_WORKSPACE_CONFIG");
  choose_reproducible_gpu_math();
  CHECK(std::string(std::getenv("CUBLAS_WORKSPACE_CONFIG")) == ":4096:8");
  setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  choose_reproducible_gpu_math();
  CHECK(std::string(std::getenv("CUBLAS_WORKSPACE_CONFIG")) == ":16:8");
  unsetenv("CUBLAS_WORKSPACE_CONFIG");
}

TEST_CASE("a device describes itself in a line", "[device]") {
  const int before = num_compute_threads();
  set_compute_threads(1);
  CHECK_THAT(describe_cpu(), contains_text("1 thread, "));
  set_compute_threads(2);
  CHECK_THAT(describe_cpu(), contains_text("2 threads, "));
  set_compute_threads(before);
}

TEST_CASE("limits of instruction sets are a part of what results depend on", "[device]") {
  const char* const name = GENERATE("ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "TENON_SIMD");
  const char* const before = std::getenv(name);
  const std::string kept = before != nullptr ? before : "";
  ::unsetenv(name);
  const std::string features = cpu_features();
  ::setenv(name, "AVX2", /*overwrite=*/1);
  CHECK(cpu_features() != features);
  CHECK_THAT(cpu_features(), contains_text(std::string(name) + "=AVX2"));
  ::setenv(name, kept.c_str(), /*overwrite=*/1);
}

}  // namespace
}  // namespace tenon
