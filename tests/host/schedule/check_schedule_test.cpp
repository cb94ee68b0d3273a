// SPDX-License-Identifier: Apache-2.0
#include "host/schedule/check_schedule.hpp"

#include "host/schedule/generate_schedule.hpp"
#include "host/schedule/schedule_csv.hpp"

#include <chrono>
#include <random>

#include "tests/host/schedule/naive_pipeline.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

std::string problem_of(const PipelineSchedule& schedule, const ScheduleCheck& check = {}) {
  const auto problem = find_schedule_problem(schedule, check);
  return problem.has_value() ? problem->text : "none";
}

std::string problem_of(const std::string& csv, const ScheduleCheck& check = {}) {
  return problem_of(read_schedule(csv).schedule, check);
}

// Checks a table with the product and with the naive pipeline.
class Mutants {
 public:
  explicit Mutants(std::vector<StageLink> links = {}) : links_(std::move(links)) {}

  void check(const PipelineSchedule& schedule) {
    const bool is_valid = can_run(schedule, links_);
    const std::string problem = problem_of(schedule, {.links = links_});
    if (is_valid != (problem == "none")) {
      CAPTURE(schedule_csv(schedule), problem, is_valid);
      CHECK(false);
    }
    ++(is_valid ? num_valid : num_refused);
    num_deadlocks += problem.starts_with("deadlock: ") ? 1 : 0;
  }

  int num_valid = 0;
  int num_refused = 0;
  int num_deadlocks = 0;

 private:
  const std::vector<StageLink> links_;
};

void check_mutants_of(const PipelineSchedule& valid, Mutants& mutants) {
  PipelineSchedule mutant = valid;
  for (std::vector<StageAction>& row : mutant.rows) {
    const std::vector<StageAction> original = row;
    for (size_t i = 0; i < original.size(); ++i) {
      row.erase(row.begin() + static_cast<ptrdiff_t>(i));
      mutants.check(mutant);
      for (size_t to = 0; to <= row.size(); ++to) {  // elsewhere in the row
        row.insert(row.begin() + static_cast<ptrdiff_t>(to), original[i]);
        mutants.check(mutant);
        row.erase(row.begin() + static_cast<ptrdiff_t>(to));
      }
      for (std::vector<StageAction>& other : mutant.rows) {  // at the end of another row
        if (&other != &row) {
          other.push_back(original[i]);
          mutants.check(mutant);
          other.pop_back();
        }
      }
      row = original;
      for (size_t j = i + 1; j < original.size(); ++j) {
        std::swap(row[i], row[j]);
        mutants.check(mutant);
        row = original;
      }
      for (const size_t to : {size_t{0}, i, original.size()}) {  // twice
        row.insert(row.begin() + static_cast<ptrdiff_t>(to), original[i]);
        mutants.check(mutant);
        row = original;
      }
      for (const StageActionKind kind : {StageActionKind::kForward,
                                         StageActionKind::kBackward,
                                         StageActionKind::kBackwardInputs,
                                         StageActionKind::kBackwardWeights}) {
        row[i].kind = kind;
        mutants.check(mutant);
      }
      row = original;
    }
  }
}

}  // namespace

TEST_CASE("each change of a valid table is found, unless the table still runs", "[schedule]") {
  Mutants mutants;
  for (const std::string& name : schedule_names()) {
    for (const auto& [ranks, microbatches] : {std::pair(2U, 3U), std::pair(3U, 2U)}) {
      check_mutants_of(generate_schedule({name, ranks, microbatches}), mutants);
    }
  }
  CHECK(mutants.num_valid > 500);
  CHECK(mutants.num_refused > 5000);
  CHECK(mutants.num_deadlocks > 100);
}

