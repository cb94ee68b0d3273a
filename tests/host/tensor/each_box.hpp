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

// Calls take(const Box&) for each box of at least two ranges along a dimension, and of any indices
// along the others.
template <class Take>
void each_box_of_ranges(const std::vector<int64_t>& shape, Take take) {
  each_box(shape, [&](const Box& box) {
    for (size_t d = 0; d < shape.size(); ++d) {
      if (box.size[d] != shape[d]) {
        continue;
      }
      for (uint32_t chosen = 0; chosen < uint32_t{1} << shape[d]; ++chosen) {
        std::vector<IndexRange> ranges;
        for (int64_t i = 0; i < shape[d]; ++i) {
          if ((chosen >> i & 1) != 0) {
            ranges.push_back({i, 1});
          }
        }
        const Box along = box_of_ranges(shape, d, ranges);
        if (along.ranges.empty()) {
          continue;
        }
        Box both = box;
        both.start[d] = along.start[d];
        both.size[d] = along.size[d];
        both.axis = along.axis;
        both.ranges = along.ranges;
        take(both);
      }
    }
  });
}

// True if a box has index `i` along dimension `d`.
inline bool has_index(const Box& box, size_t d, int64_t i) {
  if (box.ranges.empty() || d != box.axis) {
    return i >= box.start[d] && i < box.start[d] + box.size[d];
  }
  bool is_inside = false;
  for (const IndexRange& range : box.ranges) {
    is_inside = is_inside || (i >= range.start && i < range.start + range.size);
  }
  return is_inside;
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
      is_inside = is_inside && has_index(box, d, index);
      rest /= shape[d];
    }
    if (is_inside) {
      elements.push_back(i);
    }
  }
  return elements;
}

}  // namespace tenon
