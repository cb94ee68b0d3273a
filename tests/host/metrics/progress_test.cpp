// SPDX-License-Identifier: Apache-2.0
#include "host/metrics/progress.hpp"

#include "host/journal/journal.hpp"
#include "host/log/log.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

// What a process prints whose standard output and error are one terminal.
std::string on_terminal(const std::function<void()>& print) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(master >= 0);
  REQUIRE(::grantpt(master) == 0);
  REQUIRE(::unlockpt(master) == 0);
  const int slave = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
  REQUIRE(slave >= 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(slave, STDOUT_FILENO);
    ::dup2(slave, STDERR_FILENO);
    print();
    ::_exit(0);
  }
  ::close(slave);
  std::string text;
  char block[4096];
  for (ssize_t n = 0; (n = ::read(master, block, sizeof block)) > 0;) {
    text.append(block, static_cast<size_t>(n));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(master);
  CHECK(status == 0);
  return text;
}

}  // namespace

TEST_CASE("durations and numbers read as people write them", "[metrics]") {
  CHECK(duration_text(0.2) == "0 s");
  CHECK(duration_text(59.4) == "59 s");
  CHECK(duration_text(200) == "3 min 20 s");
  CHECK(duration_text(7500) == "2 h 05 min");
  CHECK(grouped_digits(0) == "0");
  CHECK(grouped_digits(999) == "999");
  CHECK(grouped_digits(869504) == "869,504");
  CHECK(grouped_digits(-1234567) == "-1,234,567");
}

TEST_CASE("a progress line tells step, loss, rate, speed and what is left", "[metrics]") {
  ProgressState state;
  state.step = 100;
  state.total_steps = 300;
  state.loss = 2.05;
  state.lr = 0.002;
  state.grad_norm = 0.7;
  state.tokens_per_second = 20480;
  state.seconds = 10;
  CHECK(progress_text(state) ==
        "step 100/300  loss 2.0500  lr 0.002  grad norm 0.700  20,480 tokens/s  20 s left");
  state.total_steps.reset();
  state.grad_norm.reset();
  state.non_finite_steps = 2;
  CHECK(progress_text(state) ==
        "step 100  loss 2.0500  lr 0.002  20,480 tokens/s  2 non-finite  10 s");
  state.non_finite_steps = 0;
  state.tokens_per_second = 0;
  state.samples_per_second = 160;
  CHECK(progress_text(state) == "step 100  loss 2.0500  lr 0.002  160 samples/s  10 s");
  state.window = "a\x1b[2J\n.csv";
  CHECK(progress_text(state) ==
        "step 100  window a\\x1b[2J\\x0a.csv  loss 2.0500  lr 0.002  160 samples/s  10 s");
}

TEST_CASE("the journal's entries give the lines that calls give", "[metrics]") {
  std::mt19937 random(3);
  const auto chance = [&random](uint32_t of) { return random() % of == 0; };
  const auto some = [&random] { return random() % 10000 / 64.0; };
  std::vector<std::string> called;
  std::vector<std::string> read;
  for (uint64_t step = 1; step <= 200; ++step) {
    // What the loop knows at a record, and what it showed.
    const bool has_loss = !chance(8);
    ProgressState state{.step = step,
                        .total_steps = chance(4) ? std::nullopt : std::optional<uint64_t>(200),
                        .loss = has_loss ? some() : std::numeric_limits<double>::quiet_NaN(),
                        .lr = some(),
                        .grad_norm = chance(2) ? std::nullopt : std::optional(some()),
                        .samples_per_second = some(),
                        .tokens_per_second = chance(2) ? 0 : some(),
                        .mfu = chance(2) ? std::nullopt : std::optional(some() / 200),
                        .seconds = some(),
                        .non_finite_steps = chance(3) ? random() % 9 : 0,
                        .window = chance(2) ? "w\x1b" : ""};
    MetricRecord record{.step = step, .values = {}, .window = state.window};
    if (has_loss) {
      record.values.emplace_back("loss", state.loss);
    }
    record.values.emplace_back("lr", state.lr);
    if (state.grad_norm.has_value()) {
      record.values.emplace_back("grad_norm", *state.grad_norm);
    }
    const RunPace pace{.total_steps = state.total_steps,
                       .samples_per_second = state.samples_per_second,
                       .tokens_per_second = state.tokens_per_second,
                       .mfu = state.mfu,
                       .seconds = state.seconds,
                       .non_finite_steps = state.non_finite_steps};
    called.push_back(progress_text(state));
    read.push_back(progress_text(progress_of({record, pace, has_loss})));
  }
  CHECK(read == called);
}

