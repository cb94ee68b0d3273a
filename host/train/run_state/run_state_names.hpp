// SPDX-License-Identifier: Apache-2.0
//
// What the whole state of a run is made of: the subtrees that Trainer::snapshot puts into a tree
// and a fresh run of the same recipe takes out of it. What a recipe says is not in it, nor what
// follows from the recipe and the step: orders of samples, schedules, random numbers.
//
//   run/         the loop: step, updates, epochs, windows, samples, tokens, seconds; where it is in
//                a window; figures and wishes that have not been told yet; the factor on rates;
//                where it has gone back
//   parameters/  values/NAME and buffers/NAME (ParameterStore)
//   optimizer/   slots/SLOT/NAME, updates/NAME, starts/NAME (OptimizerDriver)
//   loss_scale/  under fp16 (LossScale)
//   tables/      where there are tables
//   components/  ROLE/...: whatever plugins declare (ComponentStates)
//   metrics/     what metrics have gathered (MetricSet)
//   figures/     what the next record will say, and the last one said (MetricBook)
//   guard/       counts of updates that were not finite (UpdateGuard)
//   best/        the parameters of the best evaluation (BestState)
//   data/        train/...: epoch, window and position of the training set (DataStream); eval/N/...
//                of evaluation sets that go along with its windows
//
// Figures of time (run/seconds) are not the same in two equal runs; everything else is, to the bit.
// Entries that differ between ranks are marked so. Tensors are what this rank has of them.
#pragma once

#include <cstdint>

namespace tenon {

// The version of the tree's root: it changes where a subtree comes, goes or changes its meaning.
inline constexpr uint32_t kRunStateVersion = 1;

namespace run_state {
inline constexpr char kRun[] = "run";
inline constexpr char kParameters[] = "parameters";
inline constexpr char kOptimizer[] = "optimizer";
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
