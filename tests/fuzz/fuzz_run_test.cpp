// SPDX-License-Identifier: Apache-2.0
//
// A fuzz program that finds a mistake says so, keeps the case, and finds it again from what it
// kept.
#include <filesystem>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

SubprocessResult run_planted(const std::string& mistake,
                             const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {(build_dir() / "tests" / "fuzz" / "planted_fuzz").string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_subprocess(command, {.environment = {{"TENON_PLANTED", mistake}}});
}

// What the output says behind `mark`, to the end of the line.
std::string after(const std::string& text, const std::string& mark) {
  const std::size_t at = text.find(mark);
  REQUIRE(at != std::string::npos);
  const std::size_t from = at + mark.size();
  return text.substr(from, text.find('\n', from) - from);
}

// What does not depend on the time.
std::string below_first_line(const std::string& text) {
  return text.substr(text.find('\n'));
}

}  // namespace

TEST_CASE("cases without a mistake are counted by what became of them", "[fuzz]") {
  const SubprocessResult result = run_planted("", {"--cases", "500", "--seed", "3"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("planted_fuzz: 500 cases of seed 3"));
  CHECK_THAT(result.out, Catch::Contains(" accepted\n"));
  CHECK_THAT(result.out, Catch::Contains(" planted.odd\n"));
  CHECK(below_first_line(result.out) ==
        below_first_line(run_planted("", {"--cases", "500", "--seed", "3"}).out));
}

TEST_CASE("each kind of bug is found, saved and found again", "[fuzz]") {
  const auto [mistake, sign] = GENERATE(table<std::string, std::string>({
      {"overrun", "heap-buffer-overflow"},
      {"overflow", "signed integer overflow"},
      {"abort", "ABRT"},
      {"memory", "exceeds maximum supported size"},
      {"hang", "the case takes too long"},
      {"throw", "planted"},
      {"message", "no UTF-8"},
  }));
  CAPTURE(mistake);
  const SubprocessResult result = run_planted(mistake, {"--cases", "2000"});
  CHECK(result.exit_code != 0);
  CHECK_THAT(result.err, Catch::Contains(sign));
  const std::string file = after(result.err, "The case is kept in ");
  const std::string again = after(result.err, "To run it again: ");
  CHECK_THAT(file, Catch::Contains("fuzz-findings/planted_fuzz-1-"));
  REQUIRE(fs::exists(file));

  const std::string number = again.substr(again.rfind(' ') + 1);
  const SubprocessResult by_number = run_planted(mistake, {"--seed", "1", "--case", number});
  CHECK(by_number.exit_code != 0);
  CHECK_THAT(by_number.err, Catch::Contains(sign));
  const SubprocessResult by_file = run_planted(mistake, {"--input", file});
  CHECK(by_file.exit_code != 0);
  CHECK_THAT(by_file.err, Catch::Contains(sign));
  CHECK(run_planted("", {"--input", file}).exit_code == 0);
  fs::remove(file);
}

TEST_CASE("a fuzz program refuses what it does not know", "[fuzz]") {
  CHECK(run_planted("", {"--frobnicate", "1"}).exit_code == 2);
  CHECK(run_planted("", {"--cases", "many"}).exit_code == 2);
  CHECK(run_planted("", {"--cases"}).exit_code == 2);
  CHECK(run_planted("", {"--input", "/no/such/file"}).exit_code == 2);
}

}  // namespace tenon
