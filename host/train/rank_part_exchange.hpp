// SPDX-License-Identifier: Apache-2.0
//
// The exchange of parts of batches among the ranks of a run that divide the positions of sequences.
// Threads: the train thread; see PartExchange for the order of calls.
#pragma once

#include "host/data/part_exchange.hpp"
#include "host/distributed/collectives/rank_groups.hpp"

#include <cstdint>
#include <exception>
#include <span>

namespace tenon {

class RankPartExchange final : public PartExchange {
 public:
  // `ranks` is borrowed, and connected before the first exchange.
  explicit RankPartExchange(RankGroups& ranks) : ranks_(ranks) {}

  void send(std::span<const at::Tensor> messages) override;
  at::Tensor receive(int64_t from) override;
  Error error_of(const std::exception& failure) const override;

 private:
  RankGroups& ranks_;
};

}  // namespace tenon
