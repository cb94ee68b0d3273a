// SPDX-License-Identifier: Apache-2.0
//
// Tensors of which each rank of a group holds a range along one axis, in rank order. Ranges may
// have different lengths, or none.
// Threads: the train thread, and the thread that runs a backward for it.
#pragma once

#include "host/distributed/collectives/group.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace tenon {

// Returns the ranges of all ranks, joined.
// Shapes  range: lengths[ranks.rank()] at `axis`; lengths [ranks.size()]
at::Tensor joined_ranges(Group& ranks,
                         const at::Tensor& range,
                         int64_t axis,
                         std::span<const int64_t> lengths,
                         std::string_view what);

// Returns the range of one rank, as a view.
at::Tensor range_of_rank(const at::Tensor& whole,
                         int64_t axis,
                         std::span<const int64_t> lengths,
                         uint32_t rank);

}  // namespace tenon
