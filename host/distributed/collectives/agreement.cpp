// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/agreement.hpp"

#include "host/error/assert.hpp"

#include <algorithm>
#include <cstring>

namespace tenon {

// Wire format: the votes as int64, then the numbers as doubles.
void Agreement::start(std::span<const double> to_add) {
  TENON_ASSERT(under_way_ == nullptr, "one agreement at a time");
  travelling_ = pending_;
  pending_ = Decision();
  sums_.assign(to_add.begin(), to_add.end());
  by_rank_.assign(ranks_.size(), travelling_);
  if (ranks_.size() == 1) {
    return;
  }
  std::vector<std::byte> mine(sizeof(travelling_.votes_) + to_add.size_bytes());
  std::memcpy(mine.data(), travelling_.votes_.data(), sizeof(travelling_.votes_));
  if (!to_add.empty()) {
    std::memcpy(mine.data() + sizeof(travelling_.votes_), to_add.data(), to_add.size_bytes());
  }
  under_way_ = ranks_.start_gather(mine, "votes");
}

const Decision& Agreement::resolve() {
  if (under_way_ == nullptr) {
    return travelling_;
  }
  const std::span<const std::byte> all = under_way_->wait();
  const size_t stride = sizeof(travelling_.votes_) + sums_.size() * sizeof(double);
  std::vector<double> numbers(sums_.size());
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const std::byte* const begin = all.data() + rank * stride;
    auto& votes = by_rank_[rank].votes_;
    std::memcpy(votes.data(), begin, sizeof(votes));
    for (size_t i = 0; i < votes.size(); ++i) {
      travelling_.votes_[i] = std::max(travelling_.votes_[i], votes[i]);
    }
    if (!numbers.empty()) {
      std::memcpy(numbers.data(), begin + sizeof(votes), numbers.size() * sizeof(double));
    }
    for (size_t i = 0; i < numbers.size(); ++i) {
      sums_[i] = rank == 0 ? numbers[i] : sums_[i] + numbers[i];
    }
  }
  under_way_.reset();
  return travelling_;
}

bool Agreement::has_voted(uint32_t rank, Vote vote) {
  resolve();
  return by_rank_[rank].has(vote);
}

std::span<const double> Agreement::sums() {
  resolve();
  return sums_;
}

const Decision& Agreement::resolve_now() {
  start();
  return resolve();
}

}  // namespace tenon
