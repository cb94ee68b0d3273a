// SPDX-License-Identifier: Apache-2.0
#include "host/schedule/load_schedule.hpp"

#include "host/error/error.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

class Desk {
 public:
  // Returns the error of a table in a file without the file's name; "no error" without one.
  std::string failure_of(const std::string& csv,
                         ScheduleRequest request = {"", 0, 0},
                         const ScheduleCheck& check = {}) const {
    request.name = folder_.write("a.csv", csv);
    try {
      load_schedule(request, check);
    } catch (const Error& error) {
      CHECK_THAT(error.message(), contains_text(request.name + ": "));
      return error.id() + error.message().substr(request.name.size());
    }
    return "no error";
  }

 private:
  ScratchFolder folder_;
};

}  // namespace

TEST_CASE("a path has a dot or a slash, a name has none", "[schedule]") {
  CHECK(is_schedule_file("table.csv"));
  CHECK(is_schedule_file("./table"));
  CHECK(is_schedule_file("/tmp/1f1b"));
  CHECK_FALSE(is_schedule_file("1f1b"));
  CHECK_FALSE(is_schedule_file("zb-h1"));
}

TEST_CASE("the numbers of a file are used where none are requested", "[schedule]") {
  const ScratchFolder folder;
  const std::string file = folder.write("a.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  const PipelineSchedule schedule = load_schedule({file, 0, 0}, {});
  CHECK(schedule.num_stages == 2);
  CHECK(schedule.num_microbatches == 2);
  CHECK(load_schedule({file, 2, 2, 1}, {}) == schedule);
  CHECK(load_schedule({"1f1b", 2, 2}, {}).rows.size() == 2);
}

TEST_CASE("the first mistake of a file is reported with row and column", "[schedule]") {
  const Desk desk;
  const std::string valid = "0F0,0F1,0B0,0B1\n,1F0,1B0,,1F1,1B1\n";
  CHECK(desk.failure_of(valid) == "no error");
  CHECK(desk.failure_of("0F0,0B0\n,1F0,,1B0,1Z0\n") ==
        "schedule.unreadable: row 2, column 5: \"1Z0\": unknown kind of action \"Z\"; expected F, "
        "B, I, W, UNSHARD, RESHARD, REDUCE_GRAD, SEND_F, RECV_F, SEND_B or RECV_B");
  CHECK(desk.failure_of("0F0,0F1,0B0,0B1\n,1F0,1B0,,1B1,1F1\n") ==
        "schedule.invalid: row 2, column 5: rank 1, action 3 (1B1): its forward 1F1 is not before "
        "it");
  CHECK(desk.failure_of("0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n") ==
        "schedule.invalid: row 2: rank 1: the backward 1B1 is missing (stage 1 has 1 of 2)");
  CHECK(desk.failure_of("0F0,0B0\n2F0,2B0\n") ==
        "schedule.invalid: no rank has stage 1 (stages 0 to 2 are needed)");
  CHECK_THAT(
      desk.failure_of("0F0,,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"),
      contains_text("schedule.invalid: row 1, column 3: deadlock: rank 0 waits at action 2"));
}

TEST_CASE("a file for other numbers is refused", "[schedule]") {
  const Desk desk;
  const std::string valid = "0F0,0F1,0B0,0B1\n,1F0,1B0,,1F1,1B1\n";
  CHECK(desk.failure_of(valid, {"", 2, 2, 1}) == "no error");
  CHECK(desk.failure_of(valid, {"", 3, 0}) ==
        "schedule.invalid: expected a row for each of 3 ranks, found 2 rows");
  CHECK(desk.failure_of(valid, {"", 0, 3}) ==
        "schedule.invalid: row 1: rank 0: the forward 0F2 is missing (stage 0 has 2 of 3)");
  CHECK(desk.failure_of(valid, {"", 0, 1}) ==
        "schedule.invalid: row 1, column 2: rank 0, action 2 (0F1): the microbatch does not exist "
        "(the step has 1 microbatch, from 0)");
  CHECK(desk.failure_of(valid, {"", 0, 0, 2}) ==
        "schedule.invalid: no rank has stage 2 (stages 0 to 3 are needed)");
  CHECK(
      desk.failure_of(valid, {"", 0, 0}, {.most_held = 1}) ==
      "schedule.invalid: row 1, column 2: rank 0, action 2 (0F1): the rank holds 2 forwards whose "
      "backward has not ended (limit 1)");
  CHECK_THROWS_WITH(load_schedule({"gpipe", 2, 3}, {.most_held = 2}),
                    "[schedule.invalid] gpipe: rank 0, action 3 (0F2): the rank holds 3 forwards "
                    "whose backward has not ended (limit 2)");
}

}  // namespace tenon
