// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/unsaved_run.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {

TEST_CASE("a run of the same name that was lost may start over in its folder", "[train]") {
  const ScratchFolder folder;
  const std::string path = folder.path().string();
  CHECK_FALSE(is_unsaved_run(path, "a"));  // no run
  folder.write("recipe.json", R"({"name": "a", "checkpoint": {"keep_last": 1}})");
  CHECK(is_unsaved_run(path, "a"));  // killed: it has no summary
  CHECK_FALSE(is_unsaved_run(path, "b"));
  folder.write("summary.json", R"({"outcome": "failed"})");
  CHECK(is_unsaved_run(path, "a"));
  folder.write("summary.json", R"({"outcome": "done"})");
  CHECK_FALSE(is_unsaved_run(path, "a"));
  folder.write("summary.json", "cut off");
  CHECK_FALSE(is_unsaved_run(path, "a"));
  folder.write("recipe.json", R"({"name": "a"})");
  CHECK_FALSE(is_unsaved_run(path, "a"));
}

}  // namespace tenon
