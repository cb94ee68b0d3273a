// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/failures/rank_monitor.hpp"

#include <algorithm>
#include <pthread.h>
#include <utility>

namespace tenon {
namespace {

using std::chrono::milliseconds;
using Seconds = std::chrono::duration<double>;

// Id of an error that another rank has caused.
constexpr const char* kConsequence = "distributed.failed";
constexpr const char* kTampered = "distributed.unauthenticated";

constexpr milliseconds kMonitorPoll{20};
// How long other ranks wait for rank 0 to claim the report, and how long ranks without a store wait
// for ranks with one. If the former are cut off, ranks with a store know more.
constexpr milliseconds kHeadStart{300};
constexpr milliseconds kHeadStartOfStore{2000};

// Often enough that a failure costs less than a second of waiting, but seldom enough not to
// overload the store of a large world.
milliseconds tick_of(const MonitorOptions& options) {
  const auto fraction = options.timeout / 20;
  return std::clamp(fraction, milliseconds(50), milliseconds(500)) + milliseconds(options.size / 4);
}

// Observes the process of a silent rank, if that is possible from here.
void look_at_silent(KnownRank& known) {
  known.process = known.age > 0 && known.status.has_value() ? look_at(known.status->process)
                                                            : ProcessState::kUnknown;
}

}  // namespace

RankMonitor::RankMonitor(std::unique_ptr<Store> store,
                         const MonitorOptions& options,
                         MonitorCallbacks callbacks)
    : options_(options),
      callbacks_(std::move(callbacks)),
      tick_(tick_of(options)),
      silent_after_(std::max(1.0, 4 * Seconds(tick_).count())),
      store_(std::move(store)),
      run_store_(*store_) {
  status_.machine = options_.machine;
  status_.process = options_.process;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  pthread_setname_np(thread_.native_handle(), "tenon-monitor");
}

RankMonitor::~RankMonitor() = default;

// ---- train thread ----

void RankMonitor::set_folder(const std::string& run_dir) {
  const std::lock_guard lock(mutex_);
  folder_to_tell_ = run_dir;
  has_news_ = true;
  changed_.notify_all();
}

void RankMonitor::end_start() {
  const std::lock_guard lock(mutex_);
  is_starting_ = false;
  has_news_ = true;
  changed_.notify_all();
}

RankFailure RankMonitor::fail(const Error& error, int exit_code) {
  const RankActivity activity = callbacks_.look();
  std::unique_lock lock(mutex_);
  own_ = failure_of(options_.rank, error, exit_code, activity);
  stage_ = Stage::kHasFailed;
  has_news_ = true;
  changed_.notify_all();
  const auto longest =
      kGrace + std::chrono::duration_cast<milliseconds>(Seconds(3 * silent_after_));
  if (!changed_.wait_for(lock, longest, [this] { return first_.has_value(); })) {
    // The monitor is still waiting for the store.
    RankFailure unknown = *own_;
    if (unknown.error_id == kConsequence) {
      unknown.kind = RankFailure::Kind::kUnknown;
      unknown.text = "the failed rank is unknown, because the store does not answer; " +
                     own_name() + " saw: " + own_->text;
    }
    first_ = unknown;
  }
  stage_ = Stage::kHasSeen;
  has_news_ = true;
  return *first_;
}

std::optional<RankFailure> RankMonitor::failure() const {
  const std::lock_guard lock(mutex_);
  return first_;
}

void RankMonitor::conclude(const RankEnd& end) {
  std::unique_lock lock(mutex_);
  end_ = end;
  stage_ = Stage::kConcluding;
  has_news_ = true;
  changed_.notify_all();
  // Bounded: if the store hangs, the run ends without a report of this rank.
  changed_.wait_for(lock, 3 * kGrace, [this] { return stage_ == Stage::kConcluded; });
}

bool RankMonitor::stands_in_for_first() const {
  const std::lock_guard lock(mutex_);
  return stands_in_;
}

void RankMonitor::expect_end() {
  std::unique_lock lock(mutex_);
  is_leaving_ = true;
  has_news_ = true;
  changed_.notify_all();
}

double RankMonitor::limit_seconds() const {
  const std::lock_guard lock(mutex_);
  return Seconds(is_starting_ ? options_.start_timeout : options_.timeout).count();
}

// ---- monitor's thread ----

void RankMonitor::run(const std::stop_token& stop) {
  auto last = Clock::now();
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    has_news_ = false;
    lock.unlock();
    const auto now = Clock::now();
    // Limited: a long pause of this thread must not count as silence of other ranks.
    const double passed = std::min(Seconds(now - last), 2 * Seconds(tick_)).count();
    last = now;
    tick(passed);
    lock.lock();
    changed_.wait_for(lock, stop, tick_, [this] { return has_news_; });
  }
}

