// SPDX-License-Identifier: Apache-2.0
//
// Which optimizer updates which parameter: the recipe's groups by name pattern, and in each the
// parameters that are flagged "no decay" apart.
#pragma once

#include "host/model/graph.hpp"
#include "host/recipe/recipe.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// One optimizer instance to be: its options are whole.
struct PlannedPartition {
  std::string name;   // "default", "group0", "group0.no_decay": as hooks see it
  std::string match;  // the group's pattern; "" for the rest
  ComponentUse use;
  double lr = 0;
};

struct OptimizerPlan {
  std::vector<PlannedPartition> partitions;
  std::vector<uint32_t> partition_of;  // by parameter; of tied ones, that of what they are
};

// Errors  optim.unmatched_group: a pattern that matches no parameter has no effect;
//         optim.no_lr: an optimizer without an option "lr"
OptimizerPlan plan_optimizers(const OptimizerRecipe& recipe, const ModelGraph& graph);

// The number at a JSON pointer of options, or nothing.
std::optional<double> number_option(const std::string& options, const std::string& pointer);

}  // namespace tenon
