// SPDX-License-Identifier: Apache-2.0
//
// Runs the rows of a schedule as ranks would: each in its order, and each action when the messages
// that it needs have arrived. Sends never block. The check uses it to find deadlocks, and the
// simulation to find times.
// Invariant: rows take turns in any order without changing a time, because only a row and the
// messages that reach it decide its times.
// Threads: one.
#pragma once

#include "host/schedule/pipeline_schedule.hpp"
#include "host/schedule/stage_link.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tenon {

// Seconds, by stage.
struct ActionTimes {
  std::vector<double> forward = {};
  std::vector<double> backward_inputs = {};
  std::vector<double> backward_weights = {};  // a whole backward takes the sum of both
  // Of a message between ranks. The messages from one rank to another one are sent one by one.
  double message = 0;
  std::vector<double> messages = {};  // by link, if they differ

  // Actions on parameters and of messages take no time.
  double of(const StageAction& action) const;
  double of_message(uint32_t link) const;
};

// Seconds from the start of the step.
struct ActionSpan {
  double start = 0;
  double end = 0;
};

class ScheduleWalk {
 public:
  // All are borrowed. Each action of a microbatch names an existing stage and microbatch, and each
  // stage has a rank.
  ScheduleWalk(const PipelineSchedule& schedule,
               std::span<const StageLink> links,
               const ActionTimes& times);

  // Runs until all rows have ended, or the remaining ones wait for each other.
  void run();

  // By rank: the number of actions that ran.
  const std::vector<size_t>& num_run() const { return next_; }
  // By rank and action, for those that ran.
  const std::vector<std::vector<ActionSpan>>& spans() const { return spans_; }
  // Returns the link that the next action of a rank waits for. The row must not have ended.
  const StageLink& awaited(uint32_t rank) const;

 private:
  // Seconds at which the messages that an action needs have arrived; null if one has not.
  std::optional<double> ready(const StageAction& action) const;
  void send(uint32_t rank, const StageAction& action, double time, std::deque<uint32_t>& awake);
  bool has_arrived(uint32_t link, uint32_t microbatch) const;

  const PipelineSchedule& schedule_;
  const std::span<const StageLink> links_;
  const ActionTimes& times_;
  const std::vector<uint32_t> rank_of_;                       // by stage
  std::vector<std::vector<uint32_t>> into_;                   // by stage: links
  std::vector<std::vector<uint32_t>> out_of_;                 // by stage: links
  std::vector<std::vector<double>> arrivals_;                 // by link and microbatch
  std::vector<size_t> next_;                                  // by rank
  std::vector<std::vector<ActionSpan>> spans_;                // by rank and action
  std::map<std::pair<uint32_t, uint32_t>, double> lane_end_;  // by sender and receiver
};

}  // namespace tenon
