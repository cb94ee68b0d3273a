// SPDX-License-Identifier: Apache-2.0
//
// The journal of a run on one rank: one stream of typed entries (entries.hpp), numbered and
// stamped, passed to the readers as they are added. It stores nothing: a reader that keeps entries
// copies them. Progress line, sinks, heartbeats, crash page and profile are readers.
//
// Invariants: numbers of an attempt are consecutive; each reader gets its entries in the order of
// their numbers, and one at a time. A reader that throws never ends the run: its first failure is
// logged, and all failures are counted. Adding allocates no memory.
//
// Threads: the train thread adds entries of the loop, and events; any thread adds notices. There
// are two kinds of readers:
//
//   loop readers    the train thread calls them, outside of any lock, so they may call plugins and
//                   block; a slow one delays the loop and nobody else. They read no notices
//   prompt readers  the adding thread calls them, under the lock of the journal, before the loop
//                   readers. They must return at once: no plugin, no file that may hang, no call
//                   of log() and of the journal
//
// So a thread that adds a notice never waits for a plugin, not even if the train thread is stuck in
// one. A signal handler must not add entries; it may read the crash page, which a reader fills.
#pragma once

#include "host/journal/entries.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tenon {

// ---- kinds of entries ----

template <class Entry, class... Entries>
constexpr size_t index_in_group(EntryGroup<Entries...>) {
  size_t index = 0;
  (void)((std::is_same_v<Entry, Entries> ? false : (++index, true)) && ...);
  return index;
}

template <class... Entries>
constexpr size_t size_of_group(EntryGroup<Entries...>) {
  return sizeof...(Entries);
}

inline constexpr size_t kNumLoopEntries = size_of_group(LoopEntries());
inline constexpr size_t kNumEntryKinds = kNumLoopEntries + size_of_group(NoticeEntries());

template <class Entry>
concept LoopEntry = index_in_group<Entry>(LoopEntries())
< kNumLoopEntries;
template <class Entry>
concept NoticeEntry = index_in_group<Entry>(NoticeEntries())
< size_of_group(NoticeEntries());
template <class Event>
inline constexpr size_t kEventKind = index_in_group<Event>(EventEdges());
template <class Event>
concept EventEdge = kEventKind<Event> < size_of_group(EventEdges());

// Of an entry of either group: loop entries first, in the order of entries.hpp.
template <class Entry>
inline constexpr size_t kEntryKind = LoopEntry<Entry>
                                         ? index_in_group<Entry>(LoopEntries())
                                         : kNumLoopEntries + index_in_group<Entry>(NoticeEntries());

template <class Reader, class Entry>
concept ReadsEntry = requires(Reader& reader, const Stamp& stamp, const Entry& entry) {
  reader.read(stamp, entry);
};
template <class Reader, class Event>
concept ReadsEvent = requires(Reader& reader, const Event& event) {
  reader.read(event);
};

template <class Reader, class... Entries>
constexpr bool reads_any(EntryGroup<Entries...>) {
  return (ReadsEntry<Reader, Entries> || ...);
}

// ---- the journal ----

class Journal {
  struct Listener;

 public:
  // `attempt`: see claim_attempt().
  Journal(uint64_t attempt, uint32_t rank);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Ends the calls of a reader when destroyed. Destroy it before the reader and the journal, on the
  // train thread.
  class Subscription {
   public:
    Subscription() = default;
    Subscription(Subscription&& other) noexcept
        : journal_(std::exchange(other.journal_, nullptr)), listener_(other.listener_) {}
    Subscription& operator=(Subscription&& other) noexcept {
      std::swap(journal_, other.journal_);
      std::swap(listener_, other.listener_);
      return *this;
    }
    ~Subscription() {
      if (journal_ != nullptr) {
        journal_->drop(listener_);
      }
    }

   private:
    friend class Journal;
    Subscription(Journal* journal, Listener* listener) : journal_(journal), listener_(listener) {}

    Journal* journal_ = nullptr;
    Listener* listener_ = nullptr;
  };

  // Passes later entries to a reader: those for which it has a function
  //   void read(const Stamp& stamp, const RunStarted& entry);
  // and so on, and events for which it has `void read(const EventBegan& event)`. Readers are called
  // in the order of their subscriptions. `name` is for messages.
  //
  // Threads  the train thread, not from a reader
  template <class Reader>
  [[nodiscard]] Subscription subscribe(Reader& reader, std::string name) {
    static_assert(!reads_any<Reader>(NoticeEntries()),
                  "a reader of notices must be a prompt reader");
    return subscribe_as(Kind::kLoop, reader, std::move(name));
  }
  template <class Reader>
  [[nodiscard]] Subscription subscribe_prompt(Reader& reader, std::string name) {
    return subscribe_as(Kind::kPrompt, reader, std::move(name));
  }

