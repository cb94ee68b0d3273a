// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/planned_pipeline.hpp"

#include "host/model/stages.hpp"
#include "host/train/plan/planned_program.hpp"
#include "host/train/plan/planned_traffic.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace tenon {
namespace {

// What stages wait for, with the seconds of each message. What a rank already has takes no time.
struct TimedLinks {
  std::vector<StageLink> links = {};
  std::vector<double> seconds = {};
};

TimedLinks timed_links(const PlanSubject& subject,
                       const GraphFacts& facts,
                       const PlanChoice& choice,
                       const PlanMachine& machine) {
  const std::vector<uint32_t>& owners = subject.graph.stage_owners;
  const auto seconds = [&](uint32_t value, uint32_t from, uint32_t to) {
    const PlannedLinks links = links_of_stage(choice, owners[from], machine);
    return links.message_seconds(message_bytes(subject, value),
                                 static_cast<int64_t>(owners[to]) - owners[from]);
  };
  TimedLinks timed;
  for (const ValueRoute& route : value_routes(subject.graph, read_values(subject))) {
    std::set<uint32_t> have = {owners[route.maker]};  // ranks
    uint32_t before = route.maker;
    for (const uint32_t reader : route.readers) {
      timed.links.push_back({.kind = StageLink::Kind::kValues, .from = route.maker, .to = reader});
      const bool is_sent = have.insert(owners[reader]).second;
      timed.seconds.push_back(is_sent ? seconds(route.value, route.maker, reader) : 0);
      if (facts.has_gradient(route.value)) {
        timed.links.push_back({.kind = StageLink::Kind::kGradients, .from = reader, .to = before});
        timed.seconds.push_back(
            owners[reader] != owners[before] ? seconds(route.value, reader, before) : 0);
      }
      before = reader;
    }
  }
  return timed;
}

}  // namespace

PlanSubject seen_by(const PlanSubject& subject, uint32_t pipeline_rank) {
  PlanSubject seen = subject;
  seen.pipeline->rank = pipeline_rank;
  const auto num_ranks = static_cast<uint32_t>(subject.pipeline->schedule.rows.size());
  cut_stages(seen.graph, subject.graph.stage_owners, {.index = pipeline_rank, .count = num_ranks});
  for (GroupLayout& group : seen.groups) {
    group.is_elsewhere = std::ranges::find(group.holders, pipeline_rank) == group.holders.end();
  }
  return seen;
}

PlannedLinks links_of_stage(const PlanChoice& choice,
                            uint32_t pipeline_rank,
                            const PlanMachine& machine) {
  return {
      choice.copies(choice.tensor), choice.shard, machine, pipeline_rank * choice.ranks_of_stage()};
}

ScheduleSimulation simulated_step(const PlanSubject& subject,
                                  const GraphFacts& facts,
                                  const PlanChoice& choice,
                                  const PlanMachine& machine,
                                  const std::vector<PlannedStageTimes>& times) {
  const size_t num_stages = subject.graph.stage_owners.size();
  TimedLinks timed = timed_links(subject, facts, choice, machine);
  ActionTimes of_actions{.backward_weights = std::vector<double>(num_stages, 0)};
  for (size_t stage = 0; stage < num_stages; ++stage) {
    const PlannedStageTimes& of_rank = times[subject.graph.stage_owners[stage]];
    of_actions.forward.push_back(of_rank.forward[stage]);
    of_actions.backward_inputs.push_back(of_rank.backward[stage]);
  }
  of_actions.messages = std::move(timed.seconds);
  return simulate_schedule(subject.pipeline->schedule, timed.links, of_actions);
}

}  // namespace tenon
