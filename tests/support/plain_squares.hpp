// SPDX-License-Identifier: Apache-2.0
//
// Sums of squares of gradients by their definition, one element after another.
#pragma once

#include "host/tensor/exact_sum.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tenon {

// Adds the squares of each `chunk` elements in 16 lanes and a tree (host/tensor/chunk_sums.hpp),
// and the chunks exactly.
// Shapes  wide [n] f64, contiguous, on the CPU
inline void add_plain_squares(ExactSum& sum, const at::Tensor& wide, int64_t chunk) {
  const double* const values = wide.const_data_ptr<double>();
  for (int64_t begin = 0; begin < wide.numel(); begin += chunk) {
    std::vector<double> lanes(16, 0);
    for (int64_t i = begin; i < std::min(begin + chunk, wide.numel()); ++i) {
      const volatile double square = values[i] * values[i];  // rounded before it is added
      lanes[static_cast<size_t>(i - begin) % 16] += square;
    }
    while (lanes.size() > 1) {
      const size_t half = lanes.size() / 2;
      for (size_t k = 0; k < half; ++k) {
        lanes[k] += lanes[k + half];
      }
      lanes.resize(half);
    }
    sum.add(lanes[0]);
  }
}

}  // namespace tenon
