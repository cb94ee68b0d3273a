// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/own_checkpoint.hpp"

#include <string>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

bool is_lm(const std::string& run) {
  return run == "lm";
}

CheckpointMetadata of_run(const std::string& run, const std::string& checkpoint = "") {
  CheckpointMetadata metadata;
  metadata.run = run;
  metadata.checkpoint = checkpoint;
  metadata.step = 7;
  return metadata;
}

}  // namespace

TEST_CASE("a checkpoint is a run's own if its index names the run and the folder", "[train]") {
  const CheckpointMetadata metadata = of_run("lm", "any-name");
  CHECK(is_own_checkpoint(metadata, "any-name", is_lm));
  CHECK_FALSE(is_own_checkpoint(metadata, "any-name.bak", is_lm));
  CHECK_FALSE(is_own_checkpoint(metadata, "step-00000007_epoch-0", is_lm));
  CHECK_FALSE(is_own_checkpoint(of_run("other", "any-name"), "any-name", is_lm));
}

TEST_CASE("a checkpoint of an earlier release is a run's own if its step gives its name",
          "[train]") {
  CheckpointMetadata metadata = of_run("lm");
  metadata.epochs = 1;
  metadata.windows = 2;
  for (const std::string name : {"step-00000007_epoch-1",
                                 "step-00000007_epoch-1_window-2",
                                 "step-00000007_epoch-1_2",
                                 "step-00000007_epoch-1_window-2_13"}) {
    INFO(name);
    CHECK(is_own_checkpoint(metadata, name, is_lm));
    CHECK(step_in_name(name) == 7);
  }
  for (const std::string name : {"step-00000007_epoch-1.bak",
                                 "step-00000007_epoch-1_window-2.bak",
                                 "step-00000007_epoch-1_",
                                 "step-00000007_epoch-1_copy",
                                 "step-00000007_epoch-1_2_3",
                                 "copy-of-step-00000007_epoch-1",
                                 "notes",
                                 ""}) {
    INFO(name);
    CHECK_FALSE(is_own_checkpoint(metadata, name, is_lm));
    CHECK_FALSE(step_in_name(name).has_value());
  }
  // Of another step, epoch or window.
  for (const std::string name : {"step-00000008_epoch-1",
                                 "step-00000007_epoch-11",
                                 "step-00000007_tokens-9_epoch-1",
                                 "step-00000007_epoch-1_window-3"}) {
    INFO(name);
    CHECK_FALSE(is_own_checkpoint(metadata, name, is_lm));
    CHECK(step_in_name(name).has_value());
  }
  metadata.tokens = 9;
  CHECK(is_own_checkpoint(metadata, "step-00000007_tokens-9_epoch-1", is_lm));
  CHECK(is_own_checkpoint(of_run("lm"), "step-00000007_epoch-0", is_lm));
  CHECK_FALSE(is_own_checkpoint(of_run("other"), "step-00000007_epoch-0", is_lm));
}

}  // namespace tenon
