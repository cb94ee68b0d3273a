// SPDX-License-Identifier: Apache-2.0
#include "host/schedule/schedule_csv.hpp"

#include "host/error/error.hpp"
#include "host/schedule/generate_schedule.hpp"

#include <utility>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

std::string csv_failure(const std::string& csv) {
  try {
    read_schedule(csv);
  } catch (const Error& error) {
    CHECK(error.id() == "schedule.unreadable");
    return error.message();
  }
  return "no error";
}

const PipelineSchedule& two_ranks() {
  static const PipelineSchedule schedule = read_schedule("0F0,0B0\n1F0,1B0\n").schedule;
  return schedule;
}

}  // namespace

TEST_CASE("a table that is written and read is the same", "[schedule]") {
  for (const std::string& name : schedule_names()) {
    for (const uint32_t ranks : {1U, 2U, 5U}) {
      for (const uint32_t microbatches : {1U, 3U, 12U}) {
        CAPTURE(name, ranks, microbatches);
        const PipelineSchedule schedule = generate_schedule({name, ranks, microbatches});
        CHECK(read_schedule(schedule_csv(schedule)).schedule == schedule);
      }
    }
  }
}

TEST_CASE("all actions have a text", "[schedule]") {
  const std::string csv =
      "3UNSHARD,3RECV_F7,3F7,3SEND_F7,3RECV_B7,3I7,3SEND_B7,3W7,3B8,3RESHARD,3REDUCE_GRAD\n";
  const PipelineSchedule schedule = read_schedule(csv).schedule;
  using K = StageActionKind;
  const std::vector<StageAction> expected = {{3, K::kGather, kNoMicrobatch},
                                             {3, K::kReceiveValues, 7},
                                             {3, K::kForward, 7},
                                             {3, K::kSendValues, 7},
                                             {3, K::kReceiveGradients, 7},
                                             {3, K::kBackwardInputs, 7},
                                             {3, K::kSendGradients, 7},
                                             {3, K::kBackwardWeights, 7},
                                             {3, K::kBackward, 8},
                                             {3, K::kFree, kNoMicrobatch},
                                             {3, K::kReduce, kNoMicrobatch}};
  REQUIRE(schedule.rows.size() == 1);
  CHECK(schedule.rows.front() == expected);
  CHECK(schedule.num_stages == 4);
  CHECK(schedule.num_microbatches == 9);
  CHECK(schedule_csv(schedule) == csv);
}

TEST_CASE("files of spreadsheets and of PyTorch are read", "[schedule]") {
  for (const std::string csv : {"0F0,0B0\n1F0,1B0",
                                "0F0,0B0\r\n1F0,1B0\r\n",
                                "\xef\xbb\xbf"
                                "0F0,0B0\n1F0,1B0\n",
                                ",0F0,,,0B0,\n,,1F0,1B0\n",
                                " 0F0 ,\t0B0\n1F0, 1B0 \n",
                                "\"0F0\",\"0B0\"\n\" 1F0\",1B0\n",
                                "0F0,0B0\n1F0,1B0\n\n,,\n\r\n",
                                "(0F0;0B0)OVERLAP_F_B\n( 1F0 ; 1B0 )OVERLAP_F_B\n",
                                "00F0,0B00\n1F000,1B0\n"}) {
    CAPTURE(csv);
    CHECK(read_schedule(csv).schedule == two_ranks());
  }
}

TEST_CASE("a table knows the columns of its actions", "[schedule]") {
  const ScheduleTable table = read_schedule(",0F0,(0F1;0B0)OVERLAP_F_B,,0B1\n1F0\n");
  using Columns = std::vector<std::vector<uint32_t>>;
  CHECK(table.columns == Columns{{2, 3, 3, 5}, {1}});
}

TEST_CASE("an empty row in the middle is the row of a rank", "[schedule]") {
  const PipelineSchedule schedule = read_schedule("0F0\n\n1F0\n").schedule;
  CHECK(schedule.rows.size() == 3);
  CHECK(schedule.rows[1].empty());
}

