// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/failures/rank_failure.hpp"

#include "host/distributed/failures/failure_report.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using State = CollectiveRecord::State;

SeenCollective collective(const std::string& group, uint64_t number, State state) {
  SeenCollective seen;
  seen.record.number = number;
  seen.record.group = group;
  seen.record.kind = "all_gather";
  seen.record.what = "parameters of block 2";
  seen.record.bytes = 1024;
  seen.record.state = state;
  seen.seconds = 4.5;
  return seen;
}

KnownRank known(uint32_t rank, std::vector<SeenCollective> collectives) {
  KnownRank known{rank, RankStatus{}, 0};
  known.status->activity = {.step = 3, .event = "before_forward"};
  known.status->machine = "node" + std::to_string(rank / 2);
  known.status->process.pid = 100 + rank;
  known.status->collectives = std::move(collectives);
  return known;
}

}  // namespace

TEST_CASE("a rank that is silent is named first, the longest of several", "[distributed]") {
  std::vector<KnownRank> ranks = {known(0, {collective("shard", 12, State::kBegun)}),
                                  known(1, {collective("shard", 11, State::kDone)}),
                                  known(2, {collective("shard", 12, State::kBegun)})};
  ranks[1].age = 3;
  ranks[2].age = 5.2;
  const RankFailure failure = judge(ranks, 2);
  CHECK(failure.kind == RankFailure::Kind::kSilent);
  CHECK(failure.sentence() ==
        "rank 2 has not answered for 5.2 s or longer: it has exited, is stopped or is "
        "disconnected; it was last "
        "seen in "
        "step 3, at before_forward");
  CHECK(failure.exit_code == 5);
  ranks[2].process = ProcessState::kStopped;
  CHECK_THAT(
      judge(ranks, 2).sentence(),
      contains_text("or longer: its process exists, but is stopped (SIGSTOP or a debugger);"));
  ranks[2].process = ProcessState::kUnknown;
  ranks[2].status.reset();
  CHECK_THAT(judge(ranks, 2).sentence(), contains_text("rank 2 never reported its status"));
  ranks[2] = known(2, {});
  ranks[2].age = 5;
  ranks[2].status->is_leaving = true;  // nothing is to be heard of it any more
  CHECK(judge(ranks, 2).rank == 1);
}

TEST_CASE("a rank that has not begun what the others wait in is slow, with the plugin it is in",
          "[distributed]") {
  std::vector<KnownRank> ranks = {known(0, {collective("shard", 12, State::kBegun)}),
                                  known(1, {collective("shard", 11, State::kDone)}),
                                  known(2, {collective("shard", 12, State::kFailed)})};
  ranks[1].status->activity.call = "dataset \"text\" (plugin org.tenon.text 0.1.0): read";
  ranks[1].status->activity.call_seconds = 7.25;
  CHECK(judge(ranks, 2).kind == RankFailure::Kind::kSlow);
  CHECK(judge(ranks, 2).sentence() ==
        "rank 1 is slow: others wait for it in shard 12: all_gather of \"parameters of block 2\", "
        "1024 bytes, under way for 4.5 s; it is in step 3, at before_forward, in dataset \"text\" "
        "(plugin org.tenon.text 0.1.0): read for 7.2 s");
}

TEST_CASE("of ranks that wait in different groups, the one that does not wait is named",
          "[distributed]") {
  // 0 waits for 1 in "shard", which waits for 3 in "replicate"; 3 computes.
  const std::vector<KnownRank> ranks = {
      known(0, {collective("shard", 5, State::kBegun), collective("replicate", 2, State::kDone)}),
      known(1, {collective("shard", 4, State::kDone), collective("replicate", 3, State::kBegun)}),
      known(3, {collective("shard", 4, State::kDone), collective("replicate", 2, State::kDone)})};
  CHECK(judge(ranks, 2).rank == 3);
}

TEST_CASE("of ranks that wait for a tensor, only the one that sends it is to blame",
          "[distributed]") {
  SeenCollective waiting = collective("stages 2 to 1", 3, State::kBegun);
  waiting.record.peer = 2;
  SeenCollective sent = collective("stages 2 to 1", 2, State::kDone);
  sent.record.peer = 1;
  const std::vector<KnownRank> ranks = {known(0, {}), known(1, {waiting}), known(2, {sent})};
  const RankFailure failure = judge(ranks, 10);
  CHECK(failure.kind == RankFailure::Kind::kSlow);
  CHECK(failure.rank == 2);
  const RankStatus read = read_rank_status(to_text(*ranks[1].status));
  CHECK(read.collectives.at(0).record.peer == 2);
}

