// SPDX-License-Identifier: Apache-2.0
//
// The ranks that divide the positions of the same sequences ("context parallelism"), for what runs
// a model on the part of one of them. Each value with an axis T is a part; the other values are
// whole, and equal on all ranks. Their gradients are partial: the sum over the ranks is the
// gradient.
//
// Blocks whose tokens are independent, or meet in tenon::attention only, run on parts. All other
// blocks run whole on each rank; the first rank counts what they sum.
//
// All ranks make the same calls in the same order.
// Threads: the train thread, and the thread that runs a backward for it.
#pragma once

#include "host/distributed/collectives/group.hpp"
#include "host/kernels/sequence_parts.hpp"
#include "host/tensor/batch.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tenon {

class SequenceGroup final : public SequenceRanks {
 public:
  // `ranks` is borrowed.
  SequenceGroup(Group& ranks, ContextBy by) : ranks_(ranks), by_(by) {}

  uint32_t rank() const override { return ranks_.rank(); }
  uint32_t size() const override { return ranks_.size(); }
  // True on the rank that counts what all ranks of the group have.
  bool is_first() const { return rank() == 0; }

  void exchange(at::Tensor& receive,
                std::span<const int64_t> receive_counts,
                const at::Tensor& send,
                std::span<const int64_t> send_counts,
                std::string_view what) override;

  // Returns what each rank holds of a batch, which is a part.
  SequenceParts parts_of(const Batch& batch);

  // Returns the parts of all ranks, joined along `axis`.
  // Shapes  part: parts.length() at `axis`
  at::Tensor whole(const at::Tensor& part,
                   int64_t axis,
                   const SequenceParts& parts,
                   std::string_view what);
  // Returns the part of this rank, as a view.
  at::Tensor part(const at::Tensor& whole, int64_t axis, const SequenceParts& parts) const;
  // Returns the sum over ranks; the same bits on all of them.
  at::Tensor sum(const at::Tensor& part, std::string_view what);
  // The group, for small values.
  Group& ranks() { return ranks_; }

 private:
  Group& ranks_;
  const ContextBy by_;
};

// What the ranks of a group hold of the sequences of one microbatch.
struct DividedSequences {
  SequenceGroup* group = nullptr;  // borrowed
  SequenceParts parts;
};

}  // namespace tenon
