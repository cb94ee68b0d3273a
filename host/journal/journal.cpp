// SPDX-License-Identifier: Apache-2.0
#include "host/journal/journal.hpp"

#include "host/log/log.hpp"

#include <algorithm>
#include <exception>

namespace tenon {
namespace {

// The journal whose prompt readers this thread calls; null outside of such calls.
thread_local const Journal* calling_prompt = nullptr;

}  // namespace

// A reader.
struct Journal::Listener {
  std::string name;
  bool has_failed = false;  // guarded by failures_mutex_
};

Journal::Journal(uint64_t attempt, uint32_t rank) : attempt_(attempt), rank_(rank) {}

Journal::~Journal() = default;

// ---- readers ----

Journal::Listener* Journal::add_listener(Kind kind,
                                         void* reader,
                                         std::string name,
                                         const Calls& calls) {
  const std::lock_guard lock(mutex_);
  Listener* const listener = listeners_.emplace_back(std::make_unique<Listener>()).get();
  listener->name = std::move(name);
  EntryCalls& lists = kind == Kind::kPrompt ? prompt_calls_ : loop_calls_;
  for (size_t i = 0; i < kNumEntryKinds; ++i) {
    if (calls.entries[i] != nullptr) {
      lists[i].push_back({calls.entries[i], reader, listener});
    }
  }
  for (size_t i = 0; i < calls.events.size(); ++i) {
    if (calls.events[i] != nullptr) {
      event_calls_[i].push_back({calls.events[i], reader, listener});
    }
  }
  return listener;
}

void Journal::drop(Listener* listener) {
  const auto is_its = [listener](const auto& call) { return call.listener == listener; };
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < kNumEntryKinds; ++i) {
    std::erase_if(loop_calls_[i], is_its);
    std::erase_if(prompt_calls_[i], is_its);
  }
  for (std::vector<EventCall>& calls : event_calls_) {
    std::erase_if(calls, is_its);
  }
  std::erase_if(listeners_, [listener](const auto& one) { return one.get() == listener; });
}

// ---- entries ----

void Journal::follow(const StepBegan& entry) {
  step_.store(entry.state.step, std::memory_order_relaxed);
}

void Journal::follow(const StateRestored& entry) {
  step_.store(entry.state.step, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (entry.taken.has_value() && !durable_.has_value()) {
    durable_ = entry.taken;
  }
}

void Journal::follow(const SaveEnded& entry) {
  const std::lock_guard lock(mutex_);
  if (entry.error.empty() && entry.taken.has_value()) {
    durable_ = std::max(durable_.value_or(JournalNumber()), *entry.taken);
  }
}

Stamp Journal::next_stamp() {
  return {.version = kJournalVersion,
          .rank = rank_,
          .number = {attempt_, ++last_},
          .step = step_.load(std::memory_order_relaxed),
          .time = std::chrono::system_clock::now()};
}

JournalNumber Journal::add_entry(size_t kind, std::string_view name, const void* entry) {
  if (calling_prompt == this) {  // the lock is held
    num_refused_.fetch_add(1, std::memory_order_relaxed);
    return {attempt_, last_};
  }
  Stamp stamp;
  {
    const std::lock_guard lock(mutex_);
    stamp = next_stamp();
    calling_prompt = this;
    pass_all(prompt_calls_[kind], stamp, name, entry);
    calling_prompt = nullptr;
  }
  if (kind < kNumLoopEntries) {
    pass_all(loop_calls_[kind], stamp, name, entry);
  }
  if (has_failures_.load(std::memory_order_relaxed)) {
    log_failures();
  }
  return stamp.number;
}

void Journal::pass_all(const std::vector<EntryCall>& calls,
                       const Stamp& stamp,
                       std::string_view name,
                       const void* entry) {
  for (const EntryCall& call : calls) {
    try {
      call.read(call.reader, stamp, entry);
    } catch (const std::exception& error) {
      count_failure(*call.listener,
                    "entry " + stamp.number.text() + " (" + std::string(name) + ")",
                    error.what());
    }
  }
}

void Journal::pass_event(const EventCall& call, const void* event) {
  try {
    call.read(call.reader, event);
  } catch (const std::exception& error) {
    count_failure(*call.listener, "an event", error.what());
    log_failures();
  }
}

// ---- failures ----

// The lock of the journal may be held, so the failure is logged later.
void Journal::count_failure(Listener& listener, const std::string& where, const char* what) {
  num_failures_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(failures_mutex_);
  if (!std::exchange(listener.has_failed, true)) {
    failures_.push_back("the reader \"" + listener.name + "\" of the journal failed at " + where +
                        ": " + what +
                        "; the run continues, and later failures of this reader are counted");
    has_failures_.store(true, std::memory_order_relaxed);
  }
}

void Journal::log_failures() {
  std::vector<std::string> lines;
  {
    const std::lock_guard lock(failures_mutex_);
    lines.swap(failures_);
    has_failures_.store(false, std::memory_order_relaxed);
  }
  for (const std::string& line : lines) {
    log_warning(line);
  }
}

// ---- state ----

JournalNumber Journal::last() const {
  const std::lock_guard lock(mutex_);
  return {attempt_, last_};
}

std::optional<JournalNumber> Journal::durable() const {
  const std::lock_guard lock(mutex_);
  return durable_;
}

}  // namespace tenon
