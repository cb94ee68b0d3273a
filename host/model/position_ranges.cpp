// SPDX-License-Identifier: Apache-2.0
#include "host/model/position_ranges.hpp"

#include "host/error/assert.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace tenon {

// All ranks send as much as the longest range, so that the gather needs no counts.
at::Tensor joined_ranges(Group& ranks,
                         const at::Tensor& range,
                         int64_t axis,
                         std::span<const int64_t> lengths,
                         std::string_view what) {
  const at::AutoGradMode no_grad(false);
  const int64_t longest = std::ranges::max(lengths);
  if (longest == 0) {
    return range.detach();
  }
  at::Tensor rows = range.detach().movedim(axis, 0);
  TENON_ASSERT(rows.size(0) == lengths[ranks.rank()], "a range has the length of its rank");
  if (rows.size(0) < longest) {
    std::vector<int64_t> shape = rows.sizes().vec();
    shape[0] = longest - rows.size(0);
    rows = at::cat({rows, at::zeros(shape, rows.options())});
  }
  rows = rows.contiguous();
  std::vector<int64_t> shape = rows.sizes().vec();
  shape.insert(shape.begin(), ranks.size());
  const at::Tensor all = at::empty(shape, rows.options());
  at::Tensor flat = all.view(-1);
  ranks.all_gather(flat, rows.view(-1), what)->wait();
  std::vector<at::Tensor> ranges;
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    ranges.push_back(all[r].narrow(0, 0, lengths[r]));
  }
  return at::cat(ranges).movedim(0, axis).contiguous();
}

at::Tensor range_of_rank(const at::Tensor& whole,
                         int64_t axis,
                         std::span<const int64_t> lengths,
                         uint32_t rank) {
  const int64_t begin = std::accumulate(lengths.begin(), lengths.begin() + rank, int64_t{0});
  return whole.narrow(axis, begin, lengths[rank]);
}

}  // namespace tenon
