// SPDX-License-Identifier: Apache-2.0
//
// The peak of the run's device in floating-point operations per second: as the recipe gives it, or
// measured with matrix products.
#pragma once

#include "host/device/gpu.hpp"
#include "host/device/precision.hpp"
#include "host/recipe/train_recipe.hpp"
#include "host/train/flop_meter.hpp"

#include <ATen/core/Tensor.h>

#include <optional>

namespace tenon {

// Returns the peak of this rank, or nothing if the recipe has none. A measurement takes the fastest
// of several square products, by libtorch and by tenon::linear, in the dtype of the run's products,
// with the run's threads. It takes less than two seconds.
//
// Threads  [main], while no operator runs
std::optional<FlopMeter::Peak> peak_flops(const TrainRecipe& train,
                                          const PrecisionPolicy& precision,
                                          at::Device device,
                                          Gpu* gpu);

}  // namespace tenon
