// SPDX-License-Identifier: Apache-2.0
//
// One rank among others: what it reports to them, and how it ends when one of them fails. The
// protocol is rank_monitor.hpp's; this class connects it with the run: its state, plugins and
// folder. Invariant: in a world of one rank there is no thread and no file, and no function does
// anything for others. Threads: [main]; callbacks come on the monitor's thread.
#pragma once

#include "host/distributed/collectives/world.hpp"
#include "host/distributed/failures/rank_monitor.hpp"
#include "host/distributed/ranks/rank_environment.hpp"
#include "host/error/error.hpp"
#include "host/plugin/longest_call.hpp"
#include "host/train/run_state/outcome.hpp"
#include "host/train/run_state/published_state.hpp"

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

  // All are borrowed, and outlive it.
  RankWatch(World& world,
            const RankEnvironment& ranks,
            const WorldOptions& limits,
            const PublishedState& published);
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  // Keeps records below `run_dir` from now on.
  void use_folder(const std::string& run_dir, SummaryWriter write_summary);
  // Forgets the writer, before what it uses is destroyed.
  void forget_writer();
  // After the first step: the shorter timeout applies from now on.
  void end_start();

  // As soon as an error ends this rank's run: tells the other ranks and aborts all collectives.
  // Returns what the run ends with: this error, or that of another rank if it came first. With
  // several ranks this may take a few seconds.
  FailedEnd fail(const Error& error);
  // The last call after `fail`: writes the record, and makes sure that one rank reports.
  void conclude(const RankEnd& end);
  // True if this rank writes what rank 0 would: it is rank 0, or rank 0 is lost.
  bool writes_summary() const;

  // The run has ended in order on all ranks.
  void expect_end();

 private:
  RankActivity look();
  void print(const RankFailure& first, const std::vector<KnownRank>& ranks);
  [[noreturn]] void end_process(const RankFailure& first);
  std::string folder_for(const RankFailure& first) const;

  World& world_;
  const uint32_t rank_;
  const PublishedState& published_;
  mutable std::mutex mutex_;
  LongestCall longest_call_;
  std::string run_dir_;
  SummaryWriter write_summary_;
  std::unique_ptr<RankMonitor> monitor_;  // null for one rank; last: its thread uses the others
};

}  // namespace tenon
