// SPDX-License-Identifier: Apache-2.0
//
// Plans of pipelines against numbers worked out by hand, and on random graphs against plans of one
// rank and the rules of messages.
#include "host/train/plan/planned_pipeline.hpp"

#include "host/error/error.hpp"
#include "host/model/stages.hpp"
#include "host/schedule/generate_schedule.hpp"
#include "host/train/plan/rank_plan.hpp"
#include "host/train/run_plan/step_schedule.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/host/train/plan/plan_chain.hpp"
#include "tests/host/train/plan/random_subject.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

constexpr int64_t kHeader = (10 + 2 * 64) * 8;  // of a message, beside its values

PipelineSchedule schedule_of(const std::string& name, uint32_t ranks, uint32_t microbatches) {
  const auto schedule =
      generate_schedule({.name = name, .num_ranks = ranks, .num_microbatches = microbatches});
  REQUIRE(schedule.rows.size() == ranks);
  return with_whole_backwards(schedule);
}

// Gives the subject the stages of its blocks.
void cut(PlanSubject& subject, PipelineSchedule schedule) {
  cut_stages(subject.graph,
             schedule.ranks_of_stages(),
             {.index = 0, .count = static_cast<uint32_t>(schedule.rows.size())});
  subject.microbatches = schedule.num_microbatches;
  subject.groups = lay_out_groups(subject.graph, {});
  subject.pipeline = {.schedule = std::move(schedule)};
}

// Elements of both blocks' parameters: flat groups are multiples of 64 bytes.
constexpr int64_t kFirst = 112;
constexpr int64_t kSecond = 208;

// Two blocks of 1 ms, each a stage.
PlanSubject two_stages(const std::string& schedule, uint32_t microbatches) {
  PlanSubject subject =
      chain({{100, cost_of(1e9, 1000, 3000, 0)}, {200, cost_of(1e9, 500, 2000, 0)}});
  subject.graph.blocks[1].stage = 1;
  cut(subject, schedule_of(schedule, 2, microbatches));
  return subject;
}

Approx about(double seconds) {
  return Approx(seconds).epsilon(1e-9);
}

