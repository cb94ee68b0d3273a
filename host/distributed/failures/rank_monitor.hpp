// SPDX-License-Identifier: Apache-2.0
//
// Watches the ranks of a run, from each of them. The monitor publishes this rank's activity in the
// store, and detects another rank that fails, dies or hangs. It then ends this rank in an orderly
// way (docs/decisions/0017-failures-of-ranks.md).
//
//   a rank fails        it reports that in the store; the first report is the failure of the run
//   other ranks         see the report and abort their collectives, so that their train threads
//                       throw; if a train thread does not return from a plugin within the grace
//                       period, its process is ended
//   a rank is silent    its neighbor notices that, and reports it
//   a collective fails  another rank is to blame: one rank determines it from all statuses
//   at the end          each rank writes its record; one rank prints the report
//
// The monitor knows no plugins and no files: callbacks provide this rank's activity, and end it.
// Invariants: all ranks that can reach the store end with the same failure; one rank prints the
// report.
// Threads: a separate thread, which alone uses the store and calls the callbacks (`fail` also calls
// `look`); the train thread creates, calls and destroys the monitor.
#pragma once

#include "host/distributed/collectives/world.hpp"
#include "host/distributed/failures/failed_run.hpp"
#include "host/distributed/failures/failure_report.hpp"
#include "host/distributed/failures/rank_failure.hpp"
#include "host/error/error.hpp"
#include "host/text/formatted.hpp"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tenon {

// How a rank ended, for its record.
struct RankEnd {
  std::string error_id;
  std::string error;
  int exit_code = 5;
};

struct MonitorCallbacks {
  // Returns the activity of this rank.
  std::function<RankActivity()> look;
  // Returns the collectives of this rank so far, oldest first.
  std::function<std::vector<CollectiveRecord>()> collectives;
  // Fails all collectives.
  std::function<void(const std::string& reason)> abort;
  // Writes a record, of this rank or of a rank that could not write its own.
  std::function<void(const RankRecord& record)> write;
  // Prints the report. Called on the one rank that was chosen to print it.
  std::function<void(const RankFailure& first, const std::vector<KnownRank>& ranks)> print;
  // Returns true on one rank only, without the store, for ranks that cannot reach it. The rank that
  // reports through the store also calls it, so that ranks without the store do not report.
  std::function<bool(const RankFailure& first)> claim_report;
  // Ends the process, and does not return. Called if the train thread has not returned within the
  // grace period.
  std::function<void(const RankFailure& first)> end;
};

struct MonitorOptions {
  uint32_t rank = 0;
  uint32_t size = 1;
  std::chrono::milliseconds start_timeout{300'000};
  std::chrono::milliseconds timeout{100'000};
  bool is_store_served = false;  // by the launcher; otherwise rank 0 holds it
  std::string machine;
  ProcessName process;
};

class RankMonitor {
 public:
  // How long a rank may stay in a plugin, or in its last hooks, after the run has failed elsewhere.
  static constexpr std::chrono::milliseconds kGrace{2000};

  RankMonitor(std::unique_ptr<Store> store,
              const MonitorOptions& options,
              MonitorCallbacks callbacks);
  // Stops the monitor. After a failure, `conclude` must have been called.
  ~RankMonitor();
  RankMonitor(const RankMonitor&) = delete;
  RankMonitor& operator=(const RankMonitor&) = delete;

  // Sets the run folder, for a process that reports and did not create it.
  void set_folder(const std::string& run_dir);
  // Ends the start phase: from here on, `timeout` applies.
  void end_start();

  // Reports this rank's error. Returns the failure of the run, which may be older, or caused by
  // another rank. If the error is `distributed.failed`, waits until the cause is determined, a few
  // seconds at most.
  RankFailure fail(const Error& error, int exit_code);

  // Returns the failure of the run, if one is known.
  std::optional<RankFailure> failure() const;

  // The last call after `fail`: writes this rank's record, and prints the report or waits for the
  // rank that does.
  void conclude(const RankEnd& end);

  // After `conclude`, or in the callback `end`: returns true if this rank must act for rank 0,
  // which is lost. True on one rank at most.
  bool stands_in_for_first() const;

  // The run has ended normally on this rank: from now on, losing the store is no failure.
  void expect_end();

 private:
  using Clock = std::chrono::steady_clock;
  struct Tracked {
    KnownRank known;
    uint64_t beat = 0;
  };
  // Progress of the train thread.
  enum class Stage { kRunning, kHasFailed, kHasSeen, kEnding, kConcluding, kConcluded };

  void run(const std::stop_token& stop);
  void tick(double passed);
  void beat();
  const KnownRank& track(uint32_t rank, double passed);
  void look_around(double passed);
  void tell_own_failure(double passed);
  void declare(const RankFailure& failure);
  void receive_failure(const RankFailure& first);
  void lose_store(const Error& error);
  RankFailure tampered_store() const;
  void do_without_store();
  void end_if_too_late();
  void close_account(const RankEnd& end);
  void stand_in();
  void report_or_wait(const RankFailure& first);
  void report(const RankFailure& first);
  template <class Condition>
  void wait_until(std::chrono::milliseconds limit, Condition condition);
  std::optional<RankFailure> own_failure() const;
  std::string own_name() const { return formatted("rank {}", options_.rank); }
  bool keeps_store() const { return !options_.is_store_served && options_.rank == 0; }
  double limit_seconds() const;

  const MonitorOptions options_;
  const MonitorCallbacks callbacks_;
  const std::chrono::milliseconds tick_;
  const double silent_after_;  // seconds, for `judge` after a failure
  const std::unique_ptr<Store> store_;
  FailedRunStore run_store_;

  // Used only by the monitor's thread.
  RankStatus status_;
  std::vector<SeenCollective> last_collectives_;  // as they were when the failure was detected
  std::map<uint32_t, Tracked> tracked_;
  bool is_frozen_ = false;  // status_ stays as it was when the failure was detected
  double judged_seconds_ = 0;
  std::optional<bool> is_judge_;
  bool has_store_ = true;
  std::string lost_store_;    // why the store was lost
  bool is_tampered_ = false;  // somebody without the run's secret has written to the store
  Clock::time_point grace_ends_{};

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  Stage stage_ = Stage::kRunning;
  bool is_starting_ = true;
  bool is_leaving_ = false;
  bool has_news_ = false;             // for the monitor's thread
  std::optional<RankFailure> own_;    // failure of this rank's train thread
  std::optional<RankFailure> first_;  // failure of the run
  RankEnd end_;
  std::string folder_to_tell_;
  bool stands_in_ = false;
  std::jthread thread_;  // last member: ends before the members that it uses
};

}  // namespace tenon