TEST_CASE("deadlocks of random tables are those of a naive pipeline", "[schedule]") {
  std::mt19937 random(1);  // NOLINT(bugprone-random-generator-seed): fixed
  Mutants plain;
  // Stages 0 and 1 do not read each other; stage 2 reads both. They share a parameter.
  using Kind = StageLink::Kind;
  Mutants linked({{Kind::kValues, 0, 2},
                  {Kind::kValues, 1, 2},
                  {Kind::kValues, 2, 3},
                  {Kind::kGradients, 3, 2},
                  {Kind::kGradients, 2, 1},
                  {Kind::kGradients, 2, 0},
                  {Kind::kTied, 1, 0}});
  for (int i = 0; i < 3000; ++i) {
    const char* const name = i % 2 == 0 ? "1f1b" : "interleaved";
    const uint32_t ranks = i % 2 == 0 ? 4 : 2;
    PipelineSchedule schedule =
        generate_schedule({name, ranks, 2 + static_cast<uint32_t>(random() % 3)});
    for (size_t swaps = 1 + random() % 4; swaps > 0; --swaps) {
      std::vector<StageAction>& row = schedule.rows[random() % ranks];
      const size_t at = random() % (row.size() - 1);
      if (row[at].kind != row[at + 1].kind || row[at].stage != row[at + 1].stage) {
        std::swap(row[at], row[at + 1]);
      }
    }
    plain.check(schedule);
    linked.check(schedule);
  }
  CHECK(plain.num_deadlocks > 150);
  CHECK(plain.num_valid > 1000);
  CHECK(linked.num_deadlocks > 150);
  CHECK(linked.num_deadlocks < plain.num_deadlocks);
}

TEST_CASE("a problem names rank, action and numbers", "[schedule]") {
  const std::string valid = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
  CHECK(problem_of(valid) == "none");
  CHECK(problem_of("0F0,0F1,0B0\n1F0,1B0,1F1,1B1\n") ==
        "rank 0: the backward 0B1 is missing (stage 0 has 1 of 2)");
  CHECK(problem_of("0F0,0B0,0B1\n1F0,1B0,1F1,1B1\n") ==
        "rank 0: the forward 0F1 is missing (stage 0 has 1 of 2)");
  CHECK(problem_of("0F0,0I0,0F1,0B1\n1F0,1B0,1F1,1B1\n") ==
        "rank 0, action 4 (0B1): a stage runs microbatches in their order (expected 0, found 1)");
  CHECK(problem_of("0F0,0F1,0I0,0I1,0W0\n1F0,1B0,1F1,1B1\n") ==
        "rank 0: the backward of weights 0W1 is missing (stage 0 has 1 of 2)");
  CHECK(problem_of("0F0,0F1,0B0,0B1\n2F0,2B0,2F1,2B1\n") ==
        "no rank has stage 1 (stages 0 to 2 are needed)");
  CHECK(problem_of("0F0,0B0\n\n1F0,1B0\n") == "rank 1: the row has no action");
  CHECK(problem_of("0UNSHARD\n") == "the table has no forward");
  CHECK(problem_of("0F0,0F1,0B0,0B1,0B1\n1F0,1B0,1F1,1B1\n") ==
        "rank 0, action 5 (0B1): the action occurs twice");
  CHECK(problem_of("0F0,0F1,0B0,0B1,1B1\n1F0,1B0,1F1\n") ==
        "rank 1, action 1 (1F0): stage 1 belongs to rank 0, whose row names it first");
  CHECK(problem_of("0F0,0B0,0B1,0F1\n1F0,1B0,1F1,1B1\n") ==
        "rank 0, action 3 (0B1): its forward 0F1 is not before it");
  CHECK(problem_of("0F0,0F1,0W0,0I0,0B1\n1F0,1B0,1F1,1B1\n") ==
        "rank 0, action 3 (0W0): its backward of inputs 0I0 is not before it");
  CHECK(problem_of("0F0,0F1,0I0,0B0,0B1\n1F0,1B0,1F1,1B1\n") ==
        "rank 0, action 4 (0B0): a half of this backward is before it");
  CHECK(problem_of("0F0,0F1,0B0,0I0,0B1\n1F0,1B0,1F1,1B1\n") ==
        "rank 0, action 4 (0I0): the whole backward is before it");
  CHECK(problem_of("0F1,0F0,0B0,0B1\n1F0,1B0,1F1,1B1\n") ==
        "rank 0, action 1 (0F1): a stage runs microbatches in their order (expected 0, found 1)");
  CHECK(problem_of("0F0,0SEND_F0,0SEND_F0,0B0\n1F0,1B0\n") ==
        "rank 0, action 3 (0SEND_F0): the action occurs twice");
  CHECK(problem_of("0F0,1RECV_F0,0B0\n1F0,1B0\n") ==
        "rank 1, action 1 (1F0): stage 1 belongs to rank 0, whose row names it first");
}

