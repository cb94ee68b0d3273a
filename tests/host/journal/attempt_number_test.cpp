// SPDX-License-Identifier: Apache-2.0
#include "host/journal/attempt_number.hpp"

#include "host/error/error.hpp"

#include <filesystem>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

// The error of a claim: "[id] message".
std::string claim_error(const std::string& run_dir) {
  try {
    claim_attempt(run_dir);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("each start in a folder has a new number", "[journal]") {
  const ScratchFolder folder;
  const std::string run = folder.path().string();
  CHECK(claim_attempt(run) == 1);
  CHECK(claim_attempt(run) == 2);
  CHECK(claim_attempt(run) == 3);
}

TEST_CASE("a process that dies while it claims a number uses up at most that number", "[journal]") {
  const ScratchFolder folder;
  const std::string run = folder.path().string();
  CHECK(claim_attempt(run) == 1);
  folder.write("attempt.tmp", "2");  // the temporary file of a killed process
  CHECK(claim_attempt(run) == 2);
  CHECK_FALSE(std::filesystem::exists(run + "/attempt.tmp"));
}

TEST_CASE("after a corrupt number the clock gives the next one", "[journal]") {
  for (const std::string text : {"",
                                 "0\n",
                                 "-1\n",
                                 "12",
                                 "1 2\n",
                                 "x\x1b[2J\n",
                                 "18446744073709551615\n",
                                 "99999999999999999999\n"}) {
    INFO(text);
    const ScratchFolder folder;
    folder.write("attempt", text);
    const uint64_t number = claim_attempt(folder.path().string());
    CHECK(number > 1'700'000'000);
    CHECK(number < 1'000'000'000'000);
    CHECK(claim_attempt(folder.path().string()) == number + 1);
  }
  const ScratchFolder folder;
  std::filesystem::create_directory(folder.path() / "attempt");
  CHECK_THAT(claim_error(folder.path().string()), contains_text("cannot be read"));
}

TEST_CASE("a folder that cannot be written is an error", "[journal]") {
  const ScratchFolder folder;
  const std::string error = claim_error((folder.path() / "gone").string());
  CHECK_THAT(error, contains_text("[run.dir_unwritable]"));
  CHECK_THAT(error, contains_text("cannot be written"));
}

}  // namespace tenon
