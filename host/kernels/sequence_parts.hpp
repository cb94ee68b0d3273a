// SPDX-License-Identifier: Apache-2.0
//
// How the positions of sequences are divided among ranks, and the scope in which operators see the
// positions of all ranks. Knows no engine: a higher folder sends the bytes.
// Threads: a scope is of the thread that made it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tenon {

// The ranks that hold the parts of the same sequences.
class SequenceRanks {
 public:
  virtual ~SequenceRanks() = default;
  virtual uint32_t rank() const = 0;  // of this rank; parts are in the order of ranks
  virtual uint32_t size() const = 0;
  // Sends each rank its piece of `send`, and fills `receive` with the pieces that all ranks sent
  // here, both in rank order, and waits. The count that one rank sends to another equals the count
  // that the other receives; counts may be 0.
  // Shapes  receive [sum of receive_counts], send [sum of send_counts], contiguous; counts [size()]
  // Errors  those of the engine
  virtual void exchange(at::Tensor& receive,
                        std::span<const int64_t> receive_counts,
                        const at::Tensor& send,
                        std::span<const int64_t> send_counts,
                        std::string_view what) = 0;
};

// How attention sees the positions of other ranks.
enum class ContextBy {
  kHeads,  // "ulysses": each rank gets all positions of some of the heads
  kKeys,   // "gather": each rank gets the keys and values of all positions
};

// What each rank holds of the sequences of a microbatch.
struct SequenceParts {
  SequenceRanks* ranks = nullptr;  // borrowed
  ContextBy by = ContextBy::kHeads;
  std::vector<int64_t> lengths;  // positions of each rank; some may be 0

  int64_t length() const { return lengths[ranks->rank()]; }
  // Positions before those of this rank, or of another.
  int64_t begin() const { return begin_of(ranks->rank()); }
  int64_t begin_of(uint32_t rank) const;
  // Positions of all ranks.
  int64_t whole() const;
};

// Integers of this rank's positions, such as segments, and those of all positions.
struct WholeIntegers {
  at::Tensor part_BT;
  uint32_t version = 0;  // of part_BT, when it was sent
  at::Tensor whole_BS;
};

// Until its end, attention calls of this thread are over the sequences of all ranks.
class SequenceScope {
 public:
  // `parts` is borrowed, also by backward calls after the scope ends. Null: calls are over what
  // they are given.
  explicit SequenceScope(const SequenceParts* parts);
  ~SequenceScope();
  SequenceScope(const SequenceScope&) = delete;
  SequenceScope& operator=(const SequenceScope&) = delete;

  // The innermost scope of this thread; null if there is none.
  static SequenceScope* current();
  const SequenceParts* parts() const { return parts_; }
  // The last integers that calls exchanged, so that tensors that calls share are sent once.
  std::vector<WholeIntegers>& exchanged() { return exchanged_; }

 private:
  const SequenceParts* parts_;
  SequenceScope* before_;
  std::vector<WholeIntegers> exchanged_;
};

// Returns the parts of this thread's scope; null if there is none.
const SequenceParts* sequence_parts();

}  // namespace tenon
