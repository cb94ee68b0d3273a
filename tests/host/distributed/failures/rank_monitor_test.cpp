// SPDX-License-Identifier: Apache-2.0
//
// Several monitors in one process, over a store that is plain memory. Waits are bounded; what is
// waited for is a condition.
#include "host/distributed/failures/rank_monitor.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/memory_store.hpp"

namespace tenon {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kForLong{30'000};

// What a rank's callbacks were told.
struct Told {
  std::mutex mutex;
  std::condition_variable changed;
  RankActivity activity;
  std::vector<CollectiveRecord> collectives;
  std::string abort_reason;
  std::vector<RankRecord> records;
  std::vector<std::string> reports;
  int num_ended = 0;

  template <class Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kForLong, condition);
  }
};

// Ranks of one world; those that are not started are as dead.
class Ranks {
 public:
  explicit Ranks(uint32_t size, bool is_store_served = false)
      : size_(size), is_store_served_(is_store_served), told_(size), monitors_(size) {}

  void start(uint32_t rank) {
    Told& told = told_[rank];
    const auto tell = [&told](auto change) {
      const std::lock_guard lock(told.mutex);
      change();
      told.changed.notify_all();
    };
    MonitorCallbacks callbacks;
    callbacks.look = [&told] {
      const std::lock_guard lock(told.mutex);
      return told.activity;
    };
    callbacks.collectives = [&told] {
      const std::lock_guard lock(told.mutex);
      return told.collectives;
    };
    callbacks.abort = [=, &told](const std::string& reason) {
      tell([&] { told.abort_reason = reason; });
    };
    callbacks.write = [=, &told](const RankRecord& record) {
      tell([&] { told.records.push_back(record); });
    };
    callbacks.print = [=, &told](const RankFailure& first, const std::vector<KnownRank>& ranks) {
      tell([&] { told.reports.push_back(report_text(first, ranks, "")); });
    };
    callbacks.claim_report = [this](const RankFailure&) { return !is_claimed_.exchange(true); };
    callbacks.end = [=, &told](const RankFailure&) { tell([&] { ++told.num_ended; }); };
    MonitorOptions options;
    options.rank = rank;
    options.size = size_;
    options.start_timeout = kForLong;
    options.timeout = milliseconds(1000);
    options.is_store_served = is_store_served_;
    monitors_[rank] = std::make_unique<RankMonitor>(
        std::make_unique<MemoryStore>(memory_), options, std::move(callbacks));
    monitors_[rank]->end_start();
  }
  // As a process does that is killed: no word to the others.
  void kill(uint32_t rank) { monitors_[rank].reset(); }

  RankMonitor& monitor(uint32_t rank) { return *monitors_[rank]; }
  Told& told(uint32_t rank) { return told_[rank]; }
  Memory& memory() { return memory_; }

  // Waits until each of them has looked at the others once since it was started, or more often.
  bool know_each_other() {
    std::unique_lock lock(memory_.mutex);
    return memory_.changed.wait_for(lock, kForLong, [&] {
      for (uint32_t rank = 0; rank < size_; ++rank) {
        const auto text = memory_.texts.find("status/" + std::to_string(rank));
        if (text == memory_.texts.end() || read_rank_status(text->second).beat < 3) {
          return false;
        }
      }
      return true;
    });
  }

  bool is_aborted(uint32_t rank) {
    return told_[rank].wait([&] { return !told_[rank].abort_reason.empty(); });
  }
  // What a rank does whose collective was given up: fail, and the end.
  RankFailure end_as_consequence(uint32_t rank) {
    return end_with(rank, Error("distributed.failed", "a collective was given up"));
  }
  RankFailure end_with(uint32_t rank, const Error& error) {
    const RankFailure first = monitor(rank).fail(error, 5);
    monitor(rank).conclude({error.id(), error.what(), first.exit_code});
    return first;
  }
  std::vector<std::string> reports() {
    std::vector<std::string> all;
    for (Told& told : told_) {
      const std::lock_guard lock(told.mutex);
      all.insert(all.end(), told.reports.begin(), told.reports.end());
    }
    return all;
  }