  // Numbers and stamps an entry, and passes it to the readers. Returns its number.
  //
  // Threads  the train thread, not from a loop reader
  template <LoopEntry Entry>
  JournalNumber add(const Entry& entry) {
    follow(entry);
    return add_entry(kEntryKind<Entry>, Entry::kName, &entry);
  }
  // Threads  any. A prompt reader's own notice is not added, and is counted.
  template <NoticeEntry Entry>
  JournalNumber add(const Entry& entry) {
    return add_entry(kEntryKind<Entry>, Entry::kName, &entry);
  }
  // Passes an event to the readers of events.
  //
  // Threads  the train thread
  template <EventEdge Event>
  void add(const Event& event) {
    for (const EventCall& call : event_calls_[kEventKind<Event>]) {
      pass_event(call, &event);
    }
  }

  // ---- state ----
  // Threads  any

  // The number of the last entry.
  JournalNumber last() const;
  // The number up to which a committed checkpoint covers the journal: after a kill, a resumed run
  // returns to it, and entries behind it may be missing. Before the first commit of this attempt,
  // the number that the run has resumed from; none if there is none.
  std::optional<JournalNumber> durable() const;
  // Calls that failed, over all readers.
  uint64_t num_failures() const { return num_failures_.load(std::memory_order_relaxed); }
  // NoticeEntries that prompt readers tried to add.
  uint64_t num_refused() const { return num_refused_.load(std::memory_order_relaxed); }

 private:
  enum class Kind { kLoop, kPrompt };
  using ReadEntry = void (*)(void* reader, const Stamp& stamp, const void* entry);
  using ReadEvent = void (*)(void* reader, const void* event);
  struct Calls {
    std::array<ReadEntry, kNumEntryKinds> entries{};  // null: not read
    std::array<ReadEvent, size_of_group(EventEdges())> events{};
  };
  struct EntryCall {
    ReadEntry read;
    void* reader;
    Listener* listener;
  };
  struct EventCall {
    ReadEvent read;
    void* reader;
    Listener* listener;
  };
  using EntryCalls = std::array<std::vector<EntryCall>, kNumEntryKinds>;
  using EventCalls = std::array<std::vector<EventCall>, size_of_group(EventEdges())>;

  template <class Reader>
  Subscription subscribe_as(Kind kind, Reader& reader, std::string name) {
    static_assert(reads_any<Reader>(LoopEntries()) || reads_any<Reader>(NoticeEntries()) ||
                      ReadsEvent<Reader, EventBegan> || ReadsEvent<Reader, EventEnded>,
                  "the reader reads nothing");
    Calls calls;
    take_calls<Reader>(calls, LoopEntries());
    take_calls<Reader>(calls, NoticeEntries());
    take_event<Reader, EventBegan>(calls);
    take_event<Reader, EventEnded>(calls);
    return {this, add_listener(kind, &reader, std::move(name), calls)};
  }
  template <class Reader, class... Entries>
  static void take_calls(Calls& calls, EntryGroup<Entries...>) {
    (take_call<Reader, Entries>(calls), ...);
  }
  template <class Reader, class Entry>
  static void take_call(Calls& calls) {
    if constexpr (ReadsEntry<Reader, Entry>) {
      calls.entries[kEntryKind<Entry>] = [](void* self, const Stamp& stamp, const void* entry) {
        static_cast<Reader*>(self)->read(stamp, *static_cast<const Entry*>(entry));
      };
    }
  }

  template <class Reader, class Event>
  static void take_event(Calls& calls) {
    if constexpr (ReadsEvent<Reader, Event>) {
      calls.events[kEventKind<Event>] = [](void* self, const void* event) {
        static_cast<Reader*>(self)->read(*static_cast<const Event*>(event));
      };
    }
  }

  // What the journal itself takes from entries, before it stamps them.
  void follow(const StepBegan& entry);
  void follow(const StateRestored& entry);
  void follow(const SaveEnded& entry);
  template <class Entry>
  void follow(const Entry&) {}

  Listener* add_listener(Kind kind, void* reader, std::string name, const Calls& calls);
  void drop(Listener* listener);
  JournalNumber add_entry(size_t kind, std::string_view name, const void* entry);
  Stamp next_stamp();
  void pass_all(const std::vector<EntryCall>& calls,
                const Stamp& stamp,
                std::string_view name,
                const void* entry);
  void pass_event(const EventCall& call, const void* event);
  void count_failure(Listener& listener, const std::string& where, const char* what);
  void log_failures();

  const uint64_t attempt_;
  const uint32_t rank_;
  std::atomic<uint64_t> step_ = 0;
  std::atomic<uint64_t> num_failures_ = 0;
  std::atomic<uint64_t> num_refused_ = 0;
  EventCalls event_calls_;             // the train thread's
  EntryCalls loop_calls_;              // the train thread's
  std::mutex failures_mutex_;          // held for a moment, also while mutex_ is held
  std::vector<std::string> failures_;  // to be logged
  std::atomic<bool> has_failures_ = false;
  mutable std::mutex mutex_;  // guards the members below
  EntryCalls prompt_calls_;
  uint64_t last_ = 0;
  std::optional<JournalNumber> durable_;
  std::vector<std::unique_ptr<Listener>> listeners_;
};

}  // namespace tenon
