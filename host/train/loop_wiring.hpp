// SPDX-License-Identifier: Apache-2.0
//
// Builds the `Parts` of each class of the loop from the parts of the run and from other classes,
// while the loop is constructed. Also reads memory from them.
#pragma once

#include "host/train/checkpoint_driver.hpp"
#include "host/train/evaluator.hpp"
#include "host/train/finite_check.hpp"
#include "host/train/hook_view.hpp"
#include "host/train/loop_events.hpp"
#include "host/train/loop_requests.hpp"
#include "host/train/run_loader.hpp"
#include "host/train/step_log.hpp"
#include "host/train/stop_conditions.hpp"
#include "host/train/train_step.hpp"
#include "host/train/trainer_parts.hpp"
#include "host/train/whole_state.hpp"
#include "host/train/window_feed.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace tenon {

LoopRequests::Possible possible_requests(const TrainerParts& parts);
FiniteCheck::Parts finite_check_parts(const TrainerParts& parts,
                                      RunState& state,
                                      const std::vector<HookProxy>& hooks);
HookView::Parts view_parts(const TrainerParts& parts,
                           const RunState& state,
                           const FiniteCheck& finite_check,
                           LoopRequests& requests);
StepLog::Parts log_parts(const TrainerParts& parts,
                         const RunState& state,
                         const StopConditions& stop,
                         FiniteCheck& finite_check);
WindowFeed::Parts feed_parts(const TrainerParts& parts, const StopConditions& stop, StepLog& log);
TrainStep::Parts step_parts(const TrainerParts& parts,
                            RunState& state,
                            FiniteCheck& finite_check,
                            LoopEvents& events,
                            HookView& view,
                            StepLog& log,
                            LoopRequests& requests);
Evaluator::Parts evaluator_parts(const TrainerParts& parts,
                                 const RunState& state,
                                 LoopEvents& events,
                                 HookView& view,
                                 LoopRequests& requests,
                                 StopConditions& stop,
                                 StepLog& log,
                                 TrainStep& step);
CheckpointDriver::Parts checkpoint_parts(const TrainerParts& parts,
                                         const RunState& state,
                                         WholeState& whole,
                                         LoopEvents& events,
                                         LoopRequests& requests,
                                         StopConditions& stop,
                                         const Evaluator& evaluator);
WholeState::Parts whole_parts(const TrainerParts& parts, FiniteCheck& finite_check);
// The evaluation sets and the test sets.
std::vector<EvalSet> all_sets(const TrainerParts& parts);
// The metrics that evaluations on them give by their losses and metrics.
std::set<std::string> known_evaluation_metrics(const TrainerParts& parts);

// Describes the memory that the run holds. Called after an error, when the tensors of the step may
// already be freed.
std::string memory_report(const TrainerParts& parts, int64_t batch_bytes);
RunLoader::Parts loader_parts(const TrainerParts& parts, const RunState& state);

}  // namespace tenon
