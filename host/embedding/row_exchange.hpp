// SPDX-License-Identifier: Apache-2.0
//
// Communication between ranks for sharded tables: sends ids to the ranks that own them, and a few
// numbers per id in either direction. It stores no rows, and identifies tables only by number.
// Invariants: The hash of an id alone determines its owner. All ranks make the same calls in the
// same order, even without ids. Received data is ordered by rank, then by table, then as sent.
// Threads: the train thread.
#pragma once

#include "host/distributed/collectives/group.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace tenon {

// Distinct ids of one table, and the number of occurrences of each.
struct SeenIds {
  std::vector<int64_t> ids;
  std::vector<int64_t> counts;
};

class RowExchange {
 public:
  // `group` is borrowed, for exclusive use.
  RowExchange(Group& group, size_t num_tables);

  uint32_t rank() const { return group_.rank(); }
  uint32_t size() const { return group_.size(); }

  static uint32_t owner_of(int64_t id, uint32_t num_ranks);

  // Starts sending each owner the ids of its rows. `ids` is indexed by table, then by owner.
  void ask(const std::vector<std::vector<SeenIds>>& ids);
  // True after `ask` until `asked`.
  bool is_asking() const { return is_asking_; }

  // The ids that one rank requests from this rank. The spans are valid until the next `ask`.
  struct Asked {
    std::span<const int64_t> ids;
    std::span<const int64_t> counts;
  };
  // Waits for the requests of all ranks, and returns them by table, then by rank.
  // Errors  distributed.failed; also for all functions below
  std::vector<std::vector<Asked>> asked();

  // Starts sending numbers[r] numbers, which `fill` writes, to each rank r, and receiving
  // expected[r] numbers from it. `what` describes the numbers, for messages.
  using Fill = std::function<void(uint32_t rank, float* numbers)>;
  void send(std::span<const int64_t> numbers,
            std::span<const int64_t> expected,
            const Fill& fill,
            std::string_view what);
  // Waits, and returns the numbers from each rank. The pointers are valid until the next `send`.
  std::vector<const float*> receive();

 private:
  Group& group_;
  const size_t num_tables_;
  bool is_asking_ = false;
  at::Tensor sent_lengths_;
  at::Tensor lengths_;  // [ranks, tables]: numbers of ids to receive
  at::Tensor sent_ids_;
  std::vector<int64_t> sent_counts_;
  at::Tensor ids_;
  at::Tensor sent_numbers_;
  at::Tensor numbers_;
  std::vector<int64_t> expected_;
  std::unique_ptr<Work> lengths_work_;
  std::unique_ptr<Work> numbers_work_;
};

}  // namespace tenon
