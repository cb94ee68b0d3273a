// SPDX-License-Identifier: Apache-2.0
//
// A group of ranks that exchange tensors, and the small values on which the training loop bases its
// decisions: votes, counts, metrics, texts. The caller decides what to move and when; world.hpp
// chooses the engine (shared memory, Gloo, NCCL), and rank_groups.hpp names the groups of a run.
// One interface serves a single rank, many ranks, and tests that simulate many ranks.
//
// Every rank of the group makes the same calls in the same order with the same sizes, except for
// send and receive, which pair up. Calls of different groups may interleave in any way.
// Invariants: works of a group finish in the order in which they were started; the same calls on
// the same number of ranks give the same bits; on the CPU, reduce_scatter adds in rank order; all
// ranks receive the same bits.
// Threads: the train thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace at {
class Tensor;
}

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

// A gather of bytes from all ranks, in progress.
class Gathering {
 public:
  virtual ~Gathering() = default;
  // Waits, and returns the bytes of all ranks, concatenated in rank order. They are valid while
  // this object lives.
  // Errors  distributed.failed if a rank is lost or the time limit expires
  virtual std::span<const std::byte> wait() = 0;
};

enum class Reduce { kMax, kSum };

class Group {
 public:
  virtual ~Group() = default;

  virtual uint32_t rank() const = 0;  // in the group
  virtual uint32_t size() const = 0;
  bool is_alone() const { return size() == 1; }

  // `what` names the data in reports: "gradients of block 3", "votes". n is size().

  // ---- small values, in CPU memory on any device of the group ----

  // Starts sending `mine` to all ranks; each rank must pass the same number of bytes. Copies
  // `mine`.
  virtual std::unique_ptr<Gathering> start_gather(std::span<const std::byte> mine,
                                                  std::string_view what) = 0;

  // Replaces each value by its reduction over all ranks; sums are added in rank order.
  // Errors  as Gathering::wait, also for the functions below
  void all_reduce(std::span<int64_t> values, Reduce reduce, std::string_view what);
  void all_reduce(std::span<double> values, Reduce reduce, std::string_view what);

  // Returns the text of each rank, by rank. Texts may differ in length.
  std::vector<std::string> gather_texts(std::string_view mine, std::string_view what);

  // Returns the text of `root`; ignores the texts of other ranks.
  std::string broadcast_text(std::string_view mine, uint32_t root, std::string_view what);

  // ---- tensors, contiguous and on the group's device ----

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

  // Sends a tensor to another rank of the group, which receives it with the same shape and dtype.
  // The n-th tensor that a rank sends to another is the n-th that the other receives from it. Other
  // ranks take no part.
  // Shapes  whole [k]
  virtual std::unique_ptr<Work> send(const at::Tensor& whole,
                                     uint32_t to,
                                     std::string_view what) = 0;
  virtual std::unique_ptr<Work> receive(at::Tensor& whole,
                                        uint32_t from,
                                        std::string_view what) = 0;
};

// A group of this rank only: nothing is sent.
class LocalGroup final : public Group {
 public:
  using Group::all_reduce;

  uint32_t rank() const override { return 0; }
  uint32_t size() const override { return 1; }
  std::unique_ptr<Gathering> start_gather(std::span<const std::byte> mine,
                                          std::string_view what) override;
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
  // Never called: there is no other rank.
  std::unique_ptr<Work> send(const at::Tensor& whole, uint32_t to, std::string_view what) override;
  std::unique_ptr<Work> receive(at::Tensor& whole, uint32_t from, std::string_view what) override;
};

}  // namespace tenon
