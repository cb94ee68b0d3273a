// SPDX-License-Identifier: Apache-2.0
//
// The small collectives that the loop decides by: votes, counts, metrics, texts. They move bytes on
// the CPU; tensors are moved by groups (group.hpp). One interface, so that the loop reads the same
// for one rank and for many, and tests can pretend to be many. Every rank makes the same calls in
// the same order. Invariant: all ranks are given the same bits.
// Threads: the train thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

enum class Reduce { kMax, kSum };

// Bytes of all ranks that are on their way.
class Gathering {
 public:
  virtual ~Gathering() = default;
  // The bytes of all ranks, by rank, one after the other. Waits for them; valid while this lives.
  // Errors  distributed.failed if a rank is lost or the time is up
  virtual std::span<const std::byte> wait() = 0;
};

class Collective {
 public:
  virtual ~Collective() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t world_size() const = 0;

  // Begins to give `mine` to all ranks; each rank gives the same number of bytes. `what` says what
  // it is for, in reports: "votes". Copies `mine`.
  virtual std::unique_ptr<Gathering> start_gather(std::span<const std::byte> mine,
                                                  std::string_view what) = 0;

  // Replaces each value by the reduction of that value over all ranks; sums are made in the order
  // of ranks.
  // Errors  as Gathering::wait; so have all below
  void all_reduce(std::span<int64_t> values, Reduce reduce, std::string_view what);
  void all_reduce(std::span<double> values, Reduce reduce, std::string_view what);

  // What each rank gave, by rank; of any lengths.
  std::vector<std::string> gather_texts(std::string_view mine, std::string_view what);

  // What `root` gave; what others give is not looked at.
  std::string broadcast_text(std::string_view mine, uint32_t root, std::string_view what);
};

// The world of one rank: what is its own is everybody's.
class SingleRank final : public Collective {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t world_size() const override { return 1; }
  std::unique_ptr<Gathering> start_gather(std::span<const std::byte> mine,
                                          std::string_view what) override;
};

}  // namespace tenon
