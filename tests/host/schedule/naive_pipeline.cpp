// SPDX-License-Identifier: Apache-2.0
#include "tests/host/schedule/naive_pipeline.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

namespace tenon {
namespace {

using K = StageActionKind;

// A backward of inputs, whole or half.
bool is_first_half(K kind) {
  return kind == K::kBackward || kind == K::kBackwardInputs;
}

bool is_second_half(K kind) {
  return kind == K::kBackward || kind == K::kBackwardWeights;
}

// Whether the actions of a stage, in their order, are those of all microbatches.
bool is_complete(const std::vector<StageAction>& actions, uint32_t num_microbatches) {
  std::vector<uint32_t> forwards;
  std::vector<uint32_t> firsts;
  std::vector<uint32_t> seconds;
  std::map<uint32_t, std::vector<K>> kinds;  // by microbatch
  for (const StageAction& action : actions) {
    if (action.kind == K::kForward) {
      forwards.push_back(action.microbatch);
    }
    if (is_first_half(action.kind)) {
      firsts.push_back(action.microbatch);
    }
    if (is_second_half(action.kind)) {
      seconds.push_back(action.microbatch);
    }
    kinds[action.microbatch].push_back(action.kind);
  }
  std::vector<uint32_t> all;
  for (uint32_t m = 0; m < num_microbatches; ++m) {
    all.push_back(m);
    const std::vector<K> whole = {K::kForward, K::kBackward};
    const std::vector<K> halves = {K::kForward, K::kBackwardInputs, K::kBackwardWeights};
    if (kinds[m] != whole && kinds[m] != halves) {
      return false;
    }
  }
  return forwards == all && firsts == all && seconds == all;
}

}  // namespace

bool can_run(const PipelineSchedule& schedule, const std::vector<StageLink>& links) {
  std::map<uint32_t, std::set<size_t>> rows_of_stage;
  std::map<uint32_t, std::vector<StageAction>> actions_of_stage;
  for (size_t rank = 0; rank < schedule.rows.size(); ++rank) {
    if (schedule.rows[rank].empty()) {
      return false;
    }
    for (const StageAction& action : schedule.rows[rank]) {
      rows_of_stage[action.stage].insert(rank);
      actions_of_stage[action.stage].push_back(action);
    }
  }
  for (uint32_t stage = 0; stage < schedule.num_stages; ++stage) {
    if (rows_of_stage[stage].size() != 1 ||
        !is_complete(actions_of_stage[stage], schedule.num_microbatches)) {
      return false;
    }
  }
  if (actions_of_stage.size() != schedule.num_stages) {
    return false;
  }
  // Sweeps over the ranks until no action can run.
  std::set<std::pair<uint32_t, uint32_t>> forwards;  // stage and microbatch
  std::set<std::pair<uint32_t, uint32_t>> backwards;
  std::vector<size_t> next(schedule.rows.size(), 0);
  const auto is_ready = [&](const StageAction& a) {
    if (links.empty()) {
      const bool is_last = a.stage + 1 == schedule.num_stages;
      return a.kind == K::kForward ? a.stage == 0 || forwards.count({a.stage - 1, a.microbatch}) > 0
                                   : !is_first_half(a.kind) || is_last ||
                                         backwards.count({a.stage + 1, a.microbatch}) > 0;
    }
    return std::ranges::all_of(links, [&](const StageLink& link) {
      if (link.to != a.stage) {
        return true;
      }
      return link.kind == StageLink::Kind::kValues
                 ? a.kind != K::kForward || forwards.count({link.from, a.microbatch}) > 0
                 : !is_first_half(a.kind) || backwards.count({link.from, a.microbatch}) > 0;
    });
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < schedule.rows.size(); ++rank) {
      if (next[rank] < schedule.rows[rank].size() && is_ready(schedule.rows[rank][next[rank]])) {
        const StageAction& action = schedule.rows[rank][next[rank]++];
        if (action.kind == K::kForward) {
          forwards.insert({action.stage, action.microbatch});
        } else if (is_first_half(action.kind)) {
          backwards.insert({action.stage, action.microbatch});
        }
        moved = true;
      }
    }
  }
  for (size_t rank = 0; rank < schedule.rows.size(); ++rank) {
    if (next[rank] < schedule.rows[rank].size()) {
      return false;
    }
  }
  return true;
}

std::vector<std::vector<std::pair<int, int>>> run_by_clock(const PipelineSchedule& schedule,
                                                           const std::vector<StageLink>& links,
                                                           const NaiveTimes& times) {
  const size_t num_ranks = schedule.rows.size();
  std::map<uint32_t, size_t> rank_of;
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    for (const StageAction& action : schedule.rows[rank]) {
      rank_of[action.stage] = rank;
    }
  }
  const auto uses = [](const StageLink& link, K kind) {
    return link.kind == StageLink::Kind::kValues ? kind == K::kForward : is_first_half(kind);
  };
  std::map<std::pair<size_t, uint32_t>, int> arrival;  // by link and microbatch
  std::map<std::pair<size_t, size_t>, int> wire_free;  // by sender and receiver
  std::vector<std::vector<std::pair<int, int>>> spans(num_ranks);
  const auto finish = [&](size_t rank, int now) {
    const StageAction& done = schedule.rows[rank][spans[rank].size() - 1];
    for (size_t i = 0; i < links.size(); ++i) {
      if (links[i].from != done.stage || !uses(links[i], done.kind)) {
        continue;
      }
      const size_t to = rank_of[links[i].to];
      int& free = wire_free[{rank, to}];
      free = to == rank ? now : std::max(free, now) + times.message;
      arrival[{i, done.microbatch}] = free;
    }
  };
  const auto length = [&](const StageAction& action) {
    return (action.kind == K::kForward ? times.forward[action.stage] : 0) +
           (is_first_half(action.kind) ? times.inputs[action.stage] : 0) +
           (is_second_half(action.kind) ? times.weights[action.stage] : 0);
  };
  const auto can_start = [&](const StageAction& action, int now) {
    for (size_t i = 0; i < links.size(); ++i) {
      if (links[i].to != action.stage || !uses(links[i], action.kind)) {
        continue;
      }
      const auto at = arrival.find({i, action.microbatch});
      if (at == arrival.end() || at->second > now) {
        return false;
      }
    }
    return true;
  };
  for (int now = 0; now < 100'000; ++now) {
    for (size_t rank = 0; rank < num_ranks; ++rank) {
      if (!spans[rank].empty() && spans[rank].back().second == now) {
        finish(rank, now);
      }
    }
    bool is_over = true;
    for (size_t rank = 0; rank < num_ranks; ++rank) {
      const std::vector<StageAction>& row = schedule.rows[rank];
      const size_t next = spans[rank].size();
      const bool is_free = next == 0 || spans[rank].back().second <= now;
      if (is_free && next < row.size() && can_start(row[next], now)) {
        spans[rank].emplace_back(now, now + length(row[next]));
      }
      is_over = is_over && spans[rank].size() == row.size();
    }
    if (is_over) {
      return spans;
    }
  }
  throw std::runtime_error("the schedule does not end");
}

}  // namespace tenon
