// SPDX-License-Identifier: Apache-2.0
//
// Runs code on the ranks of a divided region, for tests of its operators.
#pragma once

#include "host/kernels/operators.hpp"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/thread_tensor_ranks.hpp"

namespace tenon {

using Tensors = std::vector<at::Tensor>;
using Lengths = std::vector<int64_t>;
using OfRank = std::function<Tensors(const TensorRegionPtr& region)>;

// Runs `body` on each rank, in its region, and returns its tensors in rank order.
// Shapes  pieces [board.size()], or empty
inline std::vector<Tensors> in_regions(TensorBoard& board,
                                       const Lengths& pieces,
                                       const OfRank& body) {
  register_operators();
  std::vector<Tensors> got(board.size());
  run_tensor_ranks(board, pieces, [&](const TensorRegionPtr& region) {
    const TensorRegionScope scope(region);
    got[region->ranks->rank()] = body(region);
  });
  return got;
}

inline std::vector<Tensors> in_regions(uint32_t size, const Lengths& pieces, const OfRank& body) {
  TensorBoard board(size);
  return in_regions(board, pieces, body);
}

inline int64_t rank_of(const TensorRegionPtr& region) {
  return region->ranks->rank();
}

// What this rank holds of x [B, T, ...] outside of the region.
inline at::Tensor held_by(const TensorRegionPtr& region, const at::Tensor& x) {
  if (!region->has_pieces()) {
    return x;
  }
  const auto& pieces = region->pieces;
  const int64_t begin = c10::sum_integers(pieces.begin(), pieces.begin() + rank_of(region));
  return x.narrow(1, begin, pieces[region->ranks->rank()]).contiguous();
}

// For the threads of ranks, where Catch2 may not check. Ends the test case.
inline void expect(bool is_true, const std::string& what) {
  if (!is_true) {
    throw std::runtime_error("expected that " + what);
  }
}

// Autocast to bf16 on the CPU, while it lives.
class Autocast {
 public:
  Autocast() {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    at::autocast::decrement_nesting();
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
};

}  // namespace tenon
