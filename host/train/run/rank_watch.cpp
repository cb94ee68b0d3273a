// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/rank_watch.hpp"

#include "host/distributed/failures/failed_run.hpp"
#include "host/error/plugin_text.hpp"
#include "host/hook/event_name.hpp"
#include "host/log/log.hpp"
#include "host/train/run/rank_records.hpp"

#include <cstdio>
#include <unistd.h>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// Time limit for the end of the process, after everything is reported.
constexpr unsigned kSecondsToEnd = 3;

std::string machine_name() {
  char name[256] = "";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

// The kind of the error decides: the same recipe and the same data fail again whenever the error
// is found. Any other error once this process has begun a step is a failure of the run.
ExitCode code_of(const Error& error, bool has_begun) {
  const ExitCode code = error.exit_code();
  return !has_begun || code == ExitCode::kRecipe || code == ExitCode::kNonFinite
             ? code
             : ExitCode::kFailed;
}

}  // namespace

RankWatch::RankWatch(World& world,
                     Process& process,
                     const RankEnvironment& ranks,
                     const WorldOptions& limits,
                     const PublishedState& published)
    : world_(world),
      process_(process),
      rank_(world.rank()),
      published_(published),
      has_own_terminal_(has_own_terminal(ranks)) {
  if (world.size() == 1) {
    return;
  }
  std::unique_ptr<Store> store = world.open_store();
  MonitorOptions options;
  options.rank = world.rank();
  options.size = world.size();
  options.start_timeout = limits.start_timeout;
  options.timeout = limits.timeout;
  options.is_store_served = ranks.is_store_served;
  options.machine = machine_name();
  options.process = own_process();
  MonitorCallbacks callbacks;
  callbacks.look = [this] { return activity(); };
  callbacks.collectives = [this] { return world_.last_collectives(); };
  callbacks.abort = [this](const std::string& reason) { world_.abort(reason); };
  callbacks.write = [this](const RankRecord& record) {
    RankRecords(folder_for(record.first)).write(record);
  };
  callbacks.print = [this](const RankFailure& first, const std::vector<KnownRank>& known) {
    print(first, known);
  };
  // Ranks of --launch do not outlive the launcher: if they cannot reach it, it sees them end.
  const bool is_reported = ranks.launcher == "launch";
  callbacks.claim_report = [this, is_reported](const RankFailure& first) {
    return !is_reported && RankRecords(folder_for(first)).claim_report();
  };
  callbacks.end = [this](const RankFailure& first) { end_with(first); };
  monitor_ = std::make_unique<RankMonitor>(std::move(store), options, std::move(callbacks));
}

RankWatch::~RankWatch() = default;

void RankWatch::use_folder(const std::string& run_dir, SummaryWriter write_summary) {
  {
    const std::lock_guard lock(mutex_);
    run_dir_ = run_dir;
    write_summary_ = std::move(write_summary);
  }
  if (monitor_ != nullptr) {
    monitor_->set_folder(run_dir);
  } else if (const std::unique_ptr<Store> store = world_.open_store()) {
    FailedRunStore(*store).set_folder(run_dir);  // for ranks that are started after this one
  }
}

void RankWatch::use_journal(Journal& journal) {
  const std::lock_guard lock(mutex_);
  journal_ = &journal;
}

void RankWatch::report(const RankFailure& first) const {
  const std::lock_guard lock(mutex_);
  if (journal_ != nullptr) {
    const std::string text = first.sentence();
    journal_->add(RankReported{.rank = first.rank, .has_failed = true, .text = text});
  }
}

void RankWatch::forget_writer() {
  const std::lock_guard lock(mutex_);
  write_summary_ = nullptr;
}

void RankWatch::end_start() {
  if (monitor_ != nullptr) {
    monitor_->end_start();
  }
}

FailedEnd RankWatch::fail(const Error& error) {
  const ExitCode code = code_of(error, published_.has_begun());
  if (monitor_ == nullptr) {
    return {error, code, false};
  }
  const RankFailure first = monitor_->fail(error, static_cast<int>(code));
  report(first);
  const auto code_of_all = static_cast<ExitCode>(first.exit_code);
  const bool is_own = first.kind == RankFailure::Kind::kThrew && first.rank == rank_;
  if (is_own || error.id() != "distributed.failed") {
    return {error, code_of_all, true};
  }
  return {Error(first.id(), first.sentence()), code_of_all, true};
}

void RankWatch::conclude(const RankEnd& end) {
  if (monitor_ == nullptr) {
    return;
  }
  monitor_->conclude(end);
  print_unless_reported(end.error);
  // Only destructors remain, and communication engines whose peers are gone.
  process_.end_after_grace(end.error, end.exit_code, kSecondsToEnd);
}

bool RankWatch::writes_summary() const {
  return rank_ == 0 || (monitor_ != nullptr && monitor_->stands_in_for_first());
}

void RankWatch::expect_end() {
  if (monitor_ != nullptr) {
    monitor_->expect_end();
  }
}

std::string RankWatch::folder_for(const RankFailure& first) const {
  const std::lock_guard lock(mutex_);
  return folder_for_records(
      run_dir_, first, published_.has_begun() ? HasBegun::kYes : HasBegun::kNo);
}

RankActivity RankWatch::activity() {
  RankActivity now;
  now.step = published_.get().step;
  if (const std::optional<uint32_t> event = published_.event()) {
    now.event = event_name(*event);
  }
  const std::lock_guard lock(mutex_);
  if (const std::optional<StuckCall> call = longest_call_.look()) {
    now.call = call->name();
    now.call_seconds = call->seconds;
  }
  return now;
}

// Prints to stderr on any rank, although ranks other than 0 usually write to their logs only.
void RankWatch::print(const RankFailure& first, const std::vector<KnownRank>& ranks) {
  const RankRecords records(folder_for(first));
  const std::string text = printable_text(report_text(first, ranks, records.folder()));
  records.write_report(text);
  has_printed_ = true;
  log_to_file(text);
  flush_log();
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

// In a separate terminal, a rank says why it ends, although another rank prints the report.
void RankWatch::print_unless_reported(const std::string& error) {
  if (has_own_terminal_ && !has_printed_.exchange(true)) {
    std::fputs((printable_text(error) + "\n").c_str(), stderr);
    std::fflush(stderr);
  }
}

void RankWatch::end_with(const RankFailure& first) {
  const Error error(first.id(), first.sentence());
  print_unless_reported(error.what());
  process_.end_after_grace(error.what(), first.exit_code, kSecondsToEnd);
  report(first);
  log_to_file(error.what());
  SummaryWriter write_summary;
  {
    const std::lock_guard lock(mutex_);
    write_summary = write_summary_;
  }
  if (write_summary && writes_summary()) {
    write_summary(error, first.exit_code);
  }
  flush_log();
  // Runs no destructors and no plugins: they might wait for the call that does not return.
  process_.end_at_once(first.exit_code);
}

}  // namespace tenon
