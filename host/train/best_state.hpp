// SPDX-License-Identifier: Apache-2.0
//
// The parameters of the best evaluation so far, kept in host memory, with whatever else the run is
// judged by (tables). When to evaluate, and when to bring them back, is the loop's.
// Invariant: what is brought back is what was kept, to the bit.
// Threads: the train thread.
#pragma once

#include "host/metrics/metric_book.hpp"
#include "host/recipe/recipe.hpp"
#include "host/tensor/state_tree.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

class BestState final : public Stateful {
 public:
  // What is kept of a run, each with the name it is kept under; borrowed.
  using Parts = std::vector<std::pair<std::string, Stateful*>>;
  BestState(KeepBestRecipe recipe, Parts parts)
      : recipe_(std::move(recipe)), parts_(std::move(parts)) {}

  struct Kept {
    uint64_t step = 0;  // of the evaluation
    double value = 0;   // of the figure
    int64_t bytes = 0;
  };

  const std::string& metric() const { return recipe_.metric; }

  // After an evaluation at `step`: keeps the parts if it is the best so far, the first of equals.
  // NaN is never the best.
  // Errors  train.no_best if the record lacks the figure
  void consider(const MetricRecord& record, uint64_t step);

  // None before the first evaluation.
  const std::optional<Kept>& kept() const { return kept_; }

  // Brings the parts back to what they were at the best evaluation, if there is one.
  void restore();

  // What is kept belongs to the state of a run too. `load` leaves the parts as those of the best
  // evaluation: whoever loads more loads them after it.
  void snapshot(StateTree& tree, const std::string& prefix) const override;
  void load(const StateTree& tree, const std::string& prefix) override;

 private:
  KeepBestRecipe recipe_;
  Parts parts_;
  std::optional<Kept> kept_;
  StateTree tree_;
};

}  // namespace tenon
