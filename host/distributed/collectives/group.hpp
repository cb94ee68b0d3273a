// SPDX-License-Identifier: Apache-2.0
//
// A group of ranks that move tensors among each other: those along one dimension of the mesh. What
// is moved, and when, is the caller's; which engine moves it (Gloo, NCCL) is world.hpp's. Every
// rank of the group makes the same calls in the same order with the same sizes; calls of several
// groups may interleave in any way. Invariants: works of a group are done in the order in which
// they were begun; the same calls on the same number of ranks give the same bits; on the CPU, sums
// of reduce_scatter are made in the order of ranks.
// Threads: the train thread alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace tenon {

// A collective under way. Tensors that it was given are neither read nor written by others, nor
// freed, until `wait` has returned.
class Work {
 public:
  virtual ~Work() = default;
  // True if `wait` would not have to wait for other ranks.
  virtual bool is_done() = 0;
  // To be called once. On a GPU what is computed from here on waits, the thread does not.
  // Errors  distributed.failed if a rank is lost or the time is up
  virtual void wait() = 0;
};

class Group {
 public:
  virtual ~Group() = default;

  virtual uint32_t rank() const = 0;  // in the group
  virtual uint32_t size() const = 0;

  // `what` says what is moved, in reports: "gradients of block 3". All tensors are contiguous and
  // on the group's device; n is size().

  // whole becomes the sum over ranks.
  // Shapes  whole [k]
  virtual std::unique_ptr<Work> all_reduce(at::Tensor& whole, std::string_view what) = 0;

  // whole becomes the parts of all ranks, by rank. `part` may be this rank's place in `whole`.
  // Shapes  whole [n * k], part [k]
  virtual std::unique_ptr<Work> all_gather(at::Tensor& whole,
                                           const at::Tensor& part,
                                           std::string_view what) = 0;

  // part becomes this rank's place in the sum of `whole` over ranks. It may be of a wider dtype
  // than `whole`, which is what travels; the sum is then made in part's.
  // Shapes  part [k], whole [n * k]
  virtual std::unique_ptr<Work> reduce_scatter(at::Tensor& part,
                                               const at::Tensor& whole,
                                               std::string_view what) = 0;

  // whole becomes that of `root`, a rank of the group.
  // Shapes  whole [k]
  virtual std::unique_ptr<Work> broadcast(at::Tensor& whole,
                                          uint32_t root,
                                          std::string_view what) = 0;

  // What `send` holds for each rank goes there, and `receive` becomes what each rank has sent here,
  // both by rank. Counts say how many elements are whose: each rank has its own, and what one sends
  // to another, the other receives. They may be 0.
  // Shapes  receive [sum of receive_counts], send [sum of send_counts], counts [n]
  virtual std::unique_ptr<Work> all_to_all(at::Tensor& receive,
                                           std::span<const int64_t> receive_counts,
                                           const at::Tensor& send,
                                           std::span<const int64_t> send_counts,
                                           std::string_view what) = 0;
};

// A group of this rank alone: nothing is sent.
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
