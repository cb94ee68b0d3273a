// SPDX-License-Identifier: Apache-2.0
#include "host/journal/journal.hpp"

#include "host/log/log.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

namespace {

thread_local uint64_t num_allocations = 0;

}  // namespace

// Counts the allocations of this program, by thread.
void* operator new(std::size_t bytes) {
  ++num_allocations;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) {
    return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace tenon {
namespace {

// Records "name@number" of every entry.
struct AllEntries {
  template <class Entry>
  void read(const Stamp& stamp, const Entry&) {
    seen.push_back(std::string(Entry::kName) + "@" + stamp.number.text());
    stamps.push_back(stamp);
  }
  std::vector<std::string> seen;
  std::vector<Stamp> stamps;
};

// A loop reader that records its calls in a list of several readers.
struct Steps {
  void read(const Stamp& stamp, const StepBegan& entry) {
    calls->push_back(name + " " + std::to_string(entry.state.step));
    numbers.push_back(stamp.number.n);
  }
  void read(const EventBegan& event) {
    calls->push_back(name + " begins " + std::to_string(event.event));
  }
  void read(const EventEnded& event) {
    calls->push_back(name + " ends " + std::to_string(event.event));
  }
  std::string name;
  std::vector<std::string>* calls;
  std::vector<uint64_t> numbers = {};
};

struct Failing {
  void read(const Stamp&, const StepBegan&) { throw std::runtime_error("no space"); }
  void read(const EventBegan&) { throw std::runtime_error("no space"); }
};

struct Counting {
  void read(const Stamp&, const StepBegan& entry) { sum += entry.state.step; }
  void read(const Stamp&, const StepEnded&) { ++ended; }
  void read(const EventBegan& event) { sum += event.event; }
  uint64_t sum = 0;
  uint64_t ended = 0;
};

}  // namespace

TEST_CASE("entries have consecutive numbers of their attempt", "[journal]") {
  Journal first(1, 3);
  AllEntries all;
  {
    const Journal::Subscription subscription = first.subscribe_prompt(all, "all");
    CHECK(first.last() == JournalNumber{1, 0});
    CHECK(first.add(RunStarted{.folder = "runs/a", .header = "h"}) == JournalNumber{1, 1});
    first.add(StepBegan{.state = {.step = 7}});
    first.add(WarningLogged{"w"});
    first.add(EventBegan{});  // no entry
    CHECK(first.add(Remark{"r"}) == JournalNumber{1, 4});
    CHECK(first.last() == JournalNumber{1, 4});
  }
  first.add(Remark{"after the subscription"});
  CHECK(all.seen == std::vector<std::string>{"start@1.1", "step@1.2", "warning@1.3", "remark@1.4"});
  CHECK(all.stamps[0].step == 0);
  CHECK(all.stamps[2].step == 7);
  CHECK(all.stamps[3].rank == 3);
  CHECK(all.stamps[3].version == kJournalVersion);
  CHECK(all.stamps[0].time <= all.stamps[3].time);

  // The next attempt begins again at 1, and all its numbers are larger.
  Journal second(2, 3);
  const JournalNumber next = second.add(Remark{"r"});
  CHECK(next == JournalNumber{2, 1});
  CHECK(next > first.last());
}

TEST_CASE("readers are called in order, prompt readers first", "[journal]") {
  Journal journal(1, 0);
  std::vector<std::string> calls;
  Steps a{"a", &calls};
  Steps b{"b", &calls};
  Steps prompt{"prompt", &calls};
  const auto of_a = journal.subscribe(a, "a");
  auto of_b = journal.subscribe(b, "b");
  const auto of_prompt = journal.subscribe_prompt(prompt, "prompt");
  journal.add(StepBegan{.state = {.step = 1}});
  CHECK(calls == std::vector<std::string>{"prompt 1", "a 1", "b 1"});
  calls.clear();
  journal.add(EventBegan{.event = 9});
  journal.add(EventEnded{.event = 9});
  CHECK(
      calls ==
      std::vector<std::string>{
          "a begins 9", "b begins 9", "prompt begins 9", "a ends 9", "b ends 9", "prompt ends 9"});
  calls.clear();
  of_b = Journal::Subscription();
  journal.add(StepBegan{.state = {.step = 2}});
  CHECK(calls == std::vector<std::string>{"prompt 2", "a 2"});
}

TEST_CASE("a reader that fails is logged once, and stops neither the run nor others", "[journal]") {
  set_up_log({.terminal = false});
  Journal journal(4, 0);
  Failing failing;
  Failing failing_prompt;
  Counting counting;
  AllEntries all;
  const auto first = journal.subscribe(failing, "file");
  const auto prompt = journal.subscribe_prompt(failing_prompt, "page");
  const auto second = journal.subscribe(counting, "count");
  const auto third = journal.subscribe_prompt(all, "all");
  journal.add(StepBegan{.state = {.step = 1}});
  journal.add(StepBegan{.state = {.step = 10}});
  journal.add(EventBegan{.event = 100});
  CHECK(counting.sum == 111);
  CHECK(all.seen == std::vector<std::string>{"step@4.1", "step@4.2"});
  CHECK(journal.num_failures() == 6);
}

TEST_CASE("the journal is durable up to the entry that a committed checkpoint stores",
          "[journal]") {
  Journal journal(3, 0);
  CHECK_FALSE(journal.durable().has_value());
  const RunState state{.step = 5};
  journal.add(StateRestored{.state = state, .address = "a", .taken = JournalNumber{2, 40}});
  CHECK(journal.durable() == JournalNumber{2, 40});
  const JournalNumber taken = journal.add(CheckpointTaken{"step"});
  journal.add(StepBegan{.state = {.step = 6}});
  CHECK(journal.durable() == JournalNumber{2, 40});  // it is being written
  const JournalNumber lost = journal.add(CheckpointTaken{"step"});
  journal.add(SaveEnded{.address = "b", .error = "no space", .taken = lost});
  CHECK(journal.durable() == JournalNumber{2, 40});
  journal.add(SaveEnded{.form = SaveEnded::Form::kExport, .address = "e"});
  CHECK(journal.durable() == JournalNumber{2, 40});
  journal.add(SaveEnded{.address = "a", .taken = taken});
  CHECK(journal.durable() == JournalNumber{3, 2});
  CHECK(journal.last() > *journal.durable());
}

TEST_CASE("a step and an event allocate nothing", "[journal]") {
  Journal journal(1, 0);
  Counting loop;
  Counting prompt;
  const auto a = journal.subscribe(loop, "loop");
  const auto b = journal.subscribe_prompt(prompt, "prompt");
  RunState state;
  journal.add(StepBegan{state});
  const uint64_t before = num_allocations;
  for (int i = 0; i < 100; ++i) {
    ++state.step;
    journal.add(StepBegan{state});
    journal.add(EventBegan{.event = 1});
    journal.add(StepEnded{state});
  }
  CHECK(num_allocations == before);
  CHECK(loop.ended == 100);
  CHECK(loop.sum == prompt.sum);
}

TEST_CASE("threads add notices while the loop adds steps: one order for all", "[journal]") {
  constexpr int kThreads = 4;
  constexpr uint64_t kEach = 2000;
  struct Ordered {
    void read(const Stamp& stamp, const StepBegan& entry) { take(stamp, entry.state.step, 0); }
    void read(const Stamp& stamp, const RankReported& entry) {
      take(stamp, std::stoull(std::string(entry.text)), entry.rank);
    }
    void take(const Stamp& stamp, uint64_t count, uint32_t who) {
      are_consecutive = are_consecutive && stamp.number.n == ++n;
      are_ordered = are_ordered && count == ++counts[who];
    }
    uint64_t n = 0;
    std::array<uint64_t, kThreads + 1> counts{};
    bool are_consecutive = true;
    bool are_ordered = true;
  };
  Journal journal(1, 0);
  Ordered ordered;
  std::vector<std::string> calls;
  Steps steps{"s", &calls};
  const auto a = journal.subscribe_prompt(ordered, "ordered");
  const auto b = journal.subscribe(steps, "steps");
  std::vector<std::thread> threads;
  for (uint32_t who = 1; who <= kThreads; ++who) {
    threads.emplace_back([&journal, who] {
      for (uint64_t i = 1; i <= kEach; ++i) {
        journal.add(RankReported{.rank = who, .text = std::to_string(i)});
      }
    });
  }
  for (uint64_t i = 1; i <= kEach; ++i) {
    journal.add(StepBegan{.state = {.step = i}});
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(ordered.are_consecutive);
  CHECK(ordered.are_ordered);
  CHECK(ordered.n == (kThreads + 1) * kEach);
  CHECK(journal.last() == JournalNumber{1, (kThreads + 1) * kEach});
  CHECK(calls.size() == kEach);
  CHECK(std::ranges::is_sorted(steps.numbers));
}

TEST_CASE("a notice passes while a loop reader does not return", "[journal]") {
  struct Stuck {
    void read(const Stamp&, const StepBegan&) {
      is_in = true;
      is_in.notify_all();
      may_return.wait(false);
    }
    std::atomic<bool> is_in = false;
    std::atomic<bool> may_return = false;
  };
  Journal journal(1, 0);
  Stuck stuck;
  AllEntries all;
  const auto a = journal.subscribe(stuck, "stuck");
  const auto b = journal.subscribe_prompt(all, "all");
  std::thread loop([&journal] { journal.add(StepBegan{.state = {.step = 1}}); });
  stuck.is_in.wait(false);
  CHECK(journal.add(ErrorLogged{"[plugin.stuck] ..."}) == JournalNumber{1, 2});
  CHECK(all.seen == std::vector<std::string>{"step@1.1", "error@1.2"});
  stuck.may_return = true;
  stuck.may_return.notify_all();
  loop.join();
}

TEST_CASE("a notice of a prompt reader is refused and counted", "[journal]") {
  struct Talking {
    void read(const Stamp&, const StepBegan&) { journal->add(WarningLogged{"from a reader"}); }
    Journal* journal;
  };
  Journal journal(1, 0);
  Talking talking{&journal};
  const auto a = journal.subscribe_prompt(talking, "talking");
  CHECK(journal.add(StepBegan{.state = {.step = 1}}) == JournalNumber{1, 1});
  CHECK(journal.last() == JournalNumber{1, 1});
  CHECK(journal.num_refused() == 1);
}

}  // namespace tenon
