// SPDX-License-Identifier: Apache-2.0
#include "host/device/precision.hpp"

#include "host/error/assert.hpp"
#include "host/error/error.hpp"

namespace tenon {

PrecisionPolicy precision_policy(std::string_view name, ComputesOn device) {
  if (name == "fp32") {
    return {};
  }
  if (name == "fp64") {
    return {.stored = at::kDouble, .compute = at::kDouble};
  }
  if (name == "bf16_autocast") {
    return {.autocast = at::kBFloat16};
  }
  if (name == "fp16_autocast") {
    if (device == ComputesOn::kCpu) {
      throw Error("precision.needs_gpu",
                  "/train/precision: fp16_autocast requires a GPU, but this run is on the CPU; use "
                  "bf16_autocast, which needs no loss scale, or fp32");
    }
    return {.autocast = at::kHalf};
  }
  if (name == "bf16_params") {
    return {.compute = at::kBFloat16};
  }
  TENON_ASSERT(name == "bf16", "the recipe's schema knows this precision, and nothing else does");
  return {.stored = at::kBFloat16, .compute = at::kBFloat16};
}

}  // namespace tenon
