// SPDX-License-Identifier: Apache-2.0
//
// The collectives that the loop decides by. One interface, so that the loop reads the same for one
// rank and for many, and tests can pretend to be many. Every rank makes the same calls in the same
// order with the same sizes. Threads: the train thread alone.
#pragma once

#include <cstdint>
#include <span>

namespace tenon {

enum class Reduce { kMax, kSum };

class Collective {
 public:
  virtual ~Collective() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t world_size() const = 0;

  // Replaces each value by the reduction of that value over all ranks.
  // Errors  distributed.failed if a rank is lost
  virtual void all_reduce(std::span<int64_t> values, Reduce reduce) = 0;
  virtual void all_reduce(std::span<double> values, Reduce reduce) = 0;
};

// The world of one rank: what is its own is everybody's.
class SingleRank final : public Collective {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t world_size() const override { return 1; }
  void all_reduce(std::span<int64_t>, Reduce) override {}
  void all_reduce(std::span<double>, Reduce) override {}
};

}  // namespace tenon
