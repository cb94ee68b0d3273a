// SPDX-License-Identifier: Apache-2.0
//
// Whose turn it is in an endless sequence of sources with weights: a binary tree whose nodes each
// share out what reaches them, left and right, by a fraction and a phase drawn from the seed.
// Not for ends and epochs of sources: mix_order.hpp's.
// Invariants: the turn at k is a function of seed, weights and k alone, in integer arithmetic, and
// takes the same time for any k; each source has a share of each prefix that is less than four
// turns off its weight's, less than one with two sources; over all seeds the turn at any k falls to
// a source with the probability of its weight.
// Threads: a value; const functions from any.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

class Interleave {
 public:
  struct Turn {
    std::size_t source = 0;
    int64_t ordinal = 0;  // turns of this source before
  };

  // `weights` are finite, none is negative and one at least is not zero; only their ratios count.
  // A source of weight 0 never has a turn.
  Interleave(uint64_t seed, std::span<const double> weights);

  // The turn at `k`, 0 <= k <= 2^62.
  Turn at(int64_t k) const;
  // Turns of each source before `k`, 0 <= k <= 2^62.
  std::vector<int64_t> counts(int64_t k) const;

 private:
  struct Node {
    // Of the first n that reach a node, (n * fraction + phase) / 2^64 go to the left.
    uint64_t fraction = 0;
    uint64_t phase = 0;
    // At least 0: a node; below: the source -1 - value.
    int64_t left = 0;
    int64_t right = 0;
  };

  static int64_t num_left(const Node& node, int64_t n);

  std::size_t num_sources_;
  std::vector<Node> nodes_;  // children before parents
  int64_t root_ = 0;
};

}  // namespace tenon
