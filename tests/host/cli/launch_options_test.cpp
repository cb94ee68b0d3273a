// SPDX-License-Identifier: Apache-2.0
#include "host/cli/launch_options.hpp"

#include "host/cli/parse_command_line.hpp"

#include "tests/host/cli/usage_failure.hpp"
#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("ranks are started and bound as the command line says", "[cli]") {
  const CommandLine alone = parse_command_line({"--recipe", "a"});
  CHECK(alone.num_ranks == 0);
  const CommandLine four = parse_command_line({"--recipe", "a", "--launch", "4"});
  CHECK(four.num_ranks == 4);
  CHECK(four.binding == Binding::kNuma);
  const auto binding_of = [](const std::string& name) {
    return parse_command_line({"--recipe", "a", "--launch=2", "--bind", name}).binding;
  };
  CHECK(binding_of("none") == Binding::kNone);
  CHECK(binding_of("cores") == Binding::kCores);
  CHECK(binding_of("numa") == Binding::kNuma);
  for (const std::string text : {"0", "-1", "1025", "two", "2x", "99999999999"}) {
    CHECK(usage_failure({"--recipe", "a", "--launch", text}) ==
          "usage.bad_option: --launch: expected a number of ranks from 1 to 1024, found \"" + text +
              "\"");
  }
  CHECK(usage_failure({"--recipe", "a", "--launch", "2", "--bind", "core"}) ==
        "usage.bad_option: --bind: expected none, cores or numa, found \"core\"; did you mean "
        "\"cores\"?");
  CHECK(
      usage_failure({"--recipe", "a", "--bind", "cores"}) ==
      "usage.bad_option: --bind has no effect without --launch; other launchers bind their ranks");
  CHECK(four.max_restarts == 0);
  CHECK(parse_command_line({"--recipe", "a", "--launch=2", "--max-restarts", "3"}).max_restarts ==
        3);
  for (const std::string text : {"-1", "1001", "some"}) {
    CHECK(usage_failure({"--recipe", "a", "--launch", "2", "--max-restarts", text}) ==
          "usage.bad_option: --max-restarts: expected a number from 0 to 1000, found \"" + text +
              "\"");
  }
  CHECK(usage_failure({"--recipe", "a", "--max-restarts", "3"}) ==
        "usage.bad_option: --max-restarts has no effect without --launch; other launchers restart "
        "their ranks");
  const Words restarted = {"--recipe", "a", "--launch=4", "--max-restarts", "2", "--min-ranks"};
  const auto with = [&](const std::string& text) {
    Words words = restarted;
    words.push_back(text);
    return words;
  };
  CHECK(parse_command_line(with("3")).min_ranks == 3);
  for (const std::string text : {"0", "4", "some"}) {
    CHECK(usage_failure(with(text)) ==
          "usage.bad_option: --min-ranks: expected a number of ranks from 1 to 3, found \"" + text +
              "\"");
  }
  CHECK(usage_failure({"--recipe", "a", "--launch=4", "--max-restarts=1", "--min-ranks=2"}) ==
        "usage.bad_option: --min-ranks has no effect without --max-restarts of 2 or more: a rank "
        "is excluded when it fails the second time");
  CHECK_THAT(usage_failure({"--recipe", "a", "--print-recipe", "--launch", "2"}),
             contains_text("--launch has no effect with --print-recipe"));
}

TEST_CASE("a rank gets all arguments but those that start ranks", "[cli]") {
  CHECK(arguments_of_rank({"--launch", "2", "--recipe", "a", "--bind=cores", "--set", "name=x"}) ==
        Words{"--recipe", "a", "--set", "name=x"});
  CHECK(arguments_of_rank({"--recipe", "a", "--launch=2", "--bind", "none"}) ==
        Words{"--recipe", "a"});
  CHECK(arguments_of_rank(
            {"--max-restarts", "2", "--recipe", "a", "--max-restarts=3", "--min-ranks", "1"}) ==
        Words{"--recipe", "a"});
}

TEST_CASE("the options of the launcher are kept for the commands that a run suggests", "[cli]") {
  CHECK(arguments_of_launcher({"--launch",
                               "2",
                               "--recipe",
                               "a",
                               "--bind=cores",
                               "--set",
                               "x=1",
                               "--max-restarts",
                               "3",
                               "--min-ranks=1"}) ==
        Words{"--launch", "2", "--bind=cores", "--max-restarts", "3", "--min-ranks=1"});
  CHECK(arguments_of_launcher({"--recipe", "a"}).empty());
}

TEST_CASE("options of the launcher are added after a verb", "[cli]") {
  CHECK(with_launcher_options({"host", "--recipe", "a"}, {"--launch", "2"}) ==
        Words{"host", "--launch", "2", "--recipe", "a"});
  CHECK(with_launcher_options({"host", "train", "--recipe", "a"}, {"--launch", "2"}) ==
        Words{"host", "train", "--launch", "2", "--recipe", "a"});
}

}  // namespace tenon
