// SPDX-License-Identifier: Apache-2.0
//
// A group of ranks that exchange tensors: the ranks along one dimension of the mesh. The caller
// decides what to move and when; world.hpp chooses the engine (Gloo, NCCL). Every rank of the group
// makes the same calls in the same order with the same sizes. Calls of different groups may
// interleave in any way.
// Invariants: works of a group finish in the order in which they were started; the same calls on
// the same number of ranks give the same bits; on the CPU, reduce_scatter adds in rank order.
// Threads: the train thread alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace tenon {

// A collective in progress. Until `wait` returns, nothing else may read, write or free its tensors.
class Work {
 public:
  virtual ~Work() = default;
  // Returns true if `wait` would not have to wait for other ranks.
  virtual bool is_done() = 0;
  // Waits for the collective; called once. On a GPU, the compute stream waits, not the thread.
  // Errors  distributed.failed if a rank is lost or the time limit expires
  virtual void wait() = 0;
};

class Group {
 public:
  virtual ~Group() = default;

  virtual uint32_t rank() const = 0;  // in the group
  virtual uint32_t size() const = 0;

  // `what` names the data in reports: "gradients of block 3". All tensors are contiguous and on the
  // group's device; n is size().

  // Replaces `whole` by its sum over ranks.
  // Shapes  whole [k]
  virtual std::unique_ptr<Work> all_reduce(at::Tensor& whole, std::string_view what) = 0;

  // Fills `whole` with the parts of all ranks, by rank. `part` may be this rank's part of `whole`.
  // Shapes  whole [n * k], part [k]
  virtual std::unique_ptr<Work> all_gather(at::Tensor& whole,
                                           const at::Tensor& part,
                                           std::string_view what) = 0;

  // Sets `part` to this rank's part of the sum of `whole` over ranks. `part` may have a wider
  // dtype: elements are sent in the dtype of `whole`, and added in the dtype of `part`.
  // Shapes  part [k], whole [n * k]
  virtual std::unique_ptr<Work> reduce_scatter(at::Tensor& part,
                                               const at::Tensor& whole,
                                               std::string_view what) = 0;

  // Copies `whole` of `root`, a rank of the group, to all ranks.
  // Shapes  whole [k]
  virtual std::unique_ptr<Work> broadcast(at::Tensor& whole,
                                          uint32_t root,
                                          std::string_view what) = 0;

  // Sends each rank its piece of `send`, and fills `receive` with the pieces that all ranks sent
  // here. Both are in rank order. Counts are the elements of each piece, and may be 0. Each rank
  // has its own counts: the count that one rank sends to another equals the count that the other
  // rank receives.
  // Shapes  receive [sum of receive_counts], send [sum of send_counts], counts [n]
  virtual std::unique_ptr<Work> all_to_all(at::Tensor& receive,
                                           std::span<const int64_t> receive_counts,
                                           const at::Tensor& send,
                                           std::span<const int64_t> send_counts,
                                           std::string_view what) = 0;
};

// A group of this rank only: nothing is sent.
class LocalGroup final : public Group {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t size() const override { return 1; }
  std::unique_ptr<Work> all_reduce(at::Tensor& whole, std::string_view what) override;
  std::unique_ptr<Work> all_gather(at::Tensor& whole,
                                   const at::Tensor& part,
                                   std::string_view what) override;
  std::unique_ptr<Work> reduce_scatter(at::Tensor& part,
                                       const at::Tensor& whole,
                                       std::string_view what) override;
  std::unique_ptr<Work> broadcast(at::Tensor& whole, uint32_t root, std::string_view what) override;
  std::unique_ptr<Work> all_to_all(at::Tensor& receive,
                                   std::span<const int64_t> receive_counts,
                                   const at::Tensor& send,
                                   std::span<const int64_t> send_counts,
                                   std::string_view what) override;
};

}  // namespace tenon
