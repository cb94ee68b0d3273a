// SPDX-License-Identifier: Apache-2.0
//
// Assigns parameters to optimizers: a partition for each of the recipe's groups (by name pattern),
// and a separate one for the parameters of a group that are flagged "no decay".
#pragma once

#include "host/model/graph.hpp"
#include "host/plugin/lr_scheduler_proxy.hpp"
#include "host/plugin/optimizer_proxy.hpp"
#include "host/recipe/recipe.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// An optimizer instance to create, with complete options.
struct PlannedPartition {
  std::string name;   // "default", "group0", "group0.no_decay"; the name that hooks see
  std::string match;  // the group's pattern; "" for the default group
  ComponentUse use;
  double lr = 0;  // learning rate, before the schedule
};

struct OptimizerPlan {
  std::vector<PlannedPartition> partitions;
  std::vector<uint32_t> partition_of;  // by parameter; tied parameters share one
};

// Returns the partitions of the optimizer. The first group that matches a parameter takes it.
// Errors  optim.unmatched_group for a pattern that matches no parameter, or only those of earlier
//         groups; optim.no_lr for an optimizer without a numeric option "lr"
OptimizerPlan plan_optimizers(const OptimizerRecipe& recipe, const ModelGraph& graph);

// Checks that optimizers of matrices have no other parameters. `infos` are by partition.
// Errors  optim.not_a_matrix, with the parameters and the groups to write
void check_matrices(const OptimizerPlan& plan,
                    const std::vector<OptimizerInfo>& infos,
                    const ModelGraph& graph);

// Checks that the schedule does not lower the learning rate of an optimizer that replaces a
// schedule. `scheduler` is null without a schedule; `total_steps` is 0 if unknown.
// Errors  optim.own_schedule
void check_own_schedules(const OptimizerPlan& plan,
                         const std::vector<OptimizerInfo>& infos,
                         const LrSchedulerProxy* scheduler,
                         uint64_t total_steps);

// Returns the number at a JSON pointer in `options`, or nothing.
std::optional<double> number_option(const std::string& options, const std::string& pointer);

}  // namespace tenon