double sum_of(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

// The bytes of all messages of a microbatch: a value goes to each other rank that reads it, and its
// gradient from each reading stage to the one before, unless both are on one rank.
int64_t messages_by_rules(const PlanSubject& subject, const GraphFacts& facts) {
  const ModelGraph& graph = subject.graph;
  const auto rank_of = [&graph](uint32_t stage) { return graph.stage_owners[stage]; };
  int64_t bytes = 0;
  for (uint32_t b = 0; b < graph.blocks.size(); ++b) {
    for (size_t i = 0; i < graph.blocks[b].outputs.size(); ++i) {
      const uint32_t v = graph.blocks[b].outputs[i];
      const int64_t message = subject.costs[b].bytes_of_output[i] + kHeader;
      std::set<uint32_t> stages = {graph.blocks[b].stage};
      for (const uint32_t user : graph.values[v].users) {
        stages.insert(graph.blocks[user].stage);
      }
      if (graph.values[v].is_read) {
        stages.insert(static_cast<uint32_t>(graph.stage_owners.size() - 1));
      }
      std::set<uint32_t> ranks;
      for (const uint32_t stage : stages) {
        ranks.insert(rank_of(stage));
      }
      bytes += message * static_cast<int64_t>(ranks.size() - 1);
      for (auto later = std::next(stages.begin()); later != stages.end(); ++later) {
        const bool is_sent = rank_of(*later) != rank_of(*std::prev(later));
        bytes += is_sent && facts.has_gradient(v) ? message : 0;
      }
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("a pipeline of two ranks, worked out by hand", "[model]") {
  // Forwards take 1 ms and backwards 2 ms. All forwards run first.
  const double message = (1000 + kHeader) / 1e9 + 1e-6;
  const RankPlan plan = plan_rank(two_stages("gpipe", 3), {.pipeline = 2}, kMachine);
  CHECK(plan.choice.num_ranks() == 2);
  CHECK(plan.time.step == about(12e-3 + 2 * message));
  CHECK(plan.time.compute == about(9e-3));
  CHECK(plan.time.idle == about(3e-3 + 2 * message));
  CHECK(plan.time.flops == about(9e9));

  REQUIRE(plan.pipeline.size() == 2);
  const PipelineRankPlan& first = plan.pipeline[0];
  const PipelineRankPlan& last = plan.pipeline[1];
  CHECK(first.stages == std::vector<uint32_t>{0});
  CHECK(last.stages == std::vector<uint32_t>{1});
  CHECK(first.most_held == 3);
  CHECK(last.most_held == 3);
  CHECK(first.busy == about(9e-3));
  // Three outputs with what their block saved, and the gradient that arrives.
  CHECK(first.memory.activations == 3 * (1000 + 3000) + 1000);
  // Three inputs, which are received, outputs and saved tensors, and the gradient of an output.
  CHECK(last.memory.activations == 3 * (1000 + 500 + 2000) + 500);
  CHECK(first.memory.moment == "exchange with another stage");
  CHECK(last.memory.moment == "loss");
  CHECK(first.elements == kFirst);
  CHECK(last.elements == kSecond);
  CHECK(first.memory.optimizer == kFirst * 8);
  CHECK(last.memory.gradients == kSecond * 4);
  CHECK(first.traffic.messages.sent == 3 * (1000 + kHeader));
  CHECK(last.traffic.messages.sent == 3 * (1000 + kHeader));
  CHECK(first.traffic.sent() == first.traffic.messages.sent);

  CHECK(plan.pipeline_rank == 0);
  CHECK(plan.memory.sum() == first.memory.sum());
}

TEST_CASE("1f1b holds as many microbatches as ranks follow", "[model]") {
  const RankPlan plan = plan_rank(two_stages("1f1b", 6), {.pipeline = 2}, kMachine);
  CHECK(plan.pipeline[0].most_held == 2);
  CHECK(plan.pipeline[0].memory.activations == 2 * (1000 + 3000) + 1000);
  CHECK(plan.pipeline[1].most_held == 1);
  // The gradient of the microbatch before is on its way.
  CHECK(plan.pipeline[1].memory.activations == (1000 + 500 + 2000) + 500 + 1000);
}

TEST_CASE("stages of a pipeline may be on different machines", "[model]") {
  // Four ranks of a stage are a machine: all messages leave it, and sums do not.
  const RankPlan plan =
      plan_rank(two_stages("gpipe", 2), {.replicate = 4, .pipeline = 2}, kMachine);
  const PlanTraffic& traffic = plan.pipeline[0].traffic;
  CHECK(traffic.messages.sent == 2 * (1000 + kHeader));
  CHECK(traffic.messages.between_nodes == traffic.messages.sent);
  CHECK(traffic.all_reduce.sent == 2 * kFirst * 4 * 3 / 4);
  CHECK(traffic.all_reduce.between_nodes == 0);
  CHECK(traffic.leaving_node == 4 * traffic.messages.sent);
  // Two ranks of a stage share the machine with those of the other one.
  const RankPlan near =
      plan_rank(two_stages("gpipe", 2), {.replicate = 2, .pipeline = 2}, kMachine);
  CHECK(near.pipeline[0].traffic.messages.between_nodes == 0);
  CHECK(near.pipeline[1].traffic.messages.between_nodes == 0);
  CHECK(near.time.step < plan.time.step);
}

TEST_CASE("ranks that share a parameter add up its gradient once a step", "[model]") {
  PlanSubject subject = two_stages("1f1b", 4);
  subject.graph.parameters[0].blocks = {0, 1};
  subject.graph.blocks[1].parameters = {0, 1};
  cut(subject, subject.pipeline->schedule);
  const RankPlan plan = plan_rank(subject, {.pipeline = 2}, kMachine);
  for (const PipelineRankPlan& rank : plan.pipeline) {
    CHECK(rank.traffic.all_reduce.sent == 2 * kFirst * 4 / 2);
  }
  CHECK(plan.pipeline[0].elements == kFirst);
  CHECK(plan.pipeline[1].elements == kFirst + kSecond);
}

TEST_CASE("the stages of random graphs cost what one rank computes, and send what rules say",
          "[model]") {
  size_t num_cut = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    RandomPlan random = random_plan(seed);
    PlanSubject& subject = random.subject;
    const bool has_rows = std::ranges::any_of(
        subject.graph.values, [](const ModelValue& value) { return value.lookup.has_value(); });
    const char* const name = seed % 3 == 0 ? "gpipe" : seed % 3 == 1 ? "1f1b" : "zb-v";
    const PipelineSchedule schedule = schedule_of(name, 2, 1 + seed % 5);
    if (has_rows) {
      continue;
    }
    try {
      assign_stages(subject.graph, schedule.num_stages);
    } catch (const Error&) {
      continue;  // too few units, or a state buffer of two stages
    }
    ++num_cut;
    subject.microbatches = schedule.num_microbatches;
    PlanChoice choice = random.choice;
    const RankPlan one = plan_rank(subject, choice, kRandomMachine);
    cut(subject, schedule);
    choice.pipeline = 2;
    const RankPlan plan = plan_rank(subject, choice, kRandomMachine);
    std::vector<double> sent;
    for (const PipelineRankPlan& rank : plan.pipeline) {
      sent.push_back(static_cast<double>(rank.traffic.messages.sent));
      CHECK(rank.memory.sum() <= plan.memory.sum());
    }
    CHECK(2 * plan.time.flops == Approx(one.time.flops));
    const PlannedPrograms programs(subject);
    CHECK(sum_of(sent) == static_cast<double>(schedule.num_microbatches *
                                              messages_by_rules(subject, programs.facts())));
    CHECK(plan.time.step >= plan.time.compute);
  }
  CHECK(num_cut > 200);
}

}  // namespace tenon