 private:
  uint32_t size_;
  bool is_store_served_;
  Memory memory_;
  std::atomic<bool> is_claimed_ = false;
  std::deque<Told> told_;
  std::vector<std::unique_ptr<RankMonitor>> monitors_;
};

}  // namespace

TEST_CASE("a rank that fails is told to all, which give up and end with its failure",
          "[distributed][failures]") {
  Ranks ranks(3);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ranks.start(rank);
  }
  ranks.told(1).activity = {.step = 3, .event = "after_loss"};
  std::vector<RankFailure> first(3);
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { first[1] = ranks.end_with(1, Error("plugin.failed", "asked")); });
  CHECK(ranks.is_aborted(0));
  CHECK(ranks.is_aborted(2));
  threads.emplace_back([&] { first[0] = ranks.end_as_consequence(0); });
  threads.emplace_back([&] { first[2] = ranks.end_as_consequence(2); });
  threads.clear();
  for (const RankFailure& failure : first) {
    CHECK(failure.sentence() == "rank 1 failed in step 3, at after_loss: [plugin.failed] asked");
  }
  CHECK(ranks.told(0).abort_reason == first[0].sentence());
  REQUIRE(ranks.reports().size() == 1);
  CHECK_THAT(ranks.reports()[0], contains_text("[distributed.failed] rank 1 failed in step 3"));
  CHECK_THAT(ranks.reports()[0], contains_text("  rank 2: before the first step\n"));
  for (uint32_t rank = 0; rank < 3; ++rank) {
    REQUIRE(ranks.told(rank).records.size() == 1);
    CHECK(ranks.told(rank).records[0].rank == rank);
    CHECK(ranks.told(rank).records[0].first.rank == 1);
    CHECK(ranks.told(rank).num_ended == 0);
  }
}

TEST_CASE("a rank that dies without a word is found, and its record is written for it",
          "[distributed][failures]") {
  Ranks ranks(3);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ranks.start(rank);
  }
  ranks.kill(2);
  std::vector<RankFailure> first(2);
  std::vector<std::jthread> threads;
  // Connections are closed at once, long before the timeout.
  threads.emplace_back([&] { first[0] = ranks.end_as_consequence(0); });
  threads.emplace_back([&] { first[1] = ranks.end_as_consequence(1); });
  threads.clear();
  for (const RankFailure& failure : first) {
    CHECK(failure.kind == RankFailure::Kind::kSilent);
    CHECK(failure.rank == 2);
  }
  REQUIRE(ranks.reports().size() == 1);
  size_t num_of_lost = 0;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    for (const RankRecord& record : ranks.told(rank).records) {
      num_of_lost += record.rank == 2 ? 1 : 0;
    }
  }
  CHECK(num_of_lost == 1);
}

TEST_CASE("a rank that stands still is found by its neighbour once the timeout is over",
          "[distributed][failures]") {
  Ranks ranks(2);
  ranks.start(0);
  ranks.start(1);
  CHECK(ranks.know_each_other());
  ranks.kill(1);
  CHECK(ranks.is_aborted(0));
  CHECK_THAT(ranks.told(0).abort_reason, contains_text("rank 1 has not answered for"));
  CHECK(ranks.end_as_consequence(0).rank == 1);
  CHECK(ranks.reports().size() == 1);
}

