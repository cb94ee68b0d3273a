// SPDX-License-Identifier: Apache-2.0
//
// The subtrees of the whole state of a run. Trainer::snapshot writes them to a tree, and a new run
// of the same recipe loads them. The recipe's own content is excluded, and so is everything that
// follows from the recipe and the step: sample orders, schedules, random numbers.
//
//   run/         the loop: step, updates, epochs, windows, samples, tokens, seconds; the position
//                in a window; metrics not yet recorded; pending requests and evaluations; the
//                learning rate factor set by hooks; rollbacks
//   parameters/  values/NAME and buffers/NAME (ParameterStore)
//   models/      fingerprints of the models that are not trained (ModelValues)
//   optimizer/   slots/SLOT/NAME, updates/NAME, starts/NAME (OptimizerDriver)
//   averages/    values/NAME, updates; if a hook averages parameters (ParameterAverages)
//   loss_scale/  under fp16 (LossScale)
//   tables/      if the model has tables
//   components/  ROLE/...: state that plugins declare (ComponentStates)
//   metrics/     accumulated state of metrics (MetricSet)
//   `figures/`   metrics of the next record and of the last record (MetricBook)
//   guard/       counts of non-finite updates (UpdateGuard)
//   best/        the parameters of the best evaluation (BestState)
//   data/        train/...: epoch, window and position of the training set (DataStream); eval/N/...
//                for evaluation sets whose windows are paired with training windows
//
// Two equal runs have bitwise equal states, except for times (run/seconds). Entries that differ
// between ranks are marked in the tree. Tensors have only this rank's shards.
#pragma once

#include <cstdint>

namespace tenon {

// Version of the tree's root. Increased if a subtree is added, removed or changes its meaning.
inline constexpr uint32_t kRunStateVersion = 1;

namespace run_state {
inline constexpr char kRun[] = "run";
inline constexpr char kParameters[] = "parameters";
inline constexpr char kModels[] = "models";
inline constexpr char kOptimizer[] = "optimizer";
inline constexpr char kAverages[] = "averages";
inline constexpr char kLossScale[] = "loss_scale";
inline constexpr char kTables[] = "tables";
inline constexpr char kComponents[] = "components";
inline constexpr char kMetrics[] = "metrics";
inline constexpr char kMetricBook[] = "figures";
inline constexpr char kGuard[] = "guard";
inline constexpr char kBest[] = "best";
inline constexpr char kTrainData[] = "data/train";
inline constexpr char kEvalData[] = "data/eval";
}  // namespace run_state

}  // namespace tenon
