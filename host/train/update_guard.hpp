// SPDX-License-Identifier: Apache-2.0
//
// The policy on updates that are not finite: what is made of one, how it is told, how many there
// were, and when they end the run. It judges no tensor; host/optim and the loop do, and
// non_finite_origin.hpp says where it came from.
// Invariant: `origin` is asked for only where it is told. Threads: the train thread.
#pragma once

#include "host/error/error.hpp"
#include "host/recipe/recipe.hpp"
#include "host/tensor/state/state_tree.hpp"
#include "host/train/run_state/outcome.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

class UpdateGuard final : public Stateful {
 public:
  using Origin = std::function<std::string()>;

  explicit UpdateGuard(const NonFiniteRecipe& recipe) : recipe_(recipe) {}

  // True where updates are made whether they are finite or not.
  bool is_exempt() const { return recipe_.policy == NonFinitePolicy::kIgnore; }

  // Takes note of step `step`, whose update was made or not as is_exempt() says.
  void record(uint64_t step, bool is_finite, const Origin& origin);

  // The same where the device does not tell yet: `found` is 1 where the update is non-finite.
  // Nothing waits until `sync`.
  // Shapes  found [] f32
  void record_later(uint64_t step, at::Tensor found, Origin origin);
  // Waits for what was recorded so, and takes note of it. Gives how many steps were not finite.
  size_t sync();
  // True where the next step is to be settled at once: the last one that is known was not finite,
  // or much has gathered.
  bool is_sync_due() const;

  // The counters, where nothing is left to settle.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  void load(const StateTree& tree, const std::string& prefix) override;

  const NonFiniteCount& count() const { return count_; }
  // The first of the steps up to the last one that is known whose updates were not finite, and left
  // out; none where the last one was finite, or nothing is left out. Once something ends the run,
  // the first step of the row that does.
  std::optional<uint64_t> streak_begin() const;
  // What ends the run, once something does.
  const std::optional<Error>& failure() const { return failure_; }

 private:
  struct Pending {
    uint64_t step = 0;
    at::Tensor found;
    Origin origin;
  };

  std::optional<std::string> reason_to_end(uint64_t step) const;

  NonFiniteRecipe recipe_;
  NonFiniteCount count_;
  std::optional<Error> failure_;
  uint64_t failed_since_ = 0;
  std::vector<Pending> pending_;
};

}  // namespace tenon
