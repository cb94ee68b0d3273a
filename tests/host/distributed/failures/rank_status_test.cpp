// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/failures/rank_status.hpp"

#include "host/error/error.hpp"

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

CollectiveRecord record(const std::string& group, uint64_t number, CollectiveRecord::State state) {
  return {.number = number,
          .group = group,
          .kind = "all_gather",
          .what = "parameters of block 3",
          .bytes = 4096,
          .state = state,
          .began = std::chrono::system_clock::now() - std::chrono::seconds(20)};
}

}  // namespace

TEST_CASE("a rank's status is the same on the other side of the store", "[distributed]") {
  RankStatus status;
  status.beat = 7;
  status.machine = "node\xff";  // a name need not be text
  status.process = {1234, 5678, "here"};
  status.is_starting = false;
  status.activity = {.step = 3, .event = "after_data", .call = "dataset \"x\"", .call_seconds = 2};
  status.collectives = {{record("shard", 12, CollectiveRecord::State::kBegun), 20}};
  status.is_leaving = true;
  const RankStatus read = read_rank_status(to_text(status));
  CHECK(read.beat == 7);
  CHECK(read.process.pid == 1234);
  CHECK(read.process.started == 5678);
  CHECK(read.process.space == "here");
  CHECK_FALSE(read.is_starting);
  CHECK(read.is_leaving);
  CHECK(read.activity.text() == "in step 3, at after_data, in dataset \"x\" for 2.0 s");
  REQUIRE(read.collectives.size() == 1);
  CHECK(read.collectives[0].text() ==
        "shard 12: all_gather of \"parameters of block 3\", 4096 bytes, under way for 20 s");
  CHECK_THROWS_AS(read_rank_status("{}"), Error);
  CHECK_THROWS_AS(read_rank_status("no JSON"), Error);
}

TEST_CASE("of each group the last collective counts, and first of all one that is not done",
          "[distributed]") {
  using State = CollectiveRecord::State;
  RankStatus status;
  CHECK(status.last_collective() == nullptr);
  status.collectives = last_of_each_group({record("shard", 1, State::kDone),
                                           record("control", 1, State::kDone),
                                           record("shard", 2, State::kBegun),
                                           record("control", 2, State::kDone)});
  REQUIRE(status.collectives.size() == 2);
  CHECK(status.collectives[0].record.number == 2);
  CHECK(status.collectives[0].seconds >= 20);
  CHECK(status.last_collective()->record.group == "shard");
  status.collectives[0].record.state = State::kDone;
  CHECK(status.last_collective()->record.group == "control");
  CHECK(status.last_collective()->text() ==
        "control 2: all_gather of \"parameters of block 3\", 4096 bytes, done, begun 20 s ago");
}

TEST_CASE("a rank's place is told from its step and event", "[distributed]") {
  RankActivity activity;
  CHECK(activity.progress() == "before the first step");
  activity.event = "start";
  CHECK(activity.progress() == "before the first step, at start");
  activity.step = 2;
  CHECK(activity.text() == "in step 2, at start");
}

}  // namespace tenon
