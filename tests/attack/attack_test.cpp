// SPDX-License-Identifier: Apache-2.0
//
// The program `attack` runs, with a few cases of each part, and finds what is planted.
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

SubprocessResult run_attack_program(const std::vector<std::string>& words,
                                    const SubprocessOptions& options = {}) {
  std::vector<std::string> command = {(build_dir() / "tests" / "attack" / "attack").string()};
  command.insert(command.end(), words.begin(), words.end());
  return run_subprocess(command, options);
}

}  // namespace

TEST_CASE("a few attacks of each kind find nothing", "[attack][members]") {
  const std::vector<std::string> parts = members_of<std::string>(
      {"damage", "kills", "flips", "disk", "recipes", "clocks", "stops", "data"}, 2);
  std::vector<std::string> words = {"--quick"};
  words.insert(words.end(), parts.begin(), parts.end());
  const SubprocessResult result = run_attack_program(words);
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, contains_text("| attack | tried | survived | findings |"));
  for (const std::string& part : parts) {
    CHECK_THAT(result.out, contains_text("| " + part + " | "));
  }
}

TEST_CASE("a planted wrong result is found, and is found again by the printed command",
          "[attack][.release]") {
  const ScratchFolder folder;
  const SubprocessOptions planted{.environment = {{"TENON_ATTACK_PLANT", "flip"}}};
  const std::string root = (folder.path() / "attack").string();
  const SubprocessResult result =
      run_attack_program({"--count", "12", "--seed", "3", "--folder", root, "flips"}, planted);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 1);
  const std::size_t at = result.out.find("    attack --seed 3 --first ");
  REQUIRE(at != std::string::npos);
  const std::size_t from = at + std::string("    attack --seed 3 --first ").size();
  const std::string first = result.out.substr(from, result.out.find(' ', from) - from);
  CHECK(std::filesystem::exists(root + "/findings/flips-3-" + first));
  const SubprocessResult again = run_attack_program(
      {"--seed", "3", "--first", first, "--count", "1", "--folder", root, "flips"}, planted);
  CHECK(again.exit_code == 1);
  CHECK(run_attack_program({"nothing"}).exit_code == 2);
}

}  // namespace tenon
