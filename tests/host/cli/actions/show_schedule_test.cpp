// SPDX-License-Identifier: Apache-2.0
#include "host/cli/all_actions.hpp"
#include "host/cli/parse_command_line.hpp"

#include "tests/host/cli/usage_failure.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

Words schedule_words(Words more) {
  more.insert(more.begin(), "--schedule");
  return more;
}

}  // namespace

TEST_CASE("a schedule is read with its numbers and times", "[cli]") {
  const CommandLine line = parse_command_line({"schedule",
                                               "interleaved",
                                               "--ranks=4",
                                               "--microbatches=8",
                                               "--stages-per-rank=3",
                                               "--most-held=12",
                                               "--times=20ms,0.01,5e-3",
                                               "--latency=5ms"});
  CHECK(line.action == &kScheduleAction);
  CHECK(line.schedule.request == ScheduleRequest{"interleaved", 4, 8, 3});
  CHECK(line.schedule.most_held == 12U);
  CHECK(line.schedule.seconds == RankSeconds{0.02, 0.01, 0.005});
  CHECK(line.schedule.message_seconds == 0.005);
  CHECK_FALSE(line.schedule.is_csv);
}

TEST_CASE("a file has numbers of its own", "[cli]") {
  const CommandLine line = parse_command_line(schedule_words({"table.csv", "--csv"}));
  CHECK(line.schedule.request == ScheduleRequest{"table.csv", 0, 0, 0});
  CHECK_FALSE(line.schedule.most_held.has_value());
  CHECK(line.schedule.seconds == RankSeconds{1, 1, 1});
  CHECK(line.schedule.is_csv);
}

TEST_CASE("options of a schedule that cannot be are refused", "[cli]") {
  CHECK(usage_failure(schedule_words({"1f1b"})) ==
        "usage.bad_option: --schedule 1f1b needs --ranks N and --microbatches N");
  CHECK(usage_failure(schedule_words({"1f1b", "--ranks", "4"})) ==
        "usage.bad_option: --schedule 1f1b needs --ranks N and --microbatches N");
  CHECK(usage_failure(schedule_words({"1f1"})) ==
        "usage.bad_option: --schedule: no schedule is named \"1f1\"; did you mean \"1f1b\"?");
  CHECK(usage_failure(schedule_words({"table"})) ==
        "usage.bad_option: --schedule: no schedule is named \"table\"; use one of gpipe, 1f1b, "
        "interleaved, zb-h1, zb-v, dualpipe-v, or a file, such as ./table.csv");
  CHECK(usage_failure(schedule_words({"a.csv", "--ranks", "0"})) ==
        "usage.bad_option: --ranks: expected a number from 1 to 10000, found \"0\"");
  CHECK(usage_failure(schedule_words({"a.csv", "--microbatches", "1000000"})) ==
        "usage.bad_option: --microbatches: expected a number from 1 to 999999, found \"1000000\"");
  CHECK_THAT(usage_failure(schedule_words({"a.csv", "--most-held", "0"})),
             contains_text("--most-held: expected a number from 1 to 999999"));
  CHECK_THAT(usage_failure(schedule_words({"a.csv", "--stages-per-rank", "-1"})),
             contains_text("--stages-per-rank: expected a number from 1 to 999999"));
  for (const std::string times : {"1", "1,2", "1,2,3,4"}) {
    CHECK(usage_failure(schedule_words({"a.csv", "--times=" + times})) ==
          "usage.bad_option: --times: expected three times, as in 20ms,20ms,20ms, found \"" +
              times + "\"");
  }
  CHECK_THAT(usage_failure(schedule_words({"a.csv", "--times", "1,,2"})),
             contains_text("--times: expected a time above 0"));
  CHECK(usage_failure(schedule_words({"a.csv", "--csv", "--latency", "1"})) ==
        "usage.bad_option: --latency has no effect with --csv; remove one of them");
  CHECK_THAT(usage_failure(schedule_words({"a.csv", "--recipe", "r.json"})),
             contains_text("--recipe has no effect with --schedule"));
}

}  // namespace tenon
