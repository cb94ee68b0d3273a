// SPDX-License-Identifier: Apache-2.0
#include "host/tools/plan/schedule_report.hpp"

#include "host/schedule/generate_schedule.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

std::string report_of(const ScheduleRequest& request) {
  const PipelineSchedule schedule = generate_schedule(request);
  return schedule_text(request.name, schedule, even_times(schedule, {}, 0));
}

}  // namespace

// docs/pipeline.md quotes these files.
TEST_CASE("the schedules of the page are drawn as on the page", "[tools]") {
  // Tables of two stages a rank are drawn as letters, and the others with names.
  const std::vector<ScheduleRequest> drawn = {{"gpipe", 4, 6},
                                              {"1f1b", 4, 6},
                                              {"zb-h1", 4, 6},
                                              {"interleaved", 4, 8},
                                              {"zb-v", 4, 8},
                                              {"dualpipe-v", 4, 8}};
  for (const ScheduleRequest& request : drawn) {
    CAPTURE(request.name);
    const auto file = source_dir() / "tests/host/tools/plan/schedules" / (request.name + ".txt");
    CHECK(report_of(request) == file_text(file));
  }
}

TEST_CASE("a report counts stages, and says what part of a rank a stage is", "[tools]") {
  CHECK(report_of({"gpipe", 1, 1}) ==
        "gpipe: 1 rank, 1 stage, 1 microbatch\n"
        "\n"
        "rank 0  F0 B0---\n"
        "F forward, B backward, . idle\n"
        "after the letter: microbatch\n"
        "\n"
        "step: 3 s\n"
        "idle share of the worst rank, first to last action: 0.000 (rank 0)\n"
        "microbatches held until their backward: at most 1 (rank 0)\n");
  CHECK_THAT(report_of({"dualpipe-v", 8, 24}),
             contains_text("idle share of the worst rank, first to last action: 0.046 (rank 0)\n"
                           "microbatches held until their backward: at most 17 of a stage, as 8.5 "
                           "of all stages of a rank (rank 0)\n"));
}

}  // namespace tenon
