// SPDX-License-Identifier: Apache-2.0
//
// Reports this rank's activity to the other ranks, and ends this rank if another rank fails.
// rank_monitor.hpp implements the protocol; this class connects the protocol with the run's state,
// plugins and folder. Invariant: a world of one rank has no monitor thread and writes no records.
// Threads: [main]; callbacks run on the monitor's thread.
#pragma once

#include "host/distributed/collectives/world.hpp"
#include "host/distributed/failures/rank_monitor.hpp"
#include "host/distributed/ranks/rank_environment.hpp"
#include "host/error/error.hpp"
#include "host/journal/journal.hpp"
#include "host/plugin/longest_call.hpp"
#include "host/process/process.hpp"
#include "host/train/run_state/outcome.hpp"
#include "host/train/run_state/published_state.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace tenon {

class RankWatch {
 public:
  // Writes summary.json for a run that ends with this error and code. Called on the monitor's
  // thread while other threads still run. May be empty.
  using SummaryWriter = std::function<void(const Error& error, int code)>;

  // All arguments are borrowed and outlive this object.
  RankWatch(World& world,
            Process& process,
            const RankEnvironment& ranks,
            const WorldOptions& limits,
            const PublishedState& published);
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  // Writes records below `run_dir` from now on.
  void use_folder(const std::string& run_dir, SummaryWriter write_summary);
  // Adds failures of ranks to a journal, which is borrowed.
  void use_journal(Journal& journal);
  // Drops the summary writer. Call before the objects that it uses are destroyed.
  void forget_writer();
  // Call after the first step: the shorter timeout applies from now on.
  void end_start();

  // Reports an error that ends this rank's run to the other ranks, and aborts all collectives.
  // Returns this error, or the first failed rank's if this error is a distributed.failed. The exit
  // code is the first failure's. With several ranks, may take a few seconds.
  FailedEnd fail(const Error& error);
  // Writes this rank's record, and ensures that one rank prints the report. The last call after
  // `fail`.
  void conclude(const RankEnd& end);
  // True if this rank writes the summary: it is rank 0, or stands in for a lost rank 0.
  bool writes_summary() const;

  // What this rank does now. Any thread.
  RankActivity activity();

  // Call when the run ends in order: losing the other ranks is no failure from now on.
  void expect_end();

 private:
  void print(const RankFailure& first, const std::vector<KnownRank>& ranks);
  void print_unless_reported(const std::string& error);
  [[noreturn]] void end_with(const RankFailure& first);
  std::string folder_for(const RankFailure& first) const;
  void report(const RankFailure& first) const;

  World& world_;
  Process& process_;
  const uint32_t rank_;
  const PublishedState& published_;
  mutable std::mutex mutex_;
  LongestCall longest_call_;
  const bool has_own_terminal_;
  std::atomic<bool> has_printed_ = false;  // the report
  std::string run_dir_;
  SummaryWriter write_summary_;
  Journal* journal_ = nullptr;
  std::unique_ptr<RankMonitor> monitor_;  // null for one rank; last: its thread uses the rest
};

}  // namespace tenon
