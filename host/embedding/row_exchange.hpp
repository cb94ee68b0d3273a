// SPDX-License-Identifier: Apache-2.0
//
// What ranks send each other of tables whose rows are shared out: ids to the ranks that own them,
// and a few numbers for each id, back or forth. It keeps no row and knows no table but its number.
// Invariants: an id has one owner, by its hash alone; all ranks make the same calls in the same
// order, one without ids too; what is received is in the order of ranks, then of tables, then as
// the sender had it.
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

// Ids of one table, distinct, and how often each was seen.
struct SeenIds {
  std::vector<int64_t> ids;
  std::vector<int64_t> counts;
};

class RowExchange {
 public:
  // `group` is borrowed, and nobody else's.
  RowExchange(Group& group, size_t num_tables);

  uint32_t rank() const { return group_.rank(); }
  uint32_t size() const { return group_.size(); }

  static uint32_t owner_of(int64_t id, uint32_t num_ranks);

  // Begins to tell each owner the ids of its rows. By table, then owner.
  void ask(const std::vector<std::vector<SeenIds>>& ids);
  // Ids are on their way that `asked` has not been called for.
  bool is_asking() const { return is_asking_; }

  // What a rank is asked for. The spans last until the next `ask`.
  struct Asked {
    std::span<const int64_t> ids;
    std::span<const int64_t> counts;
  };
  // By table, then rank.
  // Errors  distributed.failed; so have all below
  std::vector<std::vector<Asked>> asked();

  // Begins to send numbers[r] numbers to each rank r, which `fill` writes, and to receive as many
  // from it as `expected` says.
  using Fill = std::function<void(uint32_t rank, float* numbers)>;
  void send(std::span<const int64_t> numbers,
            std::span<const int64_t> expected,
            const Fill& fill,
            std::string_view what);
  // What each rank has sent, by rank. Waits. The pointers last until the next `send`.
  std::vector<const float*> receive();

 private:
  Group& group_;
  const size_t num_tables_;
  bool is_asking_ = false;
  at::Tensor sent_lengths_;
  at::Tensor lengths_;  // [ranks, tables], of what is received
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
