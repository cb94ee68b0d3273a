// SPDX-License-Identifier: Apache-2.0
#include "host/schedule/generate_schedule.hpp"

#include "host/error/error.hpp"
#include "host/schedule/check_schedule.hpp"
#include "host/schedule/schedule_csv.hpp"

#include <algorithm>

#include "tests/host/schedule/naive_pipeline.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

std::string generate_failure(const ScheduleRequest& request) {
  try {
    generate_schedule(request);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("each generator works for any number of ranks and microbatches", "[schedule]") {
  int num_tables = 0;
  for (const std::string& name : schedule_names()) {
    for (uint32_t ranks = 1; ranks <= 6; ++ranks) {
      for (uint32_t microbatches = 1; microbatches <= 14; ++microbatches) {
        CAPTURE(name, ranks, microbatches);
        const PipelineSchedule schedule = generate_schedule({name, ranks, microbatches});
        CHECK(schedule.num_microbatches == microbatches);
        CHECK(schedule.rows.size() == ranks);
        CHECK(can_run(schedule));
        ++num_tables;
      }
    }
  }
  CHECK(num_tables == 6 * 6 * 14);
}

TEST_CASE("stages are on the ranks that the generator says", "[schedule]") {
  const auto ranks_of = [](const ScheduleRequest& request) {
    return generate_schedule(request).ranks_of_stages();
  };
  using Ranks = std::vector<uint32_t>;
  CHECK(ranks_of({"1f1b", 3, 4}) == Ranks{0, 1, 2});
  CHECK(ranks_of({"interleaved", 3, 4}) == Ranks{0, 1, 2, 0, 1, 2});
  CHECK(ranks_of({"interleaved", 2, 4, 3}) == Ranks{0, 1, 0, 1, 0, 1});
  CHECK(ranks_of({"zb-v", 3, 4}) == Ranks{0, 1, 2, 2, 1, 0});
  CHECK(ranks_of({"dualpipe-v", 3, 4}) == Ranks{0, 1, 2, 2, 1, 0});
}

TEST_CASE("a generator refuses sizes that it does not have", "[schedule]") {
  CHECK(generate_failure({"1f1bb", 2, 2}) ==
        "[schedule.invalid] no schedule is named \"1f1bb\"; did you mean \"1f1b\"?");
  CHECK(generate_failure({"breadth", 2, 2}) ==
        "[schedule.invalid] no schedule is named \"breadth\"; use one of gpipe, 1f1b, interleaved, "
        "zb-h1, zb-v, dualpipe-v");
  CHECK(generate_failure({"gpipe", 0, 2}) ==
        "[schedule.invalid] gpipe: 0 ranks and 2 microbatches; a pipeline has at least 1 of each");
  CHECK(generate_failure({"gpipe", 2, 0}) ==
        "[schedule.invalid] gpipe: 2 ranks and 0 microbatches; a pipeline has at least 1 of each");
  CHECK(generate_failure({"1f1b", 2, 2, 2}) ==
        "[schedule.invalid] 1f1b: a rank has 2 stages (expected 1); use interleaved for other "
        "numbers");
  CHECK(generate_failure({"zb-v", 2, 2, 3}) ==
        "[schedule.invalid] zb-v: a rank has 3 stages (expected 2); use interleaved for other "
        "numbers");
  CHECK(generate_failure({"gpipe", 1000, 1001}) ==
        "[schedule.invalid] gpipe: 1000 stages x 2000 microbatches is more than 1000000; use fewer "
        "microbatches");
  CHECK(generate_failure({"interleaved", UINT32_MAX, UINT32_MAX, UINT32_MAX}) ==
        "[schedule.invalid] interleaved: 18446744065119617025 stages x 8589934590 microbatches is "
        "more than 1000000; use fewer microbatches");
  CHECK(generate_failure({"interleaved", 100, 1000, 10}) == "no error");
}

TEST_CASE("an evaluation runs forwards only, by microbatch and then by stage", "[schedule]") {
  const PipelineSchedule training = generate_schedule({"zb-v", 2, 5});
  const PipelineSchedule evaluation = evaluation_schedule(training, 2);
  CHECK(schedule_csv(evaluation) == "0F0,3F0,0F1,3F1\n1F0,2F0,1F1,2F1\n");
  CHECK_FALSE(find_schedule_problem(evaluation, {.pass = SchedulePass::kEvaluation}).has_value());
  const auto problem = find_schedule_problem(training, {.pass = SchedulePass::kEvaluation});
  REQUIRE(problem.has_value());
  CHECK(problem->text == "rank 0, action 5 (3I0): an evaluation has no backward");
}

}  // namespace tenon
