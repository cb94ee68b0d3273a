// SPDX-License-Identifier: Apache-2.0
#include "host/train/run_plan/step_schedule.hpp"

#include "host/schedule/generate_schedule.hpp"

#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

std::string text_of(const std::vector<StageAction>& actions) {
  std::string text;
  for (const StageAction& action : actions) {
    text += (text.empty() ? "" : " ") + action_text(action);
  }
  return text;
}

}  // namespace

TEST_CASE("without a pipeline, each backward follows its forward", "[train]") {
  const StepSchedule schedule;
  CHECK(text_of(schedule.actions(3)) == "0F0 0B0 0F1 0B1 0F2 0B2");
  CHECK(schedule.has_losses());
  CHECK_FALSE(schedule.is_pipeline());
}

TEST_CASE("a rank of a pipeline runs its row, without microbatches that the step lacks",
          "[train]") {
  const PipelineSchedule table =
      generate_schedule({.name = "interleaved", .num_ranks = 2, .num_microbatches = 4});
  const StepSchedule first(table, 0);
  CHECK(first.stages() == std::vector<uint32_t>{0, 2});
  CHECK_FALSE(first.has_losses());
  const StepSchedule last(table, 1);
  CHECK(last.first_stage() == 1);
  CHECK(last.last_stage() == 3);
  CHECK(last.has_losses());
  CHECK(last.is_pipeline());
  CHECK(last.actions(4) == table.rows[1]);
  CHECK(text_of(last.actions(1)) == "1F0 3F0 3B0 1B0");
}

TEST_CASE("halves of a backward run as one, where the first half is", "[train]") {
  const PipelineSchedule halves = {.num_stages = 1,
                                   .num_microbatches = 2,
                                   .rows = {{{0, StageActionKind::kGather, kNoMicrobatch},
                                             {0, StageActionKind::kForward, 0},
                                             {0, StageActionKind::kForward, 1},
                                             {0, StageActionKind::kBackwardInputs, 0},
                                             {0, StageActionKind::kBackwardInputs, 1},
                                             {0, StageActionKind::kBackwardWeights, 0},
                                             {0, StageActionKind::kBackwardWeights, 1}}}};
  CHECK(text_of(with_whole_backwards(halves).rows[0]) == "0F0 0F1 0B0 0B1");
}

}  // namespace tenon
