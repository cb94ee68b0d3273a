// SPDX-License-Identifier: Apache-2.0
#include "host/model/sequence_group.hpp"

#include "host/error/assert.hpp"
#include "host/model/position_ranges.hpp"
#include "host/tensor/batch_positions.hpp"

#include <ATen/TensorOperators.h>

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

at::Tensor SequenceGroup::whole(const at::Tensor& part,
                                int64_t axis,
                                const SequenceParts& parts,
                                std::string_view what) {
  return joined_ranges(ranks_, part, axis, parts.lengths, what);
}

at::Tensor SequenceGroup::part(const at::Tensor& whole,
                               int64_t axis,
                               const SequenceParts& parts) const {
  return range_of_rank(whole, axis, parts.lengths, rank());
}

at::Tensor SequenceGroup::sum(const at::Tensor& part, std::string_view what) {
  at::Tensor total = part.detach().contiguous().clone();
  at::Tensor flat = total.view(-1);
  ranks_.all_reduce(flat, what)->wait();
  return total;
}

}  // namespace tenon
