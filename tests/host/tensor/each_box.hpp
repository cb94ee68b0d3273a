// SPDX-License-Identifier: Apache-2.0
//
// All boxes of a small tensor, and the elements of a box one by one: what tests of pieces compare
// with.
#pragma once

#include "host/tensor/tensor_piece.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace tenon {

// Calls take(const Box&) for each box of at least one element.
template <class Take>
void each_box(const std::vector<int64_t>& shape, Take take, Box so_far = {}) {
  const size_t d = so_far.start.size();
  if (d == shape.size()) {
    take(so_far);
    return;
  }
  for (int64_t start = 0; start < shape[d]; ++start) {
    for (int64_t size = 1; start + size <= shape[d]; ++size) {
      Box box = so_far;
      box.start.push_back(start);
      box.size.push_back(size);
      each_box(shape, take, std::move(box));
    }
  }
}

// The elements of a box, as indices of the flattened tensor.
inline std::vector<int64_t> elements_of(const Box& box, const std::vector<int64_t>& shape) {
  int64_t numel = 1;
  for (const int64_t size : shape) {
    numel *= size;
  }
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < numel; ++i) {
    bool is_inside = true;
    int64_t rest = i;
    for (size_t d = shape.size(); d-- > 0;) {
      const int64_t index = rest % shape[d];
      is_inside = is_inside && index >= box.start[d] && index < box.start[d] + box.size[d];
      rest /= shape[d];
    }
    if (is_inside) {
      elements.push_back(i);
    }
  }
  return elements;
}

}  // namespace tenon
