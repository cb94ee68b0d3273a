// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/each_thread.hpp"

#include <ATen/Parallel.h>

#include <cstdint>

namespace tenon {

void on_each_compute_thread(void (*body)()) {
  at::parallel_for(0, at::get_num_threads(), 1, [body](int64_t, int64_t) { body(); });
}

}  // namespace tenon
