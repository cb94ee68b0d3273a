// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/launch/launch_report.hpp"

#include <csignal>
#include <memory>

#include "tests/support/catch.hpp"
#include "tests/support/memory_store.hpp"

namespace tenon {
namespace {

EndedRank ended(uint32_t rank, int signal, int code) {
  EndedRank end;
  end.rank = rank;
  end.pid = 4711;
  end.signal = signal;
  end.code = code;
  end.status = signal != 0 ? signal : code << 8;
  end.seconds = 1.5;
  return end;
}

}  // namespace

TEST_CASE("the launcher tells the ranks of one that a signal has ended, and where it was",
          "[distributed][failures]") {
  Memory memory;
  LaunchReport report(std::make_unique<MemoryStore>(memory), 2);
  MemoryStore store(memory);
  FailedRunStore run(store);
  RankStatus status;
  status.activity = {.step = 3, .event = "after_loss"};
  run.set_status(1, status);
  run.set_folder("runs/x");
  CHECK_FALSE(report.collect().has_value());
  const EndVerdict verdict = report.note_end(ended(1, SIGKILL, 0));
  CHECK(verdict.has_failed);
  CHECK_FALSE(verdict.lost.has_value());
  REQUIRE(run.first().has_value());
  CHECK(run.first()->sentence() ==
        "rank 1 was killed by signal 9 (SIGKILL); it was last seen in step 3, at after_loss");
  CHECK_FALSE(run.claim_report("rank 0"));
  run.add_record(0);
  report.note_end(ended(0, 0, 5));
  const auto failed = report.collect();
  REQUIRE(failed.has_value());
  CHECK(failed->first.rank == 1);
  CHECK(failed->folder == "runs/x");
  REQUIRE(failed->lost.size() == 1);
  CHECK(failed->lost[0].rank == 1);
  CHECK_THAT(failed->lost[0].error, contains_text("by signal 9 (SIGKILL)"));
  CHECK_THAT(failed->last_words, contains_text("rank 1 (process 4711) ended 1.5 s after"));
  REQUIRE(failed->ranks.size() == 2);
}

TEST_CASE("the launcher knows whose error ended all ranks before they were put together",
          "[distributed][failures]") {
  Memory memory;
  LaunchReport report(std::make_unique<MemoryStore>(memory), 3);
  MemoryStore store(memory);
  FailedRunStore run(store);
  CHECK_FALSE(report.failed_early().has_value());
  run.set_early_failure(2);
  CHECK(report.failed_early() == 2u);
  memory.is_gone = true;
  CHECK_FALSE(report.failed_early().has_value());
}

TEST_CASE("the launcher ends a rank that stands still once another has told of it",
          "[distributed][failures]") {
  Memory memory;
  LaunchReport report(std::make_unique<MemoryStore>(memory), 2);
  MemoryStore store(memory);
  FailedRunStore run(store);
  RankFailure silent;
  silent.kind = RankFailure::Kind::kSilent;
  silent.rank = 1;
  run.declare(silent);
  const EndVerdict verdict = report.note_end(ended(0, 0, 5));
  CHECK(verdict.has_failed);
  CHECK(verdict.lost == 1u);
  CHECK(report.collect()->last_words.empty());
  EndedRank killed = ended(1, SIGKILL, 0);  // by the launcher
  killed.was_ended = true;
  report.note_end(killed);
  CHECK(report.collect()->first.kind == RankFailure::Kind::kSilent);
}

TEST_CASE(
    "the launcher reports the signal that killed a rank, even if a rank first reports silence",
    "[distributed][failures]") {
  Memory memory;
  LaunchReport report(std::make_unique<MemoryStore>(memory), 2);
  MemoryStore store(memory);
  FailedRunStore run(store);
  RankFailure silent;
  silent.kind = RankFailure::Kind::kSilent;
  silent.rank = 1;
  silent.activity = {.step = 3, .event = "after_loss"};
  run.declare(silent);
  report.note_end(ended(0, 0, 5));
  report.note_end(ended(1, SIGKILL, 0));
  CHECK(report.collect()->first.sentence() ==
        "rank 1 was killed by signal 9 (SIGKILL); it was last seen in step 3, at after_loss");
  CHECK_THAT(report.collect()->last_words, contains_text("rank 1 (process 4711) ended"));
}

TEST_CASE("ends in order, on request or with what all ranks know are no failure of the launcher",
          "[distributed][failures]") {
  Memory memory;
  LaunchReport report(std::make_unique<MemoryStore>(memory), 2);
  CHECK_FALSE(report.note_end(ended(0, 0, 0)).has_failed);
  CHECK_FALSE(report.note_end(ended(0, 0, 75)).has_failed);
  CHECK_FALSE(report.note_end(ended(0, 0, 3)).has_failed);
  EndedRank asked = ended(0, SIGTERM, 0);
  asked.was_ended = true;
  CHECK_FALSE(report.note_end(asked).has_failed);
  CHECK_FALSE(report.collect().has_value());
  memory.is_gone = true;
  CHECK_FALSE(report.note_end(ended(1, SIGSEGV, 0)).has_failed);  // the launcher tells it itself
}

}  // namespace tenon
