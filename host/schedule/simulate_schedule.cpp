// SPDX-License-Identifier: Apache-2.0
#include "host/schedule/simulate_schedule.hpp"

#include "host/error/assert.hpp"

#include <algorithm>

namespace tenon {
namespace {

SimulatedRank rank_of(const std::vector<StageAction>& row, const std::vector<ActionSpan>& spans) {
  TENON_ASSERT(spans.size() == row.size(), "a simulated schedule has no deadlock");
  SimulatedRank rank{.spans = spans};
  uint32_t held = 0;
  bool has_started = false;
  for (size_t i = 0; i < row.size(); ++i) {
    if (!is_compute(row[i].kind)) {
      continue;
    }
    rank.start = has_started ? rank.start : spans[i].start;
    has_started = true;
    rank.end = spans[i].end;
    rank.busy += spans[i].end - spans[i].start;
    held += row[i].kind == StageActionKind::kForward ? 1 : 0;
    rank.most_held = std::max(rank.most_held, held);
    held -= gives_weight_gradients(row[i].kind) ? 1 : 0;
  }
  return rank;
}

}  // namespace

double SimulatedRank::idle_share() const {
  // Rounding must not make a rank that never waits idle by less than zero.
  return end > start ? std::max(0.0, 1 - busy / (end - start)) : 0;
}

uint32_t ScheduleSimulation::most_idle_rank() const {
  return static_cast<uint32_t>(std::ranges::max_element(ranks, {}, &SimulatedRank::idle_share) -
                               ranks.begin());
}

uint32_t ScheduleSimulation::fullest_rank() const {
  return static_cast<uint32_t>(std::ranges::max_element(ranks, {}, &SimulatedRank::most_held) -
                               ranks.begin());
}

ActionTimes even_times(const PipelineSchedule& schedule,
                       const RankSeconds& seconds,
                       double message) {
  const std::vector<uint32_t> ranks = schedule.ranks_of_stages();
  ActionTimes times{.message = message};
  for (const uint32_t rank : ranks) {
    const auto num_stages = static_cast<double>(std::ranges::count(ranks, rank));
    times.forward.push_back(seconds.forward / num_stages);
    times.backward_inputs.push_back(seconds.backward_inputs / num_stages);
    times.backward_weights.push_back(seconds.backward_weights / num_stages);
  }
  return times;
}

ScheduleSimulation simulate_schedule(const PipelineSchedule& schedule,
                                     std::span<const StageLink> links,
                                     const ActionTimes& times) {
  ScheduleWalk walk(schedule, links, times);
  walk.run();
  ScheduleSimulation simulation;
  for (size_t rank = 0; rank < schedule.rows.size(); ++rank) {
    simulation.ranks.push_back(rank_of(schedule.rows[rank], walk.spans()[rank]));
    simulation.seconds = std::max(simulation.seconds, simulation.ranks.back().end);
  }
  return simulation;
}

}  // namespace tenon