void RankMonitor::tick(double passed) {
  if (has_store_) {
    try {
      beat();
      if (!failure().has_value()) {
        if (const std::optional<RankFailure> first = run_store_.first()) {
          receive_failure(*first);
        } else if (own_failure().has_value()) {
          tell_own_failure(passed);
        } else {
          look_around(passed);
        }
      }
    } catch (const Error& error) {
      lose_store(error);
    }
  }
  if (!has_store_) {
    do_without_store();
  }
  Stage stage{};
  RankEnd end;
  {
    const std::lock_guard lock(mutex_);
    stage = stage_;
    end = end_;
  }
  if (stage == Stage::kConcluding) {
    close_account(end);
    const std::lock_guard lock(mutex_);
    stage_ = Stage::kConcluded;
    changed_.notify_all();
  } else if (stage != Stage::kConcluded) {
    end_if_too_late();
  }
}

void RankMonitor::beat() {
  ++status_.beat;
  if (!is_frozen_) {
    status_.activity = callbacks_.look();
    const std::vector<CollectiveRecord> collectives = callbacks_.collectives();
    status_.collectives = last_of_each_group(collectives);
    last_collectives_ = seen_now(collectives);
  }
  std::string folder;
  {
    const std::lock_guard lock(mutex_);
    status_.is_starting = is_starting_;
    status_.is_leaving = is_leaving_;
    folder = std::exchange(folder_to_tell_, "");
  }
  if (!folder.empty() && options_.rank == 0) {
    run_store_.set_folder(folder);
  }
  run_store_.set_status(options_.rank, status_);
}

// Updates the known state of a rank, `passed` seconds after the last update, and returns it.
const KnownRank& RankMonitor::track(uint32_t rank, double passed) {
  const auto [found, is_new] = tracked_.try_emplace(rank);
  Tracked& tracked = found->second;
  tracked.known.rank = rank;
  if (rank == options_.rank) {
    tracked.known.status = status_;
    return tracked.known;
  }
  std::optional<RankStatus> status = run_store_.status(rank);
  const bool has_changed = status.has_value() && status->beat != tracked.beat;
  tracked.known.age = has_changed || is_new ? 0 : tracked.known.age + passed;
  if (has_changed) {
    tracked.beat = status->beat;
    tracked.known.status = std::move(status);
  }
  look_at_silent(tracked.known);
  return tracked.known;
}

// Checks the next rank, so that one rank watches each. Also tracks rank 0 if it holds the store,
// because its last status cannot be read once it is lost.
void RankMonitor::look_around(double passed) {
  const uint32_t next = (options_.rank + 1) % options_.size;
  if (!options_.is_store_served && options_.rank != 0 && next != 0) {
    track(0, passed);
  }
  const KnownRank& neighbour = track(next, passed);
  const RankFailure failure = judge(std::span(&neighbour, 1), limit_seconds());
  if (failure.kind == RankFailure::Kind::kSilent) {
    declare(failure);
  }
}

std::optional<RankFailure> RankMonitor::own_failure() const {
  const std::lock_guard lock(mutex_);
  return own_;
}