TEST_CASE("a bad table is refused with row and column", "[schedule]") {
  const std::string empty = "the table has no action; write a row for each rank, such as 0F0,0B0";
  const std::string form = "expected an action, such as 2F0: stage, kind, microbatch";
  const std::string side = "expected actions side by side, such as (0F1;3B0)OVERLAP_F_B";
  const std::string kinds =
      "; expected F, B, I, W, UNSHARD, RESHARD, REDUCE_GRAD, SEND_F, RECV_F, SEND_B or RECV_B";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", empty},
      {"\n,,\n \n", empty},
      {"\xef\xbb\xbf", empty},
      {"0F0,0X0", "row 1, column 2: \"0X0\": unknown kind of action \"X\"" + kinds},
      {"0F0\n1f0", "row 2, column 1: \"1f0\": unknown kind of action \"f\"" + kinds},
      {"rank,0F0", "row 1, column 1: \"rank\": " + form},
      {"0F0;0B0", "row 1, column 1: \"0F0;0B0\": unknown kind of action \"F0;0B\"" + kinds},
      {"0F0,F0", "row 1, column 2: \"F0\": " + form},
      {"0F0,17", "row 1, column 2: \"17\": " + form},
      {"-1F0", "row 1, column 1: \"-1F0\": " + form},
      {"0F-1", "row 1, column 1: \"0F-1\": unknown kind of action \"F-\"" + kinds},
      {"0F", "row 1, column 1: \"0F\": F needs a microbatch; expected a text such as 2F0"},
      {"0SEND_B",
       "row 1, column 1: \"0SEND_B\": SEND_B needs a microbatch; expected a text such as 2SEND_B0"},
      {"0UNSHARD3",
       "row 1, column 1: \"0UNSHARD3\": UNSHARD has no microbatch; expected a text such as "
       "2UNSHARD"},
      {"0F1000000", "row 1, column 1: \"0F1000000\": the microbatch is too large (at most 999999)"},
      {"99999999999F0",
       "row 1, column 1: \"99999999999F0\": the stage is too large (at most 999999)"},
      {"0F0,,,(0F1;0B0", "row 1, column 4: \"(0F1;0B0\": " + side},
      {"(0F1;0B0)OVERLAP", "row 1, column 1: \"(0F1;0B0)OVERLAP\": " + side},
      {"()OVERLAP_F_B", "row 1, column 1: \"()OVERLAP_F_B\": " + form},
      {"(0F1;)OVERLAP_F_B", "row 1, column 1: \"(0F1;)OVERLAP_F_B\": " + form},
      {"0F0,\"0B0", "row 1, column 2: \"\"0B0\": " + form},
      {"0F0 0B0", "row 1, column 1: \"0F0 0B0\": unknown kind of action \"F0 0B\"" + kinds},
      {std::string("0F0\0,0B0", 8),
       "row 1, column 1: \"0F0\\x00\": unknown kind of action \"F0\\x00\"" + kinds},
      {"0F\xff"
       "0",
       "row 1, column 1: \"0F\\xff0\": unknown kind of action \"F\\xff\"" + kinds},
      {std::string(100, 'x'), "row 1, column 1: \"" + std::string(40, 'x') + "...\": " + form}};
  for (const auto& [csv, message] : cases) {
    CAPTURE(csv);
    CHECK(csv_failure(csv) == message);
  }
}

TEST_CASE("the numbers of rows and bytes are limited", "[schedule]") {
  std::string rows;
  for (uint32_t i = 0; i < kMostScheduleRanks; ++i) {
    rows += "0F0\n";
  }
  CHECK(csv_failure(rows + "\n\n") == "no error");
  CHECK(csv_failure(rows + "\n0F0") ==
        "the table has more than 10000 rows; write a row for each rank");
  const ScratchFolder folder;
  const std::string large = folder.write("a.csv", std::string(kMostScheduleBytes + 1, ','));
  CHECK_THROWS_WITH(read_schedule_file(large),
                    "[schedule.unreadable] " + large +
                        ": the file is larger than 8 MiB; a table of a schedule is smaller");
}

TEST_CASE("a file that cannot be read is named", "[schedule]") {
  const ScratchFolder folder;
  const std::string missing = folder.path() / "b.csv";
  CHECK_THROWS_WITH(
      read_schedule_file(missing),
      contains_text("[schedule.unreadable] " + missing + ": the file cannot be read"));
  CHECK_THROWS_WITH(read_schedule_file(folder.path()), contains_text("not a regular file"));
  const std::string bad = folder.write("c.csv", "0F0,0Q0\n");
  CHECK_THROWS_WITH(read_schedule_file(bad),
                    contains_text("[schedule.unreadable] " + bad + ": row 1, column 2: \"0Q0\""));
}

}  // namespace tenon
