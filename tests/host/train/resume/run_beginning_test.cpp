// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/run_beginning.hpp"

#include "host/error/error.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {

TEST_CASE("a run folder records what the run began with", "[train]") {
  const ScratchFolder folder;
  const std::string run = folder.path().string();
  CHECK(beginning_of(run).is_empty());
  const RunBeginning begun{.resumed_from = "/runs/a \"b\""};
  write_beginning(run, begun);
  CHECK(beginning_of(run) == begun);
  CHECK(begun.options() == "--resume /runs/a \"b\"");
  write_beginning(run, {});
  CHECK(beginning_of(run).is_empty());
  CHECK_FALSE(std::filesystem::exists(folder.path() / kBeginningFile));
}

TEST_CASE("a record that cannot be read is an error, never no beginning", "[train]") {
  const ScratchFolder folder;
  for (const char* const text : {"", "{", "[]", R"({"resume": 3})"}) {
    INFO(text);
    folder.write(kBeginningFile, text);
    try {
      beginning_of(folder.path().string());
      FAIL("the run would begin with initial values");
    } catch (const Error& error) {
      CHECK(error.id() == "run.dir_unwritable");
      CHECK_THAT(error.what(), contains_text("--resume none"));
    }
  }
}

}  // namespace tenon