void RankMonitor::tell_own_failure(double passed) {
  const RankFailure own = *own_failure();
  if (own.error_id != kConsequence) {
    declare(own);
    return;
  }
  // One rank determines the cause for all; the others do so if that rank is lost itself.
  if (!is_judge_.has_value()) {
    is_judge_ = run_store_.claim_judging(own_name());
    passed = 0;
  }
  judged_seconds_ += passed;
  if (!*is_judge_ && judged_seconds_ > 2 * silent_after_) {
    is_judge_ = true;
    judged_seconds_ = 0;
  }
  if (!*is_judge_) {
    return;
  }
  std::vector<KnownRank> ranks;
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    ranks.push_back(track(rank, passed));
  }
  RankFailure failure = judge(ranks, silent_after_);
  const bool has_waited = judged_seconds_ > silent_after_ + Seconds(tick_).count();
  if (failure.kind != RankFailure::Kind::kSilent && !has_waited) {
    return;
  }
  if (failure.kind == RankFailure::Kind::kUnknown) {
    failure.text += "; " + own_name() + " saw: " + own.text;
  }
  declare(failure);
}

void RankMonitor::declare(const RankFailure& failure) {
  receive_failure(run_store_.declare(failure));
}

void RankMonitor::receive_failure(const RankFailure& first) {
  if (!is_frozen_ && has_store_) {
    try {
      beat();                 // before the abort: reports show collectives in progress
    } catch (const Error&) {  // continue with the known failure
      has_store_ = false;
    }
  }
  is_frozen_ = true;
  grace_ends_ = Clock::now() + kGrace;
  {
    const std::lock_guard lock(mutex_);
    first_ = first;
    changed_.notify_all();
  }
  callbacks_.abort(first.sentence());
}

// No rank is to blame for a value that somebody else has written. Informs the
// other ranks, if the store still allows that.
void RankMonitor::lose_store(const Error& error) {
  is_tampered_ = error.id() == kTampered;
  lost_store_ = error.message();
  if (is_tampered_ && !failure().has_value()) {
    try {
      declare(tampered_store());
      return;
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): continues without the store
    }
  }
  has_store_ = false;
}

RankFailure RankMonitor::tampered_store() const {
  RankFailure failure;
  failure.kind = RankFailure::Kind::kNoStore;
  failure.rank = options_.rank;
  failure.error_id = kTampered;
  failure.text = lost_store_;
  return failure;
}

void RankMonitor::do_without_store() {
  const std::optional<RankFailure> own = own_failure();
  {
    const std::lock_guard lock(mutex_);
    // At a normal end, the store ends with the process that holds it.
    if (first_.has_value() || (is_leaving_ && !own.has_value())) {
      return;
    }
  }
  RankFailure failure;
  if (own.has_value() && own->error_id != kConsequence) {
    failure = *own;
  } else if (is_tampered_) {
    failure = tampered_store();
  } else if (options_.is_store_served) {
    failure.kind = RankFailure::Kind::kNoStore;
    failure.rank = options_.rank;
    failure.text = "the launcher that holds the store of the ranks has exited, or " + own_name() +
                   " is disconnected from it: " + lost_store_;
  } else {
    failure.kind = RankFailure::Kind::kSilent;
    const auto zero = tracked_.find(0);
    const RankStatus last =
        zero != tracked_.end() ? zero->second.known.status.value_or(RankStatus{}) : RankStatus{};
    failure.text = "holds the store of the run and does not answer: " +
                   std::string(silence_text(look_at(last.process)));
    failure.activity = last.activity;
  }
  receive_failure(failure);
}

// Ends this rank if the train thread is in a call that cannot be canceled.
void RankMonitor::end_if_too_late() {
  std::optional<RankFailure> first;
  {
    const std::lock_guard lock(mutex_);
    if (!first_.has_value()) {
      return;
    }
    if (stage_ == Stage::kHasSeen) {  // it runs its last hooks, which have a separate grace period
      stage_ = Stage::kEnding;
      grace_ends_ = Clock::now() + kGrace;
    }
    first = first_;
  }
  if (Clock::now() < grace_ends_) {
    return;
  }
  close_account(
      {.error_id = kConsequence,
       .error = first->sentence() + "; here " + status_.activity.text() + ", which was interrupted",
       .exit_code = first->exit_code});
  {
    const std::lock_guard lock(mutex_);
    stage_ = Stage::kConcluded;
  }
  callbacks_.end(*first);
}

