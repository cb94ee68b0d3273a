// SPDX-License-Identifier: Apache-2.0
//
// The CUDA module itself, where there is a GPU. Everything else of a run on a GPU is tested without
// one, on a module that stands in for it (tests/support/fake_gpu).

#include "host/device/gpu.hpp"

#include "host/device/compute_device.hpp"
#include "host/device/device.hpp"
#include "host/device/exact_squares.hpp"
#include "host/device/gpu_driver.hpp"
#include "host/device/host_memory.hpp"
#include "host/device/random_state.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

struct FirstGpu {
  ComputeDevice device;
  std::string missing;  // why the tests have to be left out
};

// Opened once: a process has one.
const FirstGpu& first_gpu() {
  static const FirstGpu first = []() -> FirstGpu {
    const GpuFiles files = gpu_files_of(host_program());
    const GpuDriver driver = ask_gpu_driver(files.driver);
    if (driver.num_gpus == 0) {
      return {.device = {}, .missing = driver.problem};
    }
    if (!std::filesystem::exists(files.module)) {
      return {.device = {}, .missing = "this build has no CUDA module"};
    }
    choose_reproducible_gpu_math();
    return {.device = open_device("cuda", files), .missing = ""};
  }();
  return first;
}

at::Tensor pinned(at::Tensor tensor) {
  at::Tensor copy = at::empty(tensor.sizes(), tensor.options().pinned_memory(true));
  return copy.copy_(tensor);
}

}  // namespace

TEST_CASE("memory is pinned where there is a GPU, and a GPU tells what it is", "[device][gpu]") {
  Gpu* const gpu = first_gpu().device.gpu.get();
  if (gpu == nullptr) {
    TENON_SKIP(first_gpu().missing);
  }
  CHECK(can_pin_memory());
  CHECK(empty_host_tensor(0, {16}).is_pinned());
  CHECK(gpu->device().is_cuda());
  CHECK(gpu->stream() != nullptr);
  CHECK_THAT(gpu->describe(), contains_text("GiB, CUDA "));
}

TEST_CASE("uploads are exact, in order, and may be given up", "[device][gpu]") {
  Gpu* const gpu = first_gpu().device.gpu.get();
  if (gpu == nullptr) {
    TENON_SKIP(first_gpu().missing);
  }
  for (int round = 0; round < 50; ++round) {
    const at::Tensor numbers = at::arange(1 << 18, at::kLong) + round;
    const at::Tensor fractions = at::full({1000}, 0.5 + round, at::kDouble);
    const auto given_up = gpu->upload({pinned(numbers)});
    const auto upload = gpu->upload({pinned(numbers), fractions});
    const auto on_gpu = upload->finish();
    REQUIRE(on_gpu.size() == 2);
    CHECK(on_gpu[0].device() == gpu->device());
    const at::Tensor sum = on_gpu[0].sum() + on_gpu[1].sum().to(at::kLong);
    CHECK(sum.item<int64_t>() == (numbers.sum() + fractions.sum().to(at::kLong)).item<int64_t>());
  }
}

TEST_CASE("the figures of memory follow what is allocated", "[device][gpu]") {
  Gpu* const gpu = first_gpu().device.gpu.get();
  if (gpu == nullptr) {
    TENON_SKIP(first_gpu().missing);
  }
  const GpuMemory before = gpu->memory();
  const at::Tensor tensor =
      at::empty({64 << 20}, at::TensorOptions(gpu->device()).dtype(at::kByte));
  const GpuMemory after = gpu->memory();
  CHECK(after.allocated - before.allocated >= 64 << 20);
  CHECK(after.reserved >= after.allocated);
  CHECK(after.peak_allocated >= after.allocated);
  CHECK(after.total > after.free);
}

TEST_CASE("refused memory is noted with what was asked for", "[device][gpu]") {
  Gpu* const gpu = first_gpu().device.gpu.get();
  if (gpu == nullptr) {
    TENON_SKIP(first_gpu().missing);
  }
  const int64_t too_much = gpu->memory().total * 2;
  CHECK_THROWS_AS(at::empty({too_much}, at::TensorOptions(gpu->device()).dtype(at::kByte)),
                  c10::OutOfMemoryError);
  REQUIRE(gpu->refused().has_value());
  CHECK(gpu->refused()->requested >= too_much);
  CHECK(gpu->refused()->memory.total == gpu->memory().total);
}

TEST_CASE("the same seed gives the same random numbers on a GPU", "[device][gpu]") {
  Gpu* const gpu = first_gpu().device.gpu.get();
  if (gpu == nullptr) {
    TENON_SKIP(first_gpu().missing);
  }
  const auto draw = [&](uint64_t seed) {
    seed_default_generators(seed, gpu->device());
    return at::rand({1000}, at::TensorOptions(gpu->device())).cpu();
  };
  const at::Tensor first = draw(7);
  CHECK(at::equal(draw(7), first));
  CHECK_FALSE(at::equal(draw(8), first));
}

TEST_CASE("exact sums of squares have the bits of the CPU", "[device][gpu]") {
  Gpu* const gpu = first_gpu().device.gpu.get();
  if (gpu == nullptr) {
    TENON_SKIP(first_gpu().missing);
  }
  if (!has_exact_squares(gpu->device())) {
    TENON_SKIP("this build's CUDA module has no kernels");
  }
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    at::Tensor here = exact_zero(at::kCPU);
    at::Tensor there = exact_zero(gpu->device());
    for (const int64_t n : {0, 1, 17, 1000, 4097, 1'000'003}) {
      for (const int64_t chunk : {16, 32, 1024}) {
        INFO(c10::toString(dtype) << ", " << n << ", " << chunk);
        const at::Tensor flat = (at::randn({n}, at::kDouble) * 7).to(dtype);
        add_exact_squares(here, flat, chunk);
        add_exact_squares(there, flat.to(gpu->device()), chunk);
        const at::Tensor root = exact_root(there);
        REQUIRE(root.device() == gpu->device());
        REQUIRE(root.item<double>() == exact_root(here).item<double>());
      }
    }
  }
  for (const double value :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    at::Tensor words = exact_zero(gpu->device());
    at::Tensor flat = at::ones({5000});
    flat[4321] = value;
    add_exact_squares(words, flat.to(gpu->device()), 64);
    CHECK_FALSE(std::isfinite(exact_root(words).item<double>()));
  }
}

}  // namespace tenon
