// SPDX-License-Identifier: Apache-2.0
//
// Bytes of planned tensors, each counted once while anything holds it.
// Threads: any, one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace tenon {

// A reference to a planned tensor; 0 if there is none.
using PlannedTensor = uint32_t;

class PlannedTensors {
 public:
  // kActivations: values, gradients of values, and what blocks keep and return.
  // kGathered: temporary unsharded parameters and gradients.
  enum class Kind : uint8_t { kActivations, kGathered };

  // Returns the memory that an allocator uses for a tensor; null: exactly the tensor's bytes.
  using BlockBytes = int64_t (*)(int64_t bytes);
  explicit PlannedTensors(BlockBytes block_bytes) : block_bytes_(block_bytes), tensors_(1) {}

  // Returns a new tensor with one holder.
  PlannedTensor make(Kind kind, int64_t bytes);
  // The same for several tensors of unknown sizes, without the allocator's rounding.
  PlannedTensor make_several(Kind kind, int64_t bytes);
  // Adds a holder. Returns `tensor`.
  PlannedTensor hold(PlannedTensor tensor);
  // Removes a holder. The memory is freed with the last one. Sets `tensor` to 0.
  void release(PlannedTensor& tensor);

  int64_t bytes(Kind kind) const { return bytes_[static_cast<size_t>(kind)]; }
  int64_t rounding() const { return rounding_; }
  int64_t sum() const { return bytes_[0] + bytes_[1] + rounding_; }

  int64_t block_bytes(int64_t bytes) const {
    return block_bytes_ != nullptr ? block_bytes_(bytes) : bytes;
  }

 private:
  struct Tensor {
    Kind kind = Kind::kActivations;
    uint32_t holders = 0;
    int64_t bytes = 0;
    int64_t rounding = 0;
  };
  PlannedTensor add(const Tensor& tensor);

  const BlockBytes block_bytes_;
  std::vector<Tensor> tensors_;       // the first one is not used
  std::vector<PlannedTensor> freed_;  // to be used again
  std::array<int64_t, 2> bytes_{};
  int64_t rounding_ = 0;  // that the allocator adds
};

}  // namespace tenon
