// SPDX-License-Identifier: Apache-2.0
//
// Of one rank: tests/ranks has several.
#include "host/train/run/rank_watch.hpp"

#include <filesystem>

#include "tests/host/train/run/run_rig.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {

TEST_CASE("alone, a rank ends with its own error, and the status of its kind", "[train]") {
  const std::unique_ptr<World> world = World::join({}, {});
  PublishedState published;
  const auto process = test_process();
  RankWatch watch(*world, *process, {}, {}, published);
  const Error data("data.changed", "asked for by a test");
  const Error plugin("plugin.failed", "asked for by a test");
  const Error non_finite("train.non_finite", "asked for by a test");
  CHECK_FALSE(watch.fail(data).is_reported);
  published.set({.step = 4});  // resumed, and no step begun
  CHECK(watch.fail(data).code == ExitCode::kRecipe);
  CHECK(watch.fail(plugin).code == ExitCode::kPlugin);
  published.begin_step({.step = 5});
  CHECK(watch.fail(data).code == ExitCode::kRecipe);  // a restart cannot help
  CHECK(watch.fail(plugin).code == ExitCode::kFailed);
  CHECK(watch.fail(non_finite).code == ExitCode::kNonFinite);
}

TEST_CASE("alone, a rank keeps no records and ends no process", "[train]") {
  const ScratchFolder folder;
  const std::unique_ptr<World> world = World::join({}, {});
  const PublishedState published;
  const auto process = test_process();
  RankWatch watch(*world, *process, {}, {}, published);
  watch.use_folder(folder.path().string(), [](const Error&, int) { FAIL("nobody has failed"); });
  CHECK(watch.writes_summary());
  watch.end_start();
  watch.expect_end();
  watch.conclude({"data.empty", "asked for by a test", 1});
  watch.forget_writer();
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace tenon
