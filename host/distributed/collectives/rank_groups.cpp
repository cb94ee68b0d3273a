// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/rank_groups.hpp"

#include "host/error/assert.hpp"

#include <algorithm>
#include <utility>

namespace tenon {

RankGroups::RankGroups() = default;

RankGroups::RankGroups(World& world, const RankRole& role) : world_(&world), role_(role) {
  connect_values();
}

void RankGroups::connect(c10::Device device, bool has_tables) {
  TENON_ASSERT(!is_connected_, "groups are connected once");
  is_connected_ = true;
  device_ = device;
  has_tables_ = has_tables;
  connect_tensors();
}

// The group of all ranks exists already.
void RankGroups::connect_values() {
  all_ = &world_->control();
  const auto of = [this](RankSet set, std::string_view name) {
    return role_.index_in(set).count == role_.num_ranks()
               ? all_
               : make(set, Lane::kValues, name, c10::kCPU);
  };
  samples_ = of(RankSet::kSamples, "samples");
  tokens_ = of(RankSet::kTokens, "tokens");
}

void RankGroups::connect_tensors() {
  if (world_ == nullptr) {
    return;
  }
  gather_ = make(RankSet::kSlices, Lane::kGather, "gather", device_);
  reduce_ = make(RankSet::kSlices, Lane::kReduce, "reduce", device_);
  replicas_ = make(RankSet::kReplicas, Lane::kReplicate, "replicate", device_);
  context_ = make(RankSet::kContext, Lane::kContext, "context", device_);
  on_device_ = make(RankSet::kAll, Lane::kTensors, "all", device_);
  whole_ = make(RankSet::kTokens, Lane::kTensors, "tokens", device_);
  if (has_tables_) {
    rows_ = make(RankSet::kTokens, Lane::kRows, "tables", c10::kCPU);
  }
  // Sending and receiving does not wait for collectives of the same group.
  parts_ = device_.is_cpu() ? context_ : make(RankSet::kContext, Lane::kParts, "parts", c10::kCPU);
}

Group* RankGroups::make(RankSet set, Lane lane, std::string_view name, c10::Device device) {
  std::vector<uint32_t> ranks = role_.ranks_of(set);
  const auto same = std::ranges::find_if(
      made_, [&](const Made& one) { return one.lane == lane && one.ranks == ranks; });
  if (same != made_.end()) {
    return same->group.get();
  }
  auto group = world_->make_group(ranks, name, device);
  made_.push_back({.ranks = std::move(ranks), .lane = lane, .group = std::move(group)});
  return made_.back().group.get();
}

void RankGroups::reconnect() {
  if (world_ == nullptr) {
    return;
  }
  made_.clear();
  world_->reconnect();
  connect_values();
  if (is_connected_) {
    connect_tensors();
  }
}

}  // namespace tenon
