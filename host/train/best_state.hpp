// SPDX-License-Identifier: Apache-2.0
//
// The parameters of the best evaluation so far, and its tables, kept in host memory. The loop
// decides when to evaluate, and when to restore them.
// Invariant: what is restored equals what was kept, to the bit.
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

  // After an evaluation at `step`: keeps the parts if it is the best so far. Of equal evaluations
  // the first is the best; NaN never is.
  //
  // Errors  train.no_best if the record lacks the metric
  void consider(const MetricRecord& record, uint64_t step);

  // None before the first evaluation.
  const std::optional<Kept>& kept() const { return kept_; }

  // Restores the parts to their values at the best evaluation, if there was one.
  void restore();

  // What is kept is part of the state of a run. `load` leaves the parts as they were at the best
  // evaluation: load the current parts after it.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  void load(const StateTree& tree, const std::string& prefix) override;

 private:
  KeepBestRecipe recipe_;
  Parts parts_;
  std::optional<Kept> kept_;
  StateTree tree_;
};

}  // namespace tenon
