// SPDX-License-Identifier: Apache-2.0
//
// The state of the best evaluation so far (parameters and tables), kept in host memory. The loop
// decides when to evaluate and when to restore the state.
// Invariant: the restored state is bit-identical to the kept state.
// Threads: the train thread.
#pragma once

#include "host/metrics/metric_book.hpp"
#include "host/recipe/recipe.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

class BestState final : public Stateful {
 public:
  // The parts of a run to keep, each with its name; borrowed.
  using Parts = std::vector<std::pair<std::string, Stateful*>>;
  BestState(KeepBestRecipe recipe, Parts parts)
      : recipe_(std::move(recipe)), parts_(std::move(parts)) {}

  struct Kept {
    uint64_t step = 0;  // of the evaluation
    double value = 0;   // of the metric
    int64_t bytes = 0;
  };

  const std::string& metric() const { return recipe_.metric; }

  // Called after an evaluation at `step`. Keeps a copy of the parts if the evaluation is the best
  // so far. Of equal values the first one is the best; NaN never is.
  //
  // Errors  train.no_best if the record lacks the metric
  void consider(const MetricRecord& record, uint64_t step);

  // None until consider() has kept an evaluation.
  const std::optional<Kept>& kept() const { return kept_; }

  // Restores the parts to their values at the best evaluation, if there was one.
  void restore();

  // The kept state is part of the state of a run. `load` overwrites the parts with their values at
  // the best evaluation, so load their current values after it.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  void load(const StateTree& tree, const std::string& prefix) override;

 private:
  KeepBestRecipe recipe_;
  Parts parts_;
  std::optional<Kept> kept_;
  StateTree tree_;
};

}  // namespace tenon
