// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/collective_log.hpp"

#include "host/distributed/ranks/awake_clock.hpp"
#include "host/error/error.hpp"
#include "host/text/formatted.hpp"
#include "host/text/seconds_text.hpp"

#include <algorithm>

namespace tenon {
namespace {

using State = CollectiveRecord::State;

// Additional wait, so that the engine, which knows more about the cause, reports a timeout first.
constexpr std::chrono::seconds kGrace{1};

constexpr char kWhatNext[] =
    "; check the logs of the other ranks: a silent rank is stopped, disconnected, busy or at "
    "another collective (limits: parallel.start_timeout_seconds and parallel.timeout_seconds)";

}  // namespace

std::string_view name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kAllToAll:
      return "all_to_all";
    case CollectiveKind::kSend:
      return "send";
    case CollectiveKind::kReceive:
      return "receive";
    case CollectiveKind::kControl:
      break;
  }
  return "gather";
}

CollectiveLog::EntryPtr CollectiveLog::begin(const CollectiveStart& start) {
  auto entry = std::make_shared<Entry>();
  entry->record = {.number = start.number,
                   .group = start.group,
                   .kind = std::string(name_of(start.kind)),
                   .what = std::string(start.what),
                   .bytes = start.bytes,
                   .peer = start.peer,
                   .state = State::kBegun,
                   .began = std::chrono::system_clock::now()};
  entry->began = AwakeClock::now();
  entry->limit = limit();
  {
    const std::lock_guard lock(mutex_);
    last_.push_back(entry);
    if (last_.size() > kNumKept) {
      last_.pop_front();
    }
    if (is_aborted_) {
      entry->record.state = State::kFailed;
      raise(*entry, "was not started: " + reason_);
    }
  }
  sent_[static_cast<size_t>(start.kind)] += start.bytes_sent;
  return entry;
}

std::string CollectiveLog::describe(const Entry& entry) {
  const CollectiveRecord& record = entry.record;
  return formatted(
      "{} {} of group \"{}\" ({})", record.kind, record.number, record.group, record.what);
}

bool CollectiveLog::has_own_counts(const Entry& entry) {
  return entry.record.kind == name_of(CollectiveKind::kAllToAll);
}

void CollectiveLog::end(Entry& entry) {
  const std::lock_guard lock(mutex_);
  if (entry.record.state == State::kBegun) {
    entry.record.state = State::kDone;
    changed_.notify_all();
  }
}

void CollectiveLog::fail(Entry& entry, std::string_view why) {
  const std::lock_guard lock(mutex_);
  if (entry.record.state == State::kBegun) {
    entry.record.state = State::kFailed;
    entry.failure = why;
    changed_.notify_all();
  }
}

bool CollectiveLog::is_ended(const Entry& entry) {
  const std::lock_guard lock(mutex_);
  return is_aborted_ || entry.record.state != State::kBegun;
}

void CollectiveLog::wait(Entry& entry) {
  std::unique_lock lock(mutex_);
  const auto until = std::max(deadline(entry), AwakeClock::now()) + kGrace;
  AwakeClock::wait_until(
      changed_, lock, until, [&] { return is_aborted_ || entry.record.state != State::kBegun; });
  const std::string after = seconds_text(AwakeClock::now() - entry.began);
  if (entry.record.state == State::kDone) {
    return;
  }
  if (is_aborted_) {
    entry.record.state = State::kFailed;
    raise(entry, "was canceled after " + after + ": " + reason_);
  }
  if (entry.record.state == State::kBegun) {
    entry.record.state = State::kFailed;
    entry.failure = "it did not finish";
  }
  raise(entry, "failed after " + after + ": " + entry.failure + kWhatNext);
}

void CollectiveLog::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!is_aborted_) {
    is_aborted_ = true;
    reason_ = reason;
    changed_.notify_all();
  }
}

void CollectiveLog::restart() {
  const std::lock_guard lock(mutex_);
  for (const EntryPtr& entry : last_) {
    if (entry->record.state == State::kBegun) {
      entry->record.state = State::kFailed;
      entry->failure = reason_;
    }
  }
  is_aborted_ = false;
  reason_.clear();
}

Traffic CollectiveLog::traffic() const {
  const auto of = [this](CollectiveKind kind) { return sent_[static_cast<size_t>(kind)].load(); };
  return {.all_reduce = of(CollectiveKind::kAllReduce),
          .all_gather = of(CollectiveKind::kAllGather),
          .reduce_scatter = of(CollectiveKind::kReduceScatter),
          .broadcast = of(CollectiveKind::kBroadcast),
          .all_to_all = of(CollectiveKind::kAllToAll),
          .send = of(CollectiveKind::kSend),
          .control = of(CollectiveKind::kControl)};
}

std::vector<CollectiveRecord> CollectiveLog::last() const {
  const std::lock_guard lock(mutex_);
  std::vector<CollectiveRecord> records;
  records.reserve(last_.size());
  for (const EntryPtr& entry : last_) {
    records.push_back(entry->record);
  }
  return records;
}

void CollectiveLog::raise(const Entry& entry, const std::string& why) const {
  throw Error(
      "distributed.failed",
      formatted("{} of {} bytes on rank {} {}", describe(entry), entry.record.bytes, rank_, why));
}

}  // namespace tenon