TEST_CASE("the progress line reads the journal", "[metrics]") {
  const ScratchFolder folder;
  const auto lines_of = [&folder](const std::string& name, const auto& body) {
    const std::string file = (folder.path() / name).string();
    set_up_log({.terminal = false, .file = file});
    Progress progress(Progress::Style::kQuiet);
    body(progress);
    flush_log();
    std::ifstream in(file);
    std::vector<std::string> lines;
    constexpr size_t kTime = 24;  // "2026-01-31 12:00:00.000 "
    for (std::string line; std::getline(in, line);) {
      lines.push_back(line.substr(std::min(kTime, line.size())));
    }
    return lines;
  };
  const MetricRecord record{.step = 3, .values = {{"loss", 0.5}, {"lr", 0.1}}};
  const RunState state{.step = 2};
  // The texts are those of the loop before it had a journal.
  const auto called = lines_of("called", [&](Progress& progress) {
    progress.say("tenon 0.1");
    progress.say("resumed from runs/a/checkpoints/step-2, after step 2");
    progress.say("loaded encoder");
    progress.show({.step = 3, .loss = 0.5, .lr = 0.1, .samples_per_second = 8, .seconds = 2});
    progress.say("step 3  eval/loss 0.6931");
    progress.say("saved runs/a/checkpoints/step-3 (1.5 MiB, 0.25 s)");
    progress.say("exported runs/a/exports/hf/step-3 (640 B, 2 s)");
    progress.say("done: reached 3 steps");
    progress.say("next: host --resume runs/a");
  });
  const auto read = lines_of("read", [&](Progress& progress) {
    using How = StateRestored::How;
    Journal journal(1, 0);
    const auto subscription = journal.subscribe(progress, "progress");
    journal.add(RunStarted{.folder = "runs/a", .header = "tenon 0.1"});
    journal.add(StateRestored{.state = state, .address = "runs/a/checkpoints/step-2"});
    journal.add(Remark{"loaded encoder"});
    journal.add(StepBegan{state});
    journal.add(WarningLogged{"only in the log"});
    journal.add(MetricsRecorded{record, {.samples_per_second = 8, .seconds = 2}});
    journal.add(EvaluationRecorded{record, "eval/", "step 3  eval/loss 0.6931"});
    journal.add(StateRestored{.how = How::kRolledBack, .state = state, .why = "a warning says so"});
    journal.add(SaveEnded{
        .address = "runs/a/checkpoints/step-3", .step = 3, .bytes = 3 << 19, .seconds = 0.25});
    journal.add(SaveEnded{.form = SaveEnded::Form::kExport,
                          .address = "runs/a/exports/hf/step-3",
                          .step = 3,
                          .bytes = 640,
                          .seconds = 2});
    journal.add(SaveEnded{.address = "b", .error = "a warning says so"});
    journal.add(RunEnded{.outcome = "done",
                         .reason = "reached 3 steps",
                         .line = "done: reached 3 steps",
                         .commands = "next: host --resume runs/a"});
  });
  CHECK(called.size() == 9);
  CHECK(read == called);
}

TEST_CASE("a message on the terminal takes the place of the status line", "[metrics]") {
  ::setenv("NO_COLOR", "1", 1);
  const std::string text = on_terminal([] {
    set_up_log({});
    Progress progress(Progress::Style::kAuto);
    ProgressState state;
    state.step = 1;
    progress.show(state);
    log_warning("first");
    log_warning("second");
    state.step = 2;
    progress.show(state);
    progress.say("done");
  });
  INFO(text);
  const auto after = [&](const std::string& part) { return text.substr(text.find(part)); };
  CHECK(text.starts_with("\rstep 1  "));
  CHECK_THAT(text, contains_text("\x1b[K\r\x1b[Kwarning: first\r\nwarning: second\r\n\rstep 2  "));
  CHECK_THAT(after("step 2"), contains_text("\x1b[K\r\ndone\r\n"));
}

}  // namespace tenon
