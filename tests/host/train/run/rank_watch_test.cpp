// SPDX-License-Identifier: Apache-2.0
//
// Of one rank: tests/ranks has several.
#include "host/train/run/rank_watch.hpp"

#include <filesystem>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {

TEST_CASE("alone, a rank ends with its own error and its catalogue's status before a step",
          "[train]") {
  const std::unique_ptr<World> world = World::join({}, {});
  PublishedState published;
  RankWatch watch(*world, {}, {}, published);
  const Error error("data.empty", "asked for by a test");
  CHECK(watch.fail(error).code == error.exit_code());
  CHECK_FALSE(watch.fail(error).is_told);
  published.set({.step = 4});
  CHECK(watch.fail(error).code == ExitCode::kFailed);
  const Error non_finite("train.non_finite", "asked for by a test");
  CHECK(watch.fail(non_finite).code == ExitCode::kNonFinite);
}

TEST_CASE("alone, a rank keeps no records and ends no process", "[train]") {
  const ScratchFolder folder;
  const std::unique_ptr<World> world = World::join({}, {});
  const PublishedState published;
  RankWatch watch(*world, {}, {}, published);
  watch.use_folder(folder.path().string(), [](const Error&, int) { FAIL("nobody has failed"); });
  CHECK(watch.writes_summary());
  watch.end_start();
  watch.expect_end();
  watch.conclude({"data.empty", "asked for by a test", 1});
  watch.forget_writer();
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace tenon