TEST_CASE("numbers beyond the pipeline are refused at their action", "[schedule]") {
  PipelineSchedule schedule = read_schedule("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n").schedule;
  schedule.num_microbatches = 1;
  CHECK(problem_of(schedule) ==
        "rank 0, action 2 (0F1): the microbatch does not exist (the step has 1 microbatch, from "
        "0)");
  schedule.num_microbatches = 3;
  CHECK(problem_of(schedule) == "rank 0: the forward 0F2 is missing (stage 0 has 2 of 3)");
  schedule.num_microbatches = 2;
  schedule.num_stages = 1;
  CHECK(problem_of(schedule) ==
        "rank 1, action 1 (1F0): the stage does not exist (the pipeline has 1 stage)");
  schedule.num_stages = 4;
  CHECK(problem_of(schedule) == "no rank has stage 2 (stages 0 to 3 are needed)");
}

TEST_CASE("a deadlock names each rank of the cycle and what it waits for", "[schedule]") {
  CHECK(problem_of("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n") ==
        "deadlock: rank 0 waits at action 2 (0B0) for gradients of stage 1 from rank 1; rank 1 "
        "waits at action 2 (1F1) for values of stage 0 from rank 0");
  // Rank 0 waits too, but no rank waits for it.
  CHECK(problem_of("0F0,0B0,0F1,0B1\n1F0,1B0,1F1,1B1\n2F0,2F1,2B0,2B1\n") ==
        "deadlock: rank 1 waits at action 2 (1B0) for gradients of stage 2 from rank 2; rank 2 "
        "waits at action 2 (2F1) for values of stage 1 from rank 1");
  CHECK(problem_of("0F0,1F1,0F1,1F0,1B0,1B1,0B0,0B1\n") ==
        "rank 0, action 2 (1F1): a stage runs microbatches in their order (expected 0, found 1)");
  CHECK(problem_of("1F0,0F0,1B0,0B0\n") ==
        "deadlock: rank 0 waits at action 1 (1F0) for values of stage 0 from a later action of its "
        "row");
  ScheduleCheck tied{.links = chain_links(2)};
  tied.links.push_back({StageLink::Kind::kTied, 0, 1});
  CHECK(problem_of("0F0,0B0\n1F0,1B0\n", tied) ==
        "deadlock: rank 0 waits at action 2 (0B0) for gradients of stage 1 from rank 1; rank 1 "
        "waits at action 2 (1B0) for a part of a tied parameter of stage 0 from rank 0");
}

TEST_CASE("more held microbatches than the limit are refused at their forward", "[schedule]") {
  const PipelineSchedule gpipe = generate_schedule({"gpipe", 4, 6});
  CHECK(problem_of(gpipe, {.most_held = 6}) == "none");
  CHECK(problem_of(gpipe, {.most_held = 4}) ==
        "rank 0, action 5 (0F4): the rank holds 5 forwards whose backward has not ended (limit 4)");
  CHECK(problem_of(generate_schedule({"1f1b", 4, 6}), {.most_held = 4}) == "none");
  // A microbatch is held until the second half of its backward.
  CHECK(problem_of("0F0,0I0,0F1,0I1,0W0,0W1\n", {.most_held = 1}) ==
        "rank 0, action 3 (0F1): the rank holds 2 forwards whose backward has not ended (limit 1)");
}

TEST_CASE("a large table is checked quickly, and a wrong number allocates nothing", "[schedule]") {
  const auto start = std::chrono::steady_clock::now();
  CHECK(problem_of(generate_schedule({"interleaved", 64, 512})) == "none");
  // A pair for each stage and microbatch would be 10^12.
  CHECK(problem_of("0F0,0B0\n999999F999999,999999B999999\n") ==
        "rank 0: the forward 0F1 is missing (stage 0 has 1 of 1000000)");
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

}  // namespace tenon
