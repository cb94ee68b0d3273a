// SPDX-License-Identifier: Apache-2.0
#include "host/model/sequence_group.hpp"

#include "host/error/assert.hpp"
#include "host/tensor/batch_positions.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>

namespace tenon {

void SequenceGroup::exchange(at::Tensor& receive,
                             std::span<const int64_t> receive_counts,
                             const at::Tensor& send,
                             std::span<const int64_t> send_counts,
                             std::string_view what) {
  ranks_.all_to_all(receive, receive_counts, send, send_counts, what)->wait();
}

SequenceParts SequenceGroup::parts_of(const Batch& batch) {
  TENON_ASSERT(batch.positions.has_value(), "a batch of divided sequences is a part");
  SequenceParts parts{.ranks = this, .by = by_, .lengths = {}};
  for (uint32_t r = 0; r < size(); ++r) {
    parts.lengths.push_back(positions_of_rank(batch.positions->whole, r, size()).length);
  }
  return parts;
}

// All ranks send as much as the longest part, so that the gather needs no counts.
at::Tensor SequenceGroup::whole(const at::Tensor& part,
                                int64_t axis,
                                const SequenceParts& parts,
                                std::string_view what) {
  const int64_t longest = std::ranges::max(parts.lengths);
  at::Tensor rows = part.detach().movedim(axis, 0);
  TENON_ASSERT(rows.size(0) == parts.length(), "a part has the positions of its rank");
  if (rows.size(0) < longest) {
    std::vector<int64_t> shape = rows.sizes().vec();
    shape[0] = longest - rows.size(0);
    rows = at::cat({rows, at::zeros(shape, rows.options())});
  }
  rows = rows.contiguous();
  std::vector<int64_t> shape = rows.sizes().vec();
  shape.insert(shape.begin(), size());
  const at::Tensor all = at::empty(shape, rows.options());
  at::Tensor flat = all.view(-1);
  ranks_.all_gather(flat, rows.view(-1), what)->wait();
  std::vector<at::Tensor> pieces;
  for (uint32_t r = 0; r < size(); ++r) {
    pieces.push_back(all[r].narrow(0, 0, parts.lengths[r]));
  }
  return at::cat(pieces).movedim(0, axis).contiguous();
}

at::Tensor SequenceGroup::part(const at::Tensor& whole,
                               int64_t axis,
                               const SequenceParts& parts) const {
  return whole.narrow(axis, parts.begin(), parts.length());
}

at::Tensor SequenceGroup::sum(const at::Tensor& part, std::string_view what) {
  at::Tensor total = part.detach().contiguous().clone();
  at::Tensor flat = total.view(-1);
  ranks_.all_reduce(flat, what)->wait();
  return total;
}

}  // namespace tenon
