// SPDX-License-Identifier: Apache-2.0
#include "host/journal/crash_page_reader.hpp"

#include <tenon/hook.h>

#include "host/journal/attempt_number.hpp"
#include "host/journal/journal.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <type_traits>
#include <unistd.h>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

// A page that this process shares with its children.
struct SharedPage {
  SharedPage()
      : page(static_cast<CrashPage*>(::mmap(nullptr,
                                            sizeof(CrashPage),
                                            PROT_READ | PROT_WRITE,
                                            MAP_SHARED | MAP_ANONYMOUS,
                                            -1,
                                            0))) {
    REQUIRE(page != MAP_FAILED);
  }
  ~SharedPage() { ::munmap(page, sizeof(CrashPage)); }
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;
  CrashPage* const page;
};

// A reader as one of files: it keeps the numbers of entries in memory and hands over 10 at a time,
// and all before a checkpoint is written.
class Numbers {
 public:
  explicit Numbers(int pipe) : pipe_(pipe) {}
  template <class Entry>
  void read(const Stamp& stamp, const Entry&) {
    waiting_.push_back(stamp.number.n);
    if (waiting_.size() == 10 || std::is_same_v<Entry, CheckpointTaken>) {
      (void)!::write(pipe_, waiting_.data(), waiting_.size() * sizeof(uint64_t));
      waiting_.clear();
    }
  }

 private:
  int pipe_;
  std::vector<uint64_t> waiting_;
};

// Trains until it is killed. Each 7th step is saved, and committed two steps later.
[[noreturn]] void train_until_killed(uint64_t attempt, CrashPage& page, int pipe) {
  Journal journal(attempt, 0);
  CrashPageReader crash_page(page);
  Numbers numbers(pipe);
  const auto a = journal.subscribe_prompt(crash_page, "crash page");
  const auto b = journal.subscribe_prompt(numbers, "numbers");
  journal.add(RunStarted{});
  std::optional<JournalNumber> taken;
  for (RunState state; true;) {
    ++state.step;
    journal.add(StepBegan{state});
    journal.add(EventBegan{.event = TENON_EVENT_BEFORE_STEP, .step = state.step});
    if (state.step % 7 == 0) {
      taken = journal.add(CheckpointTaken{"step"});
    }
    if (state.step % 7 == 2 && taken.has_value()) {
      journal.add(SaveEnded{.address = "checkpoint", .step = state.step - 2, .taken = taken});
    }
  }
}

// The reader of the next attempt: what it must give up of what it has.
struct Resumed {
  void read(const Stamp& stamp, const StateRestored& entry) {
    number = stamp.number;
    returns_to = entry.taken;
  }
  JournalNumber number;
  std::optional<JournalNumber> returns_to;
};

}  // namespace

TEST_CASE("the crash page has step, event and numbers", "[journal]") {
  CrashPage page{};
  Journal journal(2, 0);
  CrashPageReader reader(page);
  const auto subscription = journal.subscribe_prompt(reader, "crash page");
  CHECK(page.event == 0);
  journal.add(StepBegan{.state = {.step = 5}});
  journal.add(EventBegan{.event = TENON_EVENT_BEFORE_INIT});
  CHECK(page.event == TENON_EVENT_BEFORE_INIT + 1);
  journal.add(EventEnded{.event = TENON_EVENT_AFTER_DATA});
  CHECK(page.event == TENON_EVENT_BEFORE_INIT + 1);
  journal.add(WarningLogged{"w"});
  CHECK(page.step == 5);
  CHECK(page.attempt == 2);
  CHECK(page.entry == 2);
  CHECK(page.durable_entry == 0);
  // The number of an earlier attempt is no number of this one.
  journal.add(SaveEnded{.address = "a", .taken = JournalNumber{1, 99}});
  CHECK(page.durable_entry == 0);
  journal.add(SaveEnded{.address = "a", .error = "no space", .taken = JournalNumber{2, 2}});
  CHECK(page.durable_entry == 0);
  journal.add(SaveEnded{.address = "a", .taken = JournalNumber{2, 1}});
  CHECK(page.durable_entry == 1);
}

TEST_CASE("after a kill, a reader sees which entries are missing or abandoned", "[journal]") {
  const ScratchFolder folder;
  const std::string run = folder.path().string();
  const SharedPage shared;
  const CrashPage& page = *shared.page;
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const uint64_t first = claim_attempt(run);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    train_until_killed(first, *shared.page, ends[1]);
  }
  ::close(ends[1]);
  std::vector<uint64_t> seen;
  uint64_t n = 0;
  while (::read(ends[0], &n, sizeof(n)) == sizeof(n)) {  // until the child has ended
    seen.push_back(n);
    if (seen.size() == 500) {
      ::kill(child, SIGKILL);
    }
  }
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));

  // What the reader has is consecutive, without the last entries of the process.
  const uint64_t last = page.entry;
  const uint64_t durable = page.durable_entry;
  for (size_t i = 0; i < seen.size(); ++i) {
    REQUIRE(seen[i] == i + 1);
  }
  CHECK(page.attempt == 1);
  CHECK(durable > 0);
  CHECK(durable <= seen.back());
  CHECK(seen.back() <= last);
  CHECK(page.event == TENON_EVENT_BEFORE_STEP + 1);
  // Steps before the entry, by brute force: each has one entry, and each 7 steps have two more.
  const auto entries_after = [](uint64_t steps) {
    uint64_t entries = 1;
    bool has_taken = false;
    for (uint64_t step = 1; step <= steps; ++step) {
      has_taken = has_taken || step % 7 == 0;
      entries += 1 + (step % 7 == 0) + (step % 7 == 2 && has_taken);
    }
    return entries;
  };
  CHECK(entries_after(page.step - 1) <= last);
  CHECK(last <= entries_after(page.step));
  uint64_t saved = 0;
  while (entries_after(saved) < durable) {
    ++saved;
  }
  CHECK(saved % 7 == 0);
  CHECK(entries_after(saved) == durable);

  // The next attempt says in its stream what it returns to.
  const uint64_t second = claim_attempt(run);
  Journal journal(second, 0);
  Resumed resumed;
  const auto subscription = journal.subscribe(resumed, "resumed");
  journal.add(RunStarted{});
  journal.add(StateRestored{.state = {.step = saved}, .taken = JournalNumber{first, durable}});
  CHECK(resumed.number == JournalNumber{2, 2});
  REQUIRE(resumed.returns_to == JournalNumber{1, durable});
  const auto abandoned = std::ranges::count_if(seen, [&](uint64_t one) {
    return JournalNumber{first, one} > *resumed.returns_to;
  });
  CHECK(static_cast<uint64_t>(abandoned) == seen.back() - durable);
}

}  // namespace tenon