template <class Condition>
void RankMonitor::wait_until(milliseconds limit, Condition condition) {
  const auto end = Clock::now() + limit;
  while (!condition() && Clock::now() < end) {
    std::this_thread::sleep_for(kMonitorPoll);
  }
}

void RankMonitor::close_account(const RankEnd& end) {
  const std::optional<RankFailure> known = failure();
  if (!known.has_value()) {  // it failed before other ranks could be asked
    return;
  }
  const RankFailure& first = *known;
  RankRecord record;
  record.rank = options_.rank;
  record.world_size = options_.size;
  record.written_by = own_name();
  record.first = first;
  record.error_id = end.error_id;
  record.error = end.error;
  record.exit_code = end.exit_code;
  record.time = utc_time_text();
  record.status = status_;
  record.last_collectives = last_collectives_;
  callbacks_.write(record);
  const bool is_first_lost = first.is_loss_of(0) && options_.rank != 0;
  if (has_store_) {
    try {
      if (is_first_lost && run_store_.claim_first(own_name())) {
        stand_in();
      }
      run_store_.add_record(options_.rank);
      report_or_wait(first);
      return;
    } catch (const Error&) {  // just lost: continue as without a store
      has_store_ = false;
    }
  }
  std::this_thread::sleep_for(kHeadStartOfStore);
  if (callbacks_.claim_report(first)) {
    if (is_first_lost) {
      stand_in();
    }
    std::vector<KnownRank> ranks;
    tracked_[options_.rank].known = {options_.rank, status_, 0};
    for (uint32_t rank = 0; rank < options_.size; ++rank) {
      const auto tracked = tracked_.find(rank);
      ranks.push_back(tracked != tracked_.end() ? tracked->second.known
                                                : KnownRank{rank, std::nullopt, 0});
    }
    if (first.is_loss_of(first.rank)) {  // other ranks may have written theirs
      callbacks_.write(record_of_lost(ranks[first.rank], options_.size, first, own_name()));
    }
    callbacks_.print(first, ranks);
  }
}

void RankMonitor::stand_in() {
  const std::lock_guard lock(mutex_);
  stands_in_ = true;
}

void RankMonitor::report_or_wait(const RankFailure& first) {
  // A lost rank writes no record.
  const int64_t expected =
      static_cast<int64_t>(options_.size) - (first.is_loss_of(first.rank) ? 1 : 0);
  const auto all_have_come = [&] { return run_store_.num_records() >= expected; };
  if (options_.rank != 0) {
    wait_until(kHeadStart, [&] { return run_store_.is_report_claimed(); });
  }
  if (run_store_.claim_report(own_name())) {
    // Before the wait: a rank that is cut off from the store checks this claim.
    callbacks_.claim_report(first);
    wait_until(kGrace + 2 * tick_, all_have_come);
    report(first);
  }
  run_store_.leave();
  if (keeps_store()) {  // it ends with this process, and other ranks still use it
    wait_until(kGrace + 2 * tick_, all_have_come);
    wait_until(kGrace, [&] { return run_store_.num_left() >= run_store_.num_records(); });
  }
}

void RankMonitor::report(const RankFailure& first) {
  std::vector<KnownRank> ranks = run_store_.ranks(options_.size);
  for (KnownRank& known : ranks) {
    if (const auto tracked = tracked_.find(known.rank); tracked != tracked_.end()) {
      known.age = tracked->second.known.age;
    }
    if (!run_store_.has_record(known.rank)) {
      callbacks_.write(record_of_lost(known, options_.size, first, own_name()));
    }
  }
  callbacks_.print(first, ranks);
}

}  // namespace tenon
