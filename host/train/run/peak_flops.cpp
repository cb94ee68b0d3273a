// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/peak_flops.hpp"

#include "host/kernels/linear.hpp"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>

namespace tenon {
namespace {

// Operations per second of the fastest of several calls.
double fastest(double flops, Gpu* gpu, const std::function<void()>& product) {
  using Clock = std::chrono::steady_clock;
  constexpr double kSeconds = 0.3;
  constexpr int kLeastCalls = 4;
  const auto wait = [gpu] {
    if (gpu != nullptr) {
      gpu->synchronize();
    }
  };
  product();
  wait();
  double best = 0;
  double total = 0;
  for (int i = 0; i < kLeastCalls || total < kSeconds; ++i) {
    const auto began = Clock::now();
    product();
    wait();
    const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
    best = std::max(best, flops / std::max(seconds, 1e-9));
    total += seconds;
  }
  return best;
}

double measured(at::ScalarType dtype, at::Device device, Gpu* gpu) {
  const at::AutoGradMode no_grad(false);
  const int64_t n = device.is_cpu() ? 1024 : 8192;
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  const at::Tensor a = at::full({n, n}, 0.5, options);
  const at::Tensor b = at::full({n, n}, 0.25, options);
  const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n * n);
  return std::max(fastest(flops, gpu, [&] { (void)at::mm(a, b); }),
                  fastest(flops, gpu, [&] { (void)linear(a, {b}, std::nullopt, "none"); }));
}

}  // namespace

std::optional<FlopMeter::Peak> peak_flops(const TrainRecipe& train,
                                          const PrecisionPolicy& precision,
                                          at::Device device,
                                          Gpu* gpu) {
  if (!train.peak_flops.has_value()) {
    return std::nullopt;
  }
  if (const double* const given = std::get_if<double>(&*train.peak_flops)) {
    return FlopMeter::Peak{.flops = *given, .is_measured = false};
  }
  return FlopMeter::Peak{
      .flops = measured(precision.autocast.value_or(precision.compute), device, gpu),
      .is_measured = true};
}

}  // namespace tenon