TEST_CASE("where all wait in one collective, or one has left, that is said", "[distributed]") {
  std::vector<KnownRank> ranks = {known(0, {collective("shard", 12, State::kBegun)}),
                                  known(1, {collective("shard", 12, State::kBegun)})};
  CHECK(judge(ranks, 2).kind == RankFailure::Kind::kUnknown);
  CHECK_THAT(judge(ranks, 2).sentence(),
             contains_text("the failed rank is unknown: all ranks answer"));
  CHECK_THAT(judge(ranks, 2).sentence(), contains_text("all wait in shard 12"));
  ranks[1].status->is_leaving = true;  // it waits for the others to do so too
  CHECK(judge(ranks, 2).kind == RankFailure::Kind::kUnknown);
  ranks[1].status->collectives[0].record.state = State::kDone;
  CHECK(judge(ranks, 2).kind == RankFailure::Kind::kLeft);
  CHECK_THAT(judge(ranks, 2).sentence(), contains_text("rank 1 exited normally while other"));
}

TEST_CASE("a failure is the same on the other side of the store", "[distributed]") {
  const Error error("plugin.failed", "hook \"x\": asked to fail");
  const RankFailure failure = failure_of(2, error, 5, {.step = 3, .event = "after_loss"});
  const RankFailure read = read_rank_failure(to_text(failure));
  CHECK(read.sentence() ==
        "rank 2 failed in step 3, at after_loss: [plugin.failed] hook \"x\": asked to fail");
  CHECK(read.error_id == "plugin.failed");
  CHECK(read.exit_code == 5);
  CHECK_THROWS_AS(read_rank_failure("[]"), Error);
}

TEST_CASE("how a process ended is told by its signal or status", "[distributed]") {
  const auto text = [](int status) { return failure_of_process(1, status)->sentence(); };
  CHECK_THAT(text(9), contains_text("rank 1 was killed by signal 9 (SIGKILL); it was last seen "));
  CHECK_THAT(text(4 << 8), contains_text("rank 1 exited with status 4"));
  CHECK(failure_of_process(1, 4 << 8)->exit_code == 4);
  CHECK(failure_of_process(1, 1 << 8)->exit_code == 5);  // a plugin's exit()
  CHECK_FALSE(failure_of_process(1, 0).has_value());
  CHECK_FALSE(failure_of_process(1, 75 << 8).has_value());
}

TEST_CASE("a report has the failure, a line for each rank, and where the records are",
          "[distributed]") {
  std::vector<KnownRank> ranks = {known(0, {collective("shard", 12, State::kBegun)}),
                                  known(1, {collective("shard", 11, State::kDone)}),
                                  {2, std::nullopt, 0}};
  ranks[1].age = 6;
  const RankFailure failure = judge(ranks, 5);
  CHECK(report_text(failure, ranks, "runs/x/errors") ==
        "[distributed.failed] rank 1 has not answered for 6.0 s or longer: it has exited, is "
        "stopped or is disconnected; "
        "it was last seen in step 3, at before_forward\n"
        "  rank 0: in step 3, at before_forward; shard 12: all_gather of \"parameters of block "
        "2\", 1024 bytes, under way for 4.5 s\n"
        "  rank 1: in step 3, at before_forward; shard 11: all_gather of \"parameters of block "
        "2\", 1024 bytes, done, begun 4.5 s ago (6.0 s ago)\n"
        "  rank 2: never reported its status\n"
        "records of all ranks: runs/x/errors\n");
}

TEST_CASE("a report of many ranks has the failed one and a few others", "[distributed]") {
  std::vector<KnownRank> ranks;
  for (uint32_t rank = 0; rank < 100; ++rank) {
    ranks.push_back(known(rank, {}));
  }
  ranks[70].age = 9;
  const std::string text = report_text(judge(ranks, 5), ranks, "");
  CHECK_THAT(text, contains_text("  rank 70: "));
  CHECK_THAT(text, contains_text("  rank 14: "));
  CHECK_THAT(text, !contains_text("  rank 15: "));
  CHECK_THAT(text, contains_text("  and 84 more ranks\n"));
}

TEST_CASE("a rank's record has what it did, its error and the first failure", "[distributed]") {
  RankRecord record;
  record.rank = 1;
  record.world_size = 3;
  record.written_by = "rank 0";
  record.first = failure_of(1, Error("plugin.failed", "no\xff"), 5, {.step = 4, .event = "end"});
  record.error_id = "plugin.failed";
  record.error = record.first.text;
  record.time = "2026-01-02T03:04:05Z";
  record.status = *known(1, {collective("shard", 12, State::kBegun)}).status;
  record.last_collectives = {collective("shard", 11, State::kDone),
                             collective("shard", 12, State::kBegun)};
  const auto read = nlohmann::json::parse(to_json_text(record));
  CHECK(read["rank"] == 1);
  CHECK(read["machine"] == "node0");
  CHECK(read["exit_code"] == 5);
  CHECK(read["doing"]["step"] == 3);
  CHECK(read["first_failure"]["kind"] == "threw");
  CHECK(read["first_failure"]["doing"]["event"] == "end");
  CHECK(read["last_collectives"].size() == 2);
  CHECK(read["last_of_groups"][0]["state"] == "under way");
  CHECK(utc_time_text().size() == record.time.size());
}

}  // namespace tenon
