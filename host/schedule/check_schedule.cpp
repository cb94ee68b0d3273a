// SPDX-License-Identifier: Apache-2.0
#include "host/schedule/check_schedule.hpp"

#include "host/schedule/schedule_rows_check.hpp"
#include "host/schedule/schedule_walk.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <set>

namespace tenon {
namespace {

using Problem = std::optional<ScheduleProblem>;

std::vector<StageLink> links_of(const PipelineSchedule& schedule, const ScheduleCheck& check) {
  return check.links.empty() ? chain_links(schedule.num_stages) : check.links;
}

// "rank 0 waits at action 2 (0B0) for gradients of stage 1 from rank 1".
std::string wait_text(const PipelineSchedule& schedule,
                      uint32_t rank,
                      size_t next,
                      const StageLink& link,
                      uint32_t from) {
  return formatted("rank {} waits at action {} ({}) for {} of stage {} from {}",
                   rank,
                   next + 1,
                   action_text(schedule.rows[rank][next]),
                   link_name(link.kind),
                   link.from,
                   from == rank ? "a later action of its row" : formatted("rank {}", from));
}

// The ranks that wait for each other, each for the next one and the last one for the first one.
Problem deadlock_of(const PipelineSchedule& schedule, const ScheduleWalk& walk) {
  const std::vector<uint32_t> rank_of = schedule.ranks_of_stages();
  uint32_t rank = 0;
  while (walk.num_run()[rank] == schedule.rows[rank].size()) {
    ++rank;
  }
  // Ranks outside of the cycle also wait; following what each waits for leads into the cycle.
  std::set<uint32_t> seen;
  while (seen.insert(rank).second) {
    rank = rank_of[walk.awaited(rank).from];
  }
  const uint32_t first = rank;
  std::string text;
  do {
    const StageLink& link = walk.awaited(rank);
    const uint32_t from = rank_of[link.from];
    text += (text.empty() ? "deadlock: " : "; ") +
            wait_text(schedule, rank, walk.num_run()[rank], link, from);
    rank = from;
  } while (rank != first);
  return ScheduleProblem{.rank = first, .action = walk.num_run()[first], .text = text};
}

Problem find_deadlock(const PipelineSchedule& schedule, const ScheduleCheck& check) {
  const std::vector<StageLink> links = links_of(schedule, check);
  const std::vector<double> zeros(schedule.num_stages, 0.0);
  const ActionTimes times{.forward = zeros, .backward_inputs = zeros, .backward_weights = zeros};
  ScheduleWalk walk(schedule, links, times);
  walk.run();
  for (size_t rank = 0; rank < schedule.rows.size(); ++rank) {
    if (walk.num_run()[rank] < schedule.rows[rank].size()) {
      return deadlock_of(schedule, walk);
    }
  }
  return std::nullopt;
}

Problem find_excess(const PipelineSchedule& schedule, uint32_t most_held) {
  for (uint32_t rank = 0; rank < schedule.rows.size(); ++rank) {
    uint32_t held = 0;
    for (size_t i = 0; i < schedule.rows[rank].size(); ++i) {
      const StageActionKind kind = schedule.rows[rank][i].kind;
      held += kind == StageActionKind::kForward ? 1 : 0;
      held -= gives_weight_gradients(kind) ? 1 : 0;
      if (held > most_held) {
        return problem_at(schedule,
                          rank,
                          i,
                          formatted("the rank holds {} forwards whose backward has not ended "
                                    "(limit {})",
                                    held,
                                    most_held));
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ScheduleProblem> find_schedule_problem(const PipelineSchedule& schedule,
                                                     const ScheduleCheck& check) {
  Problem problem = find_row_problem(schedule, check.pass);
  if (!problem.has_value()) {
    problem = find_deadlock(schedule, check);
  }
  if (!problem.has_value() && check.most_held.has_value()) {
    problem = find_excess(schedule, *check.most_held);
  }
  return problem;
}

}  // namespace tenon
