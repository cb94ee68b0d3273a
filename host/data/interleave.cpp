// SPDX-License-Identifier: Apache-2.0

#include "host/data/interleave.hpp"

#include "host/data/rank_sampler.hpp"
#include "host/error/assert.hpp"
#include "host/tensor/philox.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>

namespace tenon {
namespace {

__extension__ using Uint128 = unsigned __int128;

// Returns the share of `part` in the sum in units of 2^-64, but never 0 and never 1.
uint64_t fraction_of(double part, double rest) {
  const double share = std::ldexp(part / (part + rest), 64);
  if (share >= std::ldexp(1.0, 64)) {
    return UINT64_MAX;
  }
  return std::max<uint64_t>(1, static_cast<uint64_t>(share));
}

}  // namespace

// A Huffman tree: the two lightest subtrees are joined first, so that heavy sources are near the
// root. The error that a node adds to a source below it is less than one turn times the share of
// the source in the node.
Interleave::Interleave(uint64_t seed, std::span<const double> weights)
    : num_sources_(weights.size()) {
  // By weight, then by order of creation, so that the tree is the same everywhere.
  using Entry = std::pair<std::pair<double, std::size_t>, int64_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  double heaviest = 0;
  for (const double weight : weights) {
    TENON_ASSERT(std::isfinite(weight) && weight >= 0, "not a weight");
    heaviest = std::max(heaviest, weight);
  }
  TENON_ASSERT(heaviest > 0, "a weight that is not zero is needed");
  std::size_t num_made = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0) {
      open.push({{weights[i] / heaviest, num_made++}, -1 - static_cast<int64_t>(i)});
    }
  }
  const uint64_t stream = stream_of("data.mix");
  while (open.size() > 1) {
    const Entry lighter = open.top();
    open.pop();
    const Entry heavier = open.top();
    open.pop();
    const auto number = static_cast<int64_t>(nodes_.size());
    nodes_.push_back({.fraction = fraction_of(heavier.first.first, lighter.first.first),
                      .phase = random_bits(seed, stream, static_cast<uint64_t>(number)),
                      .left = heavier.second,
                      .right = lighter.second});
    open.push({{heavier.first.first + lighter.first.first, num_made++}, number});
  }
  root_ = open.top().second;
}

int64_t Interleave::num_left(const Node& node, int64_t n) {
  const Uint128 scaled = static_cast<Uint128>(n) * node.fraction + node.phase;
  return static_cast<int64_t>(scaled >> 64);
}

Interleave::Turn Interleave::at(int64_t k) const {
  TENON_ASSERT(k >= 0 && k <= kMostSamples, "not a turn");
  int64_t below = root_;
  while (below >= 0) {
    const Node& node = nodes_[static_cast<std::size_t>(below)];
    const int64_t left = num_left(node, k);
    const bool is_left = num_left(node, k + 1) > left;
    k = is_left ? left : k - left;
    below = is_left ? node.left : node.right;
  }
  return {.source = static_cast<std::size_t>(-1 - below), .ordinal = k};
}

std::vector<int64_t> Interleave::counts(int64_t k) const {
  TENON_ASSERT(k >= 0 && k <= kMostSamples, "not a turn");
  std::vector<int64_t> counts(num_sources_, 0);
  std::vector<std::pair<int64_t, int64_t>> open = {{root_, k}};
  while (!open.empty()) {
    const auto [below, n] = open.back();
    open.pop_back();
    if (below < 0) {
      counts[static_cast<std::size_t>(-1 - below)] = n;
    } else {
      const Node& node = nodes_[static_cast<std::size_t>(below)];
      const int64_t left = num_left(node, n);
      open.emplace_back(node.left, left);
      open.emplace_back(node.right, n - left);
    }
  }
  return counts;
}

}  // namespace tenon
