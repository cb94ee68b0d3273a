// SPDX-License-Identifier: Apache-2.0
#include "host/schedule/simulate_schedule.hpp"

#include "host/schedule/check_schedule.hpp"
#include "host/schedule/generate_schedule.hpp"
#include "host/schedule/schedule_csv.hpp"

#include <map>
#include <random>

#include "tests/host/schedule/naive_pipeline.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

struct Expected {
  double idle = 0;
  uint32_t held = 0;
};

std::vector<double> in_seconds(const std::vector<int>& times) {
  return {times.begin(), times.end()};
}

// Forwards that have started at the start of an action, and whose backward has not ended.
uint32_t held_at(const std::vector<StageAction>& row,
                 const std::vector<std::pair<int, int>>& spans,
                 int now) {
  std::map<std::pair<uint32_t, uint32_t>, bool> held;  // by stage and microbatch
  for (size_t i = 0; i < row.size(); ++i) {
    const std::pair pair(row[i].stage, row[i].microbatch);
    if (row[i].kind == StageActionKind::kForward && spans[i].first <= now) {
      held[pair] = true;
    }
    if (gives_weight_gradients(row[i].kind) && spans[i].second <= now) {
      held[pair] = false;
    }
  }
  return static_cast<uint32_t>(
      std::ranges::count_if(held, [](const auto& one) { return one.second; }));
}

}  // namespace

// The goals of the pipelines' design: 8 ranks, 24 microbatches, 20 ms for each of F, I and W.
TEST_CASE("idle shares and held microbatches are those of the papers", "[schedule]") {
  const std::map<std::string, Expected> expected = {{"gpipe", {0.226, 24}},
                                                    {"1f1b", {0.226, 8}},
                                                    {"interleaved", {0.127, 23}},
                                                    {"zb-h1", {0.089, 8}},
                                                    {"zb-v", {0.0, 16}},
                                                    {"dualpipe-v", {0.046, 17}}};
  for (const auto& [name, goal] : expected) {
    CAPTURE(name);
    const PipelineSchedule schedule = generate_schedule({name, 8, 24});
    const ScheduleSimulation simulation = simulate_schedule(
        schedule, chain_links(schedule.num_stages), even_times(schedule, {0.02, 0.02, 0.02}, 0));
    CHECK(std::abs(simulation.ranks[simulation.most_idle_rank()].idle_share() - goal.idle) <
          0.0005);
    CHECK(simulation.ranks[simulation.fullest_rank()].most_held == goal.held);
  }
}

TEST_CASE("gpipe and 1f1b idle as their formula says", "[schedule]") {
  // Ranks wait for ranks - 1 forwards and backwards, of microbatches + ranks - 1.
  for (const char* const name : {"gpipe", "1f1b"}) {
    for (const uint32_t ranks : {1U, 2U, 5U}) {
      for (const uint32_t microbatches : {1U, 3U, 9U}) {
        const PipelineSchedule schedule = generate_schedule({name, ranks, microbatches});
        const ScheduleSimulation simulation =
            simulate_schedule(schedule, chain_links(ranks), even_times(schedule, {1, 0.5, 1.5}, 0));
        const double slots = microbatches + ranks - 1;
        CAPTURE(name, ranks, microbatches);
        CHECK(std::abs(simulation.seconds - 3 * slots) < 1e-9);
        CHECK(simulation.most_idle_rank() == 0);
        CHECK(std::abs(simulation.ranks[0].idle_share() - (ranks - 1) / slots) < 1e-9);
      }
    }
  }
}

