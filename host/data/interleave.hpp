// SPDX-License-Identifier: Apache-2.0
//
// The order of turns in an endless sequence of weighted sources. In a binary tree, each node
// distributes its turns to the left and right by a fraction, and by a phase drawn from the seed.
// mix_order.hpp handles the ends and epochs of sources.
// Invariants: the turn at k is a function of seed, weights and k only, in integer arithmetic, and
// takes the same time for any k. In each prefix, a source's number of turns differs from its
// weighted share by less than four, and by less than one with two sources. Over all seeds, the
// probability of a source at any k is proportional to its weight.
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
    int64_t ordinal = 0;  // earlier turns of this source
  };

  // `weights` are finite and not negative, and at least one is positive; only their ratios matter.
  // A source of weight 0 never has a turn.
  Interleave(uint64_t seed, std::span<const double> weights);

  // Returns the turn at `k`, 0 <= k <= 2^62.
  Turn at(int64_t k) const;
  // Returns the number of turns of each source before `k`, 0 <= k <= 2^62.
  std::vector<int64_t> counts(int64_t k) const;

 private:
  struct Node {
    // Of the first n turns of a node, (n * fraction + phase) / 2^64 go to the left.
    uint64_t fraction = 0;
    uint64_t phase = 0;
    // At least 0: a node; negative: the source -1 - value.
    int64_t left = 0;
    int64_t right = 0;
  };

  static int64_t num_left(const Node& node, int64_t n);

  std::size_t num_sources_;
  std::vector<Node> nodes_;  // children before parents
  int64_t root_ = 0;
};

}  // namespace tenon
