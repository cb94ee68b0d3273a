// SPDX-License-Identifier: Apache-2.0
//
// Small collectives on which the training loop bases its decisions: votes, counts, metrics, texts.
// They move bytes on the CPU; groups (group.hpp) move tensors. One interface serves a single rank,
// many ranks, and tests that simulate many ranks. Every rank makes the same calls in the same
// order.
// Invariant: all ranks receive the same bits.
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

// A gather of bytes from all ranks, in progress.
class Gathering {
 public:
  virtual ~Gathering() = default;
  // Waits, and returns the bytes of all ranks, concatenated in rank order. They are valid while
  // this object lives.
  // Errors  distributed.failed if a rank is lost or the time limit expires
  virtual std::span<const std::byte> wait() = 0;
};

class Collective {
 public:
  virtual ~Collective() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t world_size() const = 0;

  // Starts sending `mine` to all ranks; each rank must pass the same number of bytes. `what` names
  // the purpose in reports: "votes". Copies `mine`.
  virtual std::unique_ptr<Gathering> start_gather(std::span<const std::byte> mine,
                                                  std::string_view what) = 0;

  // Replaces each value by its reduction over all ranks; sums are added in rank order.
  // Errors  as Gathering::wait, also for the functions below
  void all_reduce(std::span<int64_t> values, Reduce reduce, std::string_view what);
  void all_reduce(std::span<double> values, Reduce reduce, std::string_view what);

  // Returns the text of each rank, by rank. Texts may differ in length.
  std::vector<std::string> gather_texts(std::string_view mine, std::string_view what);

  // Returns the text of `root`; ignores the texts of other ranks.
  std::string broadcast_text(std::string_view mine, uint32_t root, std::string_view what);
};

// A world of one rank: every collective returns the rank's own values.
class SingleRank final : public Collective {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t world_size() const override { return 1; }
  std::unique_ptr<Gathering> start_gather(std::span<const std::byte> mine,
                                          std::string_view what) override;
};

}  // namespace tenon
