// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/compute_threads.hpp"

#include <ATen/Parallel.h>

namespace tenon {

int num_operator_threads() noexcept {
  return at::get_num_threads();
}

}  // namespace tenon
