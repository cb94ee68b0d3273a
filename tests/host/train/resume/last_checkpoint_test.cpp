// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/last_checkpoint.hpp"

#include <filesystem>

#include "tests/support/catch.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {

TEST_CASE("the last checkpoint is the one that was recorded last", "[train]") {
  const ScratchFolder run;
  const std::string path = run.path().string();
  CHECK_FALSE(last_checkpoint_of(path).has_value());
  CHECK_FALSE(last_checkpoint_of(path + "/missing").has_value());
  write_last_checkpoint(path, "runs/a/checkpoints/step-100");
  write_last_checkpoint(path, "s3://bucket/a/step-50");
  CHECK(last_checkpoint_of(path) == "s3://bucket/a/step-50");
  CHECK(names_in(run.path()) == std::vector<std::string>{"last_checkpoint"});
}

TEST_CASE("a checkpoint that cannot be recorded is no error", "[train]") {
  const ScratchFolder folder;
  write_last_checkpoint((folder.path() / "missing").string(), "runs/a/checkpoints/step-1");
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace tenon