TEST_CASE("a rank that answers but keeps the others waiting is slow, where it is",
          "[distributed][failures]") {
  Ranks ranks(2);
  CollectiveRecord waits{.number = 4,
                         .group = "shard",
                         .kind = "all_gather",
                         .what = "parameters",
                         .bytes = 8,
                         .state = CollectiveRecord::State::kBegun,
                         .began = std::chrono::system_clock::now()};
  ranks.told(0).collectives = {waits};
  ranks.told(1).activity = {
      .step = 2, .event = "after_data", .call = "hook \"sync\": on_event", .call_seconds = 3};
  ranks.start(0);
  ranks.start(1);
  const RankFailure first = ranks.end_as_consequence(0);
  CHECK(first.kind == RankFailure::Kind::kSlow);
  CHECK(first.rank == 1);
  CHECK_THAT(first.sentence(), contains_text("in hook \"sync\": on_event for 3.0 s"));
  // It does not come out of the hook: the monitor ends its process.
  CHECK(ranks.told(1).wait([&] { return ranks.told(1).num_ended == 1; }));
  REQUIRE(ranks.told(1).records.size() == 1);
  CHECK_THAT(ranks.told(1).records[0].error, contains_text("which was interrupted"));
  CHECK(ranks.reports().size() == 1);
}

TEST_CASE("where rank 0 is gone with the store, one of the others reports what is known",
          "[distributed][failures]") {
  Ranks ranks(3);
  ranks.told(0).activity = {.step = 5, .event = "before_forward"};
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ranks.start(rank);
  }
  CHECK(ranks.know_each_other());
  ranks.kill(0);
  ranks.memory().is_gone = true;
  CHECK(ranks.is_aborted(1));
  CHECK(ranks.is_aborted(2));
  const RankFailure first = ranks.end_as_consequence(1);
  CHECK(ranks.end_as_consequence(2).rank == 0);
  CHECK(first.kind == RankFailure::Kind::kSilent);
  CHECK(first.rank == 0);
  CHECK(first.sentence() ==
        "rank 0 holds the store of the run and does not answer: it has exited, is stopped or is "
        "disconnected; it "
        "was last seen in step 5, at before_forward");
  CHECK(ranks.reports().size() == 1);
  CHECK(ranks.told(1).records.size() + ranks.told(2).records.size() == 3);  // of rank 0 too
  CHECK(ranks.monitor(1).stands_in_for_first() != ranks.monitor(2).stands_in_for_first());
}

TEST_CASE("where the launcher is gone with its store, the ranks say so",
          "[distributed][failures]") {
  Ranks ranks(2, true);
  ranks.start(0);
  ranks.start(1);
  ranks.memory().is_gone = true;
  CHECK(ranks.is_aborted(0));
  CHECK_THAT(ranks.end_as_consequence(0).sentence(),
             contains_text("holds the store of the ranks has exited"));
  CHECK_THAT(ranks.end_as_consequence(1).sentence(),
             contains_text("holds the store of the ranks has exited"));
  CHECK(ranks.reports().size() == 1);
}

TEST_CASE("a run that ends in order has no failure, whoever is first", "[distributed][failures]") {
  Ranks ranks(2);
  ranks.start(0);
  ranks.start(1);
  ranks.monitor(1).expect_end();
  ranks.monitor(0).expect_end();
  ranks.kill(0);
  ranks.memory().is_gone = true;
  ranks.kill(1);
  CHECK(ranks.told(1).abort_reason.empty());
  CHECK(ranks.reports().empty());
}

TEST_CASE("a failure that the launcher declares ends the ranks, and it reports",
          "[distributed][failures]") {
  Ranks ranks(2, true);
  MemoryStore own(ranks.memory());
  FailedRunStore run(own);
  CHECK(run.claim_report("the launcher"));
  ranks.start(0);
  run.declare(*failure_of_process(1, 9));
  CHECK(ranks.is_aborted(0));
  const RankFailure first = ranks.end_as_consequence(0);
  CHECK(first.kind == RankFailure::Kind::kDied);
  CHECK_THAT(first.sentence(), contains_text("rank 1 was killed by signal 9 (SIGKILL)"));
  CHECK(ranks.reports().empty());
  CHECK(run.has_record(0));
  CHECK_FALSE(run.has_record(1));
  CHECK(run.num_left() == 1);
  run.set_folder("runs/x");
  CHECK(run.folder() == "runs/x");
  CHECK(run.ranks(2)[0].status.has_value());
  CHECK(record_of_lost({1, std::nullopt, 0}, 2, first, "the launcher").written_by ==
        "the launcher");
}

}  // namespace tenon
