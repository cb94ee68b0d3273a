// SPDX-License-Identifier: Apache-2.0
//
// The ranks that divide the parameters of blocks ("tensor parallelism"), for what runs a model on
// one of them. They have the same samples, and compute the same values, except for values that a
// divided block makes with a split: each rank has its part of those (divided_graph.hpp).
//
// All ranks make the same calls in the same order.
// Threads: the train thread, and the thread that runs a backward for it.
#pragma once

#include "host/distributed/collectives/group.hpp"
#include "host/kernels/tensor_region.hpp"
#include "host/model/graph.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

class TensorGroup final : public TensorRanks {
 public:
  // `ranks` is borrowed.
  explicit TensorGroup(Group& ranks) : ranks_(ranks) {}

  uint32_t rank() const override { return ranks_.rank(); }
  uint32_t size() const override { return ranks_.size(); }

  void sum(at::Tensor& whole, std::string_view what) override;
  void max(at::Tensor& whole, std::string_view what) override;
  std::vector<at::Tensor> gather(const at::Tensor& part, std::string_view what) override;
  at::Tensor sum_scatter(const std::vector<at::Tensor>& for_ranks, std::string_view what) override;

  // Returns a new region of these ranks, for a call of `block`.
  TensorRegionPtr new_region(const std::string& block);
  // The group, for values of which each rank has a piece of the positions.
  Group& ranks() { return ranks_; }

  // ---- values with a split ----

  // Returns the whole value, from the parts of all ranks.
  // Shapes  part: as a divided block makes it on this rank
  at::Tensor whole(const at::Tensor& part, const ModelSplit& split, std::string_view what);
  // Returns the part of this rank.
  at::Tensor part(const at::Tensor& whole, const ModelSplit& split) const;
  // Returns what this rank adds to the gradient of its part, from the gradient of the whole, which
  // all ranks have. Ranks whose parts have the same elements add them once.
  at::Tensor part_of_gradient(const at::Tensor& whole, const ModelSplit& split) const;

 private:
  // What a rank has of one part of a split: indices along the axis.
  struct Range {
    int64_t begin = 0;
    int64_t length = 0;
    bool is_first_copy = true;  // the rank before has other indices
  };
  std::vector<Range> ranges_of(const ModelSplit& split, uint32_t rank) const;

  Group& ranks_;
};

}  // namespace tenon
