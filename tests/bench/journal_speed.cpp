// SPDX-License-Identifier: Apache-2.0
//
// Measures what the journal costs the train thread: an entry and an event, without readers and with
// those of a run (published state and crash page), and a notice while another thread adds notices.
//
// usage: journal_speed CALLS      (prints a line of JSON)
#include "host/error/crash_page.hpp"
#include "host/journal/crash_page_reader.hpp"
#include "host/journal/journal.hpp"
#include "host/train/run_state/published_state.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <vector>

namespace tenon {
namespace {

// CPU time of this thread: the loops never wait, and other work on the machine does not count.
double now_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e9 * static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec);
}

// Median nanoseconds of a call of `body` over some rounds of `calls` calls; the first one warms up.
template <class Body>
double ns_a_call(uint64_t calls, Body&& body) {
  std::vector<double> rounds;
  for (int round = 0; round < 11; ++round) {
    const double begin = now_ns();
    for (uint64_t i = 0; i < calls; ++i) {
      body(i);
    }
    if (round > 0) {
      rounds.push_back((now_ns() - begin) / static_cast<double>(calls));
    }
  }
  std::ranges::sort(rounds);
  return rounds[rounds.size() / 2];
}

struct Costs {
  double step;
  double event;
};

Costs measure(Journal& journal, uint64_t calls) {
  RunState state;
  const double step = ns_a_call(calls, [&](uint64_t) {
    ++state.step;
    journal.add(StepBegan{state});
  });
  const double event = ns_a_call(calls, [&](uint64_t i) {
    const auto event = static_cast<uint32_t>(i & 15);
    journal.add(EventBegan{.event = event, .step = state.step});
    journal.add(EventEnded{.event = event, .step = state.step});
  });
  return {step, event};
}

void measure_all(uint64_t calls) {
  Journal alone(1, 0);
  const Costs bare = measure(alone, calls);

  static CrashPage page;
  Journal journal(1, 0);
  CrashPageReader crash_page(page);
  PublishedState published;
  const auto of_page = journal.subscribe_prompt(crash_page, "crash page");
  const auto of_state = journal.subscribe(published, "published state");
  const Costs read = measure(journal, calls);

  std::atomic<bool> is_over = false;
  std::thread other([&] {
    while (!is_over.load(std::memory_order_relaxed)) {
      journal.add(WarningLogged{"a warning"});
    }
  });
  const Costs contended = measure(journal, calls);
  is_over = true;
  other.join();
  std::printf(
      "{\"entry_ns\": %.1f, \"event_ns\": %.1f, \"read_entry_ns\": %.1f, \"read_event_ns\": %.1f, "
      "\"contended_entry_ns\": %.1f}\n",
      bare.step,
      bare.event,
      read.step,
      read.event,
      contended.step);
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  const uint64_t calls = argc == 2 ? std::strtoull(argv[1], nullptr, 10) : 0;
  if (calls == 0) {
    std::fprintf(stderr, "usage: journal_speed CALLS\n");
    return 2;
  }
  tenon::measure_all(calls);
  return 0;
}
