// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/planned_links.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tenon {

PlannedLinks::PlannedLinks(int64_t replicate,
                           int64_t shard,
                           const PlanMachine& machine,
                           int64_t first)
    : machine_(machine), first_(first), ranks_(replicate * shard) {
  const auto node_of = [&](int64_t rank) {
    return (first + rank) / machine.ranks_per_node - first / machine.ranks_per_node;
  };
  std::vector<Crossing> by_node(static_cast<size_t>(node_of(ranks_ - 1) + 1));
  for (int64_t rank = 0; rank < ranks_; ++rank) {
    const int64_t r = rank / shard;
    const int64_t s = rank % shard;
    const auto here = static_cast<size_t>(node_of(rank));
    const auto count = [&](int64_t next, int64_t Crossing::*kind) {
      if (node_of(next) != node_of(rank)) {
        ++(all_.*kind);
        ++(by_node[here].*kind);
      }
    };
    count(r * shard + (s + 1) % shard, &Crossing::shard);
    count((r + 1) % replicate * shard + s, &Crossing::replicate);
    count((rank + 1) % ranks_, &Crossing::world);
  }
  for (const Crossing& node : by_node) {
    busiest_.shard = std::max(busiest_.shard, node.shard);
    busiest_.replicate = std::max(busiest_.replicate, node.replicate);
    busiest_.world = std::max(busiest_.world, node.world);
  }
}

int64_t PlannedLinks::mean_between(int64_t bytes, int64_t Crossing::*kind) const {
  return static_cast<int64_t>(static_cast<double>(bytes) * static_cast<double>(all_.*kind) /
                              static_cast<double>(ranks_));
}

double PlannedLinks::seconds(int64_t bytes,
                             int64_t ranks,
                             int64_t Crossing::*kind,
                             int rounds) const {
  if (ranks <= 1 || bytes == 0) {
    return 0;
  }
  const double bandwidth = all_.*kind > 0 ? machine_.bandwidth_network : machine_.bandwidth_node;
  return static_cast<double>(bytes) / bandwidth +
         static_cast<double>(rounds * (ranks - 1)) * machine_.latency;
}

double PlannedLinks::share_away(int64_t distance) const {
  const auto node_of = [this](int64_t rank) { return rank / machine_.ranks_per_node; };
  int64_t away = 0;
  for (int64_t rank = first_; rank < first_ + ranks_; ++rank) {
    away += node_of(rank) != node_of(rank + distance * ranks_) ? 1 : 0;
  }
  return static_cast<double>(away) / static_cast<double>(ranks_);
}

int64_t PlannedLinks::messages_leaving(int64_t bytes) const {
  return bytes * std::min(ranks_, machine_.ranks_per_node);
}

double PlannedLinks::message_seconds(int64_t bytes, int64_t distance) const {
  if (bytes == 0) {
    return 0;
  }
  const double bandwidth =
      share_away(distance) > 0 ? machine_.bandwidth_network : machine_.bandwidth_node;
  return static_cast<double>(bytes) / bandwidth + machine_.latency;
}

double PlannedLinks::sum_seconds(int64_t bytes,
                                 const std::vector<uint32_t>& pipeline_ranks,
                                 uint32_t here) const {
  const bool is_away = std::ranges::any_of(pipeline_ranks, [&](uint32_t there) {
    return share_away(static_cast<int64_t>(there) - static_cast<int64_t>(here)) > 0;
  });
  const double bandwidth = is_away ? machine_.bandwidth_network : machine_.bandwidth_node;
  return static_cast<double>(bytes) / bandwidth +
         2 * static_cast<double>(pipeline_ranks.size() - 1) * machine_.latency;
}

int64_t all_reduce_bytes(int64_t numel, at::ScalarType wire, int64_t ranks, bool on_cpu) {
  const auto size = static_cast<int64_t>(c10::elementSize(wire));
  if (ranks <= 1) {
    return 0;
  }
  if (on_cpu && size < static_cast<int64_t>(sizeof(float))) {
    const int64_t part = (numel + ranks - 1) / ranks;
    return (numel - std::min(part, numel) + (ranks - 1) * part) * size;
  }
  return 2 * numel * size * (ranks - 1) / ranks;
}

}  // namespace tenon
