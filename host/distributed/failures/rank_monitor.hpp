// SPDX-License-Identifier: Apache-2.0
//
// Watches over the ranks of a run, from each of them: informs the others through the store what
// this one is doing, sees when another fails, is dead or stands still, and ends this rank's part in
// order when one has (docs/decisions/0017-failures-of-ranks.md).
//
//   a rank fails      it says so in the store; the first to say so is what the run failed of
//   the others see it and give up their collectives, so that their train threads throw; where one
//                     does not come out of a plugin within a grace, its process is ended
//   a rank is silent  its neighbour sees that, and says so for it
//   a collective fails  somebody else is to blame: one rank finds out who, by what all say
//   at the end        each rank writes its record; one of them prints the report
//
// It knows no plugin and no file: what a rank is doing, and how it ends, are callbacks.
// Invariants: all ranks that can reach the store end with the same failure; one prints the report.
// Threads: its own thread, which alone uses the store and calls the callbacks (`fail` calls `look`
// too); made, called and destroyed by the train thread.
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

// What a rank ends with, for its record.
struct RankEnd {
  std::string error_id;
  std::string error;
  int exit_code = 5;
};

struct MonitorCallbacks {
  // What this rank is doing.
  std::function<RankActivity()> look;
  // Its collectives so far, oldest first.
  std::function<std::vector<CollectiveRecord>()> collectives;
  // Makes all collectives fail.
  std::function<void(const std::string& reason)> abort;
  // Keeps a record, of this rank or of one that could not.
  std::function<void(const RankRecord& record)> write;
  // Prints the report, which this rank alone has been chosen to do.
  std::function<void(const RankFailure& first, const std::vector<KnownRank>& ranks)> print;
  // True for one rank alone, without the store: it is gone, or this rank is cut off from it. Is
  // called by who reports by the store as well, so that others leave it alone.
  std::function<bool(const RankFailure& first)> claim_report;
  // The train thread has not come back within the grace: ends the process, and does not return.
  std::function<void(const RankFailure& first)> end;
};

struct MonitorOptions {
  uint32_t rank = 0;
  uint32_t size = 1;
  std::chrono::milliseconds start_timeout{300'000};
  std::chrono::milliseconds timeout{100'000};
  bool is_store_served = false;  // by the launcher; else rank 0 keeps it
  std::string machine;
  ProcessName process;
};

class RankMonitor {
 public:
  // How long a rank whose run has failed elsewhere may stay in a plugin, or in its last hooks.
  static constexpr std::chrono::milliseconds kGrace{2000};

  RankMonitor(std::unique_ptr<Store> store,
              const MonitorOptions& options,
              MonitorCallbacks callbacks);
  // Says nothing more. After a failure `conclude` must have been called.
  ~RankMonitor();
  RankMonitor(const RankMonitor&) = delete;
  RankMonitor& operator=(const RankMonitor&) = delete;

  // The run folder, for whoever reports and has not made it.
  void set_folder(const std::string& run_dir);
  // From here on the other timeout counts.
  void end_start();

  // This rank's error: returns what the run failed of, which may be older, or another's doing.
  // Where it is `distributed.failed` it waits until that is found out, a few seconds at most.
  RankFailure fail(const Error& error, int exit_code);

  // What the run failed of, if it is known to have.
  std::optional<RankFailure> failure() const;

  // The last act after `fail`: keeps this rank's record, and prints the report or waits for who
  // does.
  void conclude(const RankEnd& end);

  // After `conclude`, or in the callback `end`: whether this rank is to do what rank 0 would, which
  // is lost. True on one rank at most.
  bool stands_in_for_first() const;

  // The run has ended in order here: the store may go.
  void expect_end();

 private:
  using Clock = std::chrono::steady_clock;
  struct Tracked {
    KnownRank known;
    uint64_t beat = 0;
  };
  // How far the train thread is.
  enum class Stage { kRunning, kHasFailed, kHasSeen, kEnding, kConcluding, kConcluded };

  void run(const std::stop_token& stop);
  void tick(double passed);
  void beat();
  const KnownRank& track(uint32_t rank, double passed);
  void look_around(double passed);
  void tell_own_failure(double passed);
  void declare(const RankFailure& failure);
  void receive_failure(const RankFailure& first);
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
  const double silent_after_;  // seconds: for judging, once something has failed
  const std::unique_ptr<Store> store_;
  FailedRunStore run_store_;

  // Of the monitor's thread.
  RankStatus status_;
  std::vector<SeenCollective> last_collectives_;  // as they were when the failure was detected
  std::map<uint32_t, Tracked> tracked_;
  bool is_frozen_ = false;  // status_ is what it was when the failure was detected
  double judged_seconds_ = 0;
  std::optional<bool> is_judge_;
  bool has_store_ = true;
  std::string lost_store_;  // why it has not
  Clock::time_point grace_ends_{};

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  Stage stage_ = Stage::kRunning;
  bool is_starting_ = true;
  bool is_leaving_ = false;
  bool has_news_ = false;             // for the monitor's thread
  std::optional<RankFailure> own_;    // what this rank's train thread has failed of
  std::optional<RankFailure> first_;  // what the run has
  RankEnd end_;
  std::string folder_to_tell_;
  bool stands_in_ = false;
  std::jthread thread_;  // last: ends before what it uses does
};

}  // namespace tenon
