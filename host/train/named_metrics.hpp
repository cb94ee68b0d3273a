// SPDX-License-Identifier: Apache-2.0
//
// The metrics that the recipe names: in eval.keep_best, checkpoint.keep_best, and in the option
// "metric" of hooks. A name that no evaluation gives would be noticed only after the training until
// the first evaluation.
// Threads: the train thread.
#pragma once

#include "host/recipe/recipe.hpp"
#include "host/train/eval_set.hpp"
#include "host/train/objective/loss_set.hpp"
#include "host/train/objective/metric_set.hpp"

#include <set>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// Returns the metrics that evaluations on these sets give by their losses and metrics: "eval/loss".
// Plugins may add others.
std::set<std::string> evaluation_metrics(const Recipe& recipe,
                                         std::span<const EvalSet> sets,
                                         const LossSet& losses,
                                         const MetricSet& metric_set);

// `known`: the metrics of evaluations. `added_by_hooks`: hooks may add others during an evaluation,
// so that an unknown name is a warning, which rank 0 logs.
// Errors  metric.unknown, with the nearest names
void check_named_metrics(const Recipe& recipe,
                         const std::set<std::string>& known,
                         const LossSet& losses,
                         const MetricSet& metric_set,
                         bool added_by_hooks);

}  // namespace tenon
