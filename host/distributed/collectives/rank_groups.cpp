// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/rank_groups.hpp"

#include "host/error/assert.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace tenon {

RankGroups::RankGroups() : copies_({{1, &alone_, &alone_}}) {}

RankGroups::RankGroups(World& world, const RankRole& role) : world_(&world), role_(role) {
  connect_values();
}

void RankGroups::connect(c10::Device device, bool has_tables, const Parameters& parameters) {
  TENON_ASSERT(!is_connected_, "groups are connected once");
  is_connected_ = true;
  device_ = device;
  has_tables_ = has_tables;
  std::set<uint32_t> numbers(parameters.copies.begin(), parameters.copies.end());
  numbers.insert({1, role_.tensor().count});
  copies_.clear();
  for (const uint32_t num_copies : numbers) {
    copies_.push_back({.num_copies = num_copies, .of_slice = &alone_, .of_whole = &alone_});
  }
  for (const std::vector<uint32_t>& holders : parameters.holders) {
    holders_.emplace(holders, &alone_);
  }
  connect_tensors();
}

// The group of all ranks exists already.
void RankGroups::connect_values() {
  values_.all = &world_->control();
  const auto of = [this](RankSet set, std::string_view name) {
    return role_.index_in(set).count == role_.num_ranks()
               ? values_.all
               : make(set, Lane::kValues, name, c10::kCPU);
  };
  values_.stage = of(RankSet::kStage, "stage");
  values_.samples = of(RankSet::kSamples, "samples");
  values_.tokens = of(RankSet::kTokens, "tokens");
  values_.sums = of(RankSet::kSums, "sums");
  values_.pipeline = of(RankSet::kPipeline, "pipeline");
}

void RankGroups::connect_tensors() {
  if (world_ == nullptr) {
    return;
  }
  tensors_.gather = make(RankSet::kSlices, Lane::kGather, "gather", device_);
  tensors_.reduce = make(RankSet::kSlices, Lane::kReduce, "reduce", device_);
  for (Copies& one : copies_) {
    one.of_slice =
        make(role_.copies_of_slice(one.num_copies), Lane::kReplicate, "replicate", device_);
  }
  tensors_.tensor = make(RankSet::kTensor, Lane::kTensor, "tensor", device_);
  tensors_.context = make(RankSet::kContext, Lane::kContext, "context", device_);
  tensors_.messages = make(RankSet::kPipeline, Lane::kMessages, "messages", device_);
  tensors_.stages = make(RankSet::kPipeline, Lane::kStages, "stages", device_);
  const std::vector<uint32_t> pipeline = role_.ranks_of(RankSet::kPipeline);
  for (auto& [holders, group] : holders_) {
    std::vector<uint32_t> ranks;
    for (const uint32_t holder : holders) {
      ranks.push_back(pipeline[holder]);
    }
    if (std::ranges::find(ranks, role_.rank()) != ranks.end()) {
      group = make(std::move(ranks), Lane::kStages, "holders", device_);
    }
  }
  tensors_.all = make(RankSet::kAll, Lane::kTensors, "all", device_);
  for (Copies& one : copies_) {
    one.of_whole = make(role_.copies_of_whole(one.num_copies), Lane::kTensors, "copies", device_);
  }
  if (has_tables_) {
    tensors_.rows = make(RankSet::kTokens, Lane::kRows, "tables", c10::kCPU);
  }
  // Sending and receiving does not wait for collectives of the same group.
  tensors_.parts = device_.is_cpu() ? tensors_.context
                                    : make(RankSet::kContext, Lane::kParts, "parts", c10::kCPU);
}

Group* RankGroups::make(RankSet set, Lane lane, std::string_view name, c10::Device device) {
  return make(role_.ranks_of(set), lane, name, device);
}

Group* RankGroups::make(std::vector<uint32_t> ranks,
                        Lane lane,
                        std::string_view name,
                        c10::Device device) {
  const auto same = std::ranges::find_if(
      made_, [&](const Made& one) { return one.lane == lane && one.ranks == ranks; });
  if (same != made_.end()) {
    return same->group.get();
  }
  auto group = world_->make_group(ranks, name, device);
  made_.push_back({.ranks = std::move(ranks), .lane = lane, .group = std::move(group)});
  return made_.back().group.get();
}

const RankGroups::Copies& RankGroups::copies_of(uint32_t num_copies) const {
  const auto one = std::ranges::find(copies_, num_copies, &Copies::num_copies);
  TENON_ASSERT(one != copies_.end(), "the groups of this number of copies are connected");
  return *one;
}

Group& RankGroups::holders(const std::vector<uint32_t>& holders) {
  const auto one = holders_.find(holders);
  TENON_ASSERT(one != holders_.end(), "the groups of these holders are connected");
  return *one->second;
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
