// SPDX-License-Identifier: Apache-2.0
//
// Statuses and failures of ranks that are nearly right, as the store holds them, are read or
// refused, and can be shown. A case is one value of the store.
#include "host/distributed/failures/failure_report.hpp"
#include "host/distributed/failures/rank_failure.hpp"

#include "tests/fuzz/json_cases.hpp"
#include "tests/fuzz/judge_error.hpp"

namespace tenon {
namespace {

RankStatus seed_status() {
  RankStatus status;
  status.beat = 7;
  status.machine = "node-1";
  status.process = {.pid = 4242, .started = 99, .space = "boot-1"};
  status.activity = {
      .step = 3, .event = "after_data", .call = "dataset \"text\": read", .call_seconds = 2.5};
  CollectiveRecord record;
  record.number = 12;
  record.group = "shard";
  record.kind = "all_gather";
  record.what = "parameters of block 3";
  record.bytes = 4096;
  status.collectives = {{record, 0.5}};
  record.group = "world";
  record.state = CollectiveRecord::State::kDone;
  status.collectives.push_back({record, 1.5});
  return status;
}

RankFailure seed_failure() {
  RankFailure failure;
  failure.kind = RankFailure::Kind::kThrew;
  failure.rank = 1;
  failure.error_id = "plugin.failed";
  failure.text = "the hook failed";
  failure.activity = seed_status().activity;
  return failure;
}

std::string make_store_value(Mutator& mutator) {
  static const JsonCases cases(
      {to_text(seed_status()), to_text(RankStatus{}), to_text(seed_failure())});
  return cases.make(mutator);
}

void check_text(const std::string& text) {
  if (!text.empty()) {
    check_fuzz_message("a report", text);
  }
}

void check_status(const std::string& text) {
  const RankStatus status = read_rank_status(text);
  const std::string again = to_text(status);
  if (to_text(read_rank_status(again)) != again) {
    throw FuzzFinding("a status differs when it is sent again");
  }
  check_text(status.activity.text());
  if (const SeenCollective* const last = status.last_collective()) {
    check_text(last->text());
  }
  const KnownRank known[] = {{0, status, 0}, {1, seed_status(), 100}};
  check_text(judge(known, 10).sentence());
  check_text(report_text(seed_failure(), known, "runs/a/errors"));
}

void check_failure(const std::string& text) {
  const RankFailure failure = read_rank_failure(text);
  const std::string again = to_text(failure);
  if (to_text(read_rank_failure(again)) != again) {
    throw FuzzFinding("a failure differs when it is sent again");
  }
  check_text(failure.sentence());
  check_text(report_text(failure, {}, ""));
}

std::string judge_store_value(const std::string& text) {
  const std::string status = outcome_of([&] { check_status(text); });
  const std::string failure = outcome_of([&] { check_failure(text); });
  return status == kFuzzAccepted ? status : failure;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::run_fuzz(
      argc,
      argv,
      {.name = "store_fuzz", .make = tenon::make_store_value, .judge = tenon::judge_store_value});
}
