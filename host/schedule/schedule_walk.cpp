// SPDX-License-Identifier: Apache-2.0
#include "host/schedule/schedule_walk.hpp"

#include "host/error/assert.hpp"

#include <algorithm>

namespace tenon {
namespace {

constexpr double kNotArrived = -1;

}  // namespace

double ActionTimes::of(const StageAction& action) const {
  switch (action.kind) {
    case StageActionKind::kForward:
      return forward[action.stage];
    case StageActionKind::kBackwardInputs:
      return backward_inputs[action.stage];
    case StageActionKind::kBackwardWeights:
      return backward_weights[action.stage];
    case StageActionKind::kBackward:
      return backward_inputs[action.stage] + backward_weights[action.stage];
    default:
      return 0;
  }
}

double ActionTimes::of_message(uint32_t link) const {
  return messages.empty() ? message : messages[link];
}

ScheduleWalk::ScheduleWalk(const PipelineSchedule& schedule,
                           std::span<const StageLink> links,
                           const ActionTimes& times)
    : schedule_(schedule),
      links_(links),
      times_(times),
      rank_of_(schedule.ranks_of_stages()),
      into_(schedule.num_stages),
      out_of_(schedule.num_stages),
      arrivals_(links.size(), std::vector<double>(schedule.num_microbatches, kNotArrived)),
      next_(schedule.rows.size(), 0),
      spans_(schedule.rows.size()) {
  for (uint32_t i = 0; i < links.size(); ++i) {
    into_[links[i].to].push_back(i);
    out_of_[links[i].from].push_back(i);
  }
}

void ScheduleWalk::run() {
  std::deque<uint32_t> awake;
  for (uint32_t rank = 0; rank < schedule_.rows.size(); ++rank) {
    awake.push_back(rank);
  }
  while (!awake.empty()) {
    const uint32_t rank = awake.front();
    awake.pop_front();
    const std::vector<StageAction>& row = schedule_.rows[rank];
    for (size_t& next = next_[rank]; next < row.size(); ++next) {
      const std::optional<double> arrival = ready(row[next]);
      if (!arrival.has_value()) {
        break;
      }
      const double start = std::max(*arrival, next == 0 ? 0.0 : spans_[rank].back().end);
      const double end = start + times_.of(row[next]);
      spans_[rank].push_back({start, end});
      send(rank, row[next], end, awake);
    }
  }
}

const StageLink& ScheduleWalk::awaited(uint32_t rank) const {
  const StageAction& action = schedule_.rows[rank][next_[rank]];
  for (const uint32_t link : into_[action.stage]) {
    if (links_[link].concerns(action.kind) && !has_arrived(link, action.microbatch)) {
      return links_[link];
    }
  }
  TENON_ASSERT(false, "an action that does not run waits for a message");
}

std::optional<double> ScheduleWalk::ready(const StageAction& action) const {
  double time = 0;
  for (const uint32_t link : into_[action.stage]) {
    if (!links_[link].concerns(action.kind)) {
      continue;
    }
    if (!has_arrived(link, action.microbatch)) {
      return std::nullopt;
    }
    time = std::max(time, arrivals_[link][action.microbatch]);
  }
  return time;
}

void ScheduleWalk::send(uint32_t rank,
                        const StageAction& action,
                        double time,
                        std::deque<uint32_t>& awake) {
  for (const uint32_t link : out_of_[action.stage]) {
    if (!links_[link].concerns(action.kind)) {
      continue;
    }
    double& arrival = arrivals_[link][action.microbatch];
    const uint32_t to = rank_of_[links_[link].to];
    if (to == rank) {
      arrival = time;
      continue;
    }
    double& lane_end = lane_end_[{rank, to}];
    lane_end = std::max(lane_end, time) + times_.of_message(link);
    arrival = lane_end;
    awake.push_back(to);
  }
}

bool ScheduleWalk::has_arrived(uint32_t link, uint32_t microbatch) const {
  return arrivals_[link][microbatch] != kNotArrived;
}

}  // namespace tenon
