// SPDX-License-Identifier: Apache-2.0
//
// The implementation of gpu.hpp for builds that know no GPU.

#include "host/device/gpu.hpp"

#include "host/error/assert.hpp"

namespace tenon {

int num_gpus() noexcept {
  return 0;
}

bool can_pin_memory() noexcept {
  return false;
}

std::string describe_gpu(int /*index*/) {
  assertion_failed(__FILE__, __LINE__, "index < num_gpus()", "there is no GPU to describe");
}

}  // namespace tenon