TEST_CASE("messages are sent one by one between two ranks", "[schedule]") {
  // Two values of one forward: the second one arrives a message later.
  const PipelineSchedule schedule = read_schedule("0F0,1F0\n2F0,3F0\n").schedule;
  const std::vector<StageLink> links = {{StageLink::Kind::kValues, 0, 2},
                                        {StageLink::Kind::kValues, 0, 3},
                                        {StageLink::Kind::kValues, 0, 1}};
  ActionTimes times{.forward = {10, 1, 2, 1},
                    .backward_inputs = {0, 0, 0, 0},
                    .backward_weights = {0, 0, 0, 0},
                    .message = 5};
  ScheduleSimulation simulation = simulate_schedule(schedule, links, times);
  CHECK(simulation.ranks[0].spans[1].start == 10);  // no message within a rank
  CHECK(simulation.ranks[1].spans[0].start == 15);
  CHECK(simulation.ranks[1].spans[1].start == 20);
  CHECK(simulation.seconds == 21);
  CHECK(std::abs(simulation.ranks[1].idle_share() - 0.5) < 1e-12);
  // The second one takes longer, and travels behind the first one.
  times.messages = {5, 8, 100};
  simulation = simulate_schedule(schedule, links, times);
  CHECK(simulation.ranks[0].spans[1].start == 10);
  CHECK(simulation.ranks[1].spans[0].start == 15);
  CHECK(simulation.ranks[1].spans[1].start == 23);
}

TEST_CASE("actions on parameters and messages take no time", "[schedule]") {
  const PipelineSchedule schedule =
      read_schedule("0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n1F0,1B0\n").schedule;
  const ScheduleSimulation simulation =
      simulate_schedule(schedule, chain_links(2), even_times(schedule, {1, 1, 1}, 0));
  CHECK(simulation.ranks[0].spans[0].end == 0);
  CHECK(simulation.ranks[0].spans[2].start == 1);
  CHECK(simulation.ranks[0].spans[2].end == 1);
  CHECK(simulation.ranks[0].end == 6);
  CHECK(simulation.ranks[0].busy == 3);
}

TEST_CASE("times are those of a pipeline that runs by a clock", "[schedule]") {
  std::mt19937 random(1);  // NOLINT(bugprone-random-generator-seed): fixed
  const auto times_of = [&random](uint32_t num_stages) {
    std::vector<int> times;
    for (uint32_t i = 0; i < num_stages; ++i) {
      times.push_back(1 + static_cast<int>(random() % 7));
    }
    return times;
  };
  const std::vector<std::string> names = schedule_names();
  for (int i = 0; i < 150; ++i) {
    const std::string& name = names[static_cast<size_t>(i) % names.size()];
    const uint32_t ranks = 1 + static_cast<uint32_t>(random() % 5);
    const uint32_t microbatches = 1 + static_cast<uint32_t>(random() % 9);
    CAPTURE(name, ranks, microbatches);
    const PipelineSchedule schedule = generate_schedule({name, ranks, microbatches});
    std::vector<StageLink> links = chain_links(schedule.num_stages);
    if (i % 3 == 0 && schedule.num_stages > 1) {
      links.push_back({StageLink::Kind::kTied, schedule.num_stages - 1, 0});
      links.push_back({StageLink::Kind::kValues, 0, schedule.num_stages - 1});
    }
    const NaiveTimes naive{.forward = times_of(schedule.num_stages),
                           .inputs = times_of(schedule.num_stages),
                           .weights = times_of(schedule.num_stages),
                           .message = static_cast<int>(random() % 4)};
    const auto expected = run_by_clock(schedule, links, naive);
    const ScheduleSimulation simulation =
        simulate_schedule(schedule,
                          links,
                          {.forward = in_seconds(naive.forward),
                           .backward_inputs = in_seconds(naive.inputs),
                           .backward_weights = in_seconds(naive.weights),
                           .message = static_cast<double>(naive.message)});
    for (size_t rank = 0; rank < ranks; ++rank) {
      const SimulatedRank& simulated = simulation.ranks[rank];
      REQUIRE(simulated.spans.size() == expected[rank].size());
      int busy = 0;
      uint32_t most_held = 0;
      bool is_equal = true;
      for (size_t k = 0; k < expected[rank].size(); ++k) {
        const auto [start, end] = expected[rank][k];
        is_equal = is_equal && simulated.spans[k].start == start && simulated.spans[k].end == end;
        busy += end - start;
        most_held = std::max(most_held, held_at(schedule.rows[rank], expected[rank], start));
      }
      CHECK(is_equal);
      const int whole = expected[rank].back().second - expected[rank].front().first;
      CHECK(std::abs(simulated.idle_share() - (1 - static_cast<double>(busy) / whole)) < 1e-12);
      CHECK(simulated.most_held == most_held);
    }
  }
}

}  // namespace tenon
