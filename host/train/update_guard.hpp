// SPDX-License-Identifier: Apache-2.0
//
// The policy on non-finite updates: whether they are skipped, how they are reported and counted,
// and when they end the run. It checks no tensors; host/optim and the loop do.
// non_finite_origin.hpp finds the origin.
// Invariant: `origin` is called only if its result is stored in count().
// Threads: the train thread.
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

  // Returns true if the policy applies updates even if they are non-finite.
  bool is_exempt() const { return recipe_.policy == NonFinitePolicy::kIgnore; }

  // Records the result of step `step`. A non-finite update is applied if is_exempt(), otherwise
  // skipped.
  void record(uint64_t step, bool is_finite, const Origin& origin);

  // Like record(), for a result that may still be pending on the device: `found` is 1 if the update
  // is non-finite. Does not wait; sync() does.
  // Shapes  found [] f32
  void record_later(uint64_t step, at::Tensor found, Origin origin);
  // Waits for the results passed to record_later(), and records them. Returns the number of
  // non-finite steps among them.
  size_t sync();
  // Returns true if the result of the next step should be read at once: the last known update was
  // non-finite, or many results are pending.
  bool is_sync_due() const;

  // Saves and loads the counters. `snapshot` requires that no results are pending.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  void load(const StateTree& tree, const std::string& prefix) override;

  const NonFiniteCount& count() const { return count_; }
  // Returns the first step of the current streak of skipped non-finite updates. Returns none if the
  // last known update was finite, or if the policy skips no updates. After a failure, returns the
  // first step of the streak that caused it.
  std::optional<uint64_t> streak_begin() const;
  // The error that ends the run; none while no update has ended it.
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
