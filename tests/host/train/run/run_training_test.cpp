// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_training.hpp"

#include "host/kernels/kernel_choice.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/host/train/run/run_rig.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// State of the process that runs change.
struct ProcessWide {
  int threads = at::get_num_threads();
  at::ScalarType default_dtype = c10::get_default_dtype_as_scalartype();
  bool is_deterministic = at::globalContext().deterministicAlgorithms();
  bool fills_memory = at::globalContext().deterministicFillUninitializedMemory();
  bool has_plain_kernels = kernel_policy().mode == KernelPolicy::Mode::kPlain;
  std::vector<bool> blocked = blocked_signals();         // by signal
  std::vector<void (*)(int)> handlers = all_handlers();  // by signal

  bool operator==(const ProcessWide&) const = default;

  static std::vector<bool> blocked_signals() {
    sigset_t mask;
    sigemptyset(&mask);
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    std::vector<bool> blocked;
    for (int signal = 1; signal < SIGRTMIN; ++signal) {
      blocked.push_back(sigismember(&mask, signal) == 1);
    }
    return blocked;
  }
  static std::vector<void (*)(int)> all_handlers() {
    std::vector<void (*)(int)> handlers;
    for (int signal = 1; signal < SIGRTMIN; ++signal) {
      struct sigaction action {};
      ::sigaction(signal, nullptr, &action);
      handlers.push_back(action.sa_handler);
    }
    return handlers;
  }
};

struct ObservedRun {
  Outcome outcome;
  std::optional<ProcessWide> during;  // at its last boundary
};

// Trains, and checks that the process is as it was afterwards.
ObservedRun run_of(const std::string& patch) {
  const auto process = test_process();  // part of the program around the run
  const ProcessWide before;
  ObservedRun run;
  {
    RunRig rig(patch);
    const ProcessWide with_rig;
    rig.request().on_boundary = [&run](RunBoundary, Trainer&) { run.during.emplace(); };
    run.outcome = run_training(rig.recipe(), rig.registry(), rig.process(), rig.request());
    CHECK(ProcessWide() == with_rig);
  }
  CHECK(ProcessWide() == before);
  return run;
}

constexpr char kNarrow[] = R"({"threads": {"compute": 1}, "train": {"precision": "fp32"},
                               "deterministic": false})";
constexpr char kWide[] = R"({"threads": {"compute": 2}, "train": {"precision": "fp64"},
                             "deterministic": true, "kernels": "plain"})";

}  // namespace

TEST_CASE("runs in one process do not see each other's settings", "[train]") {
  const ObservedRun first = run_of(kNarrow);
  REQUIRE(first.outcome.code == ExitCode::kDone);
  REQUIRE(first.during.has_value());
  CHECK(first.during->threads == 1);
  CHECK(first.during->default_dtype == at::kFloat);
  CHECK_FALSE(first.during->is_deterministic);
  CHECK(first.during->fills_memory);
  CHECK_FALSE(first.during->has_plain_kernels);

  const ObservedRun other = run_of(kWide);
  REQUIRE(other.outcome.code == ExitCode::kDone);
  REQUIRE(other.during.has_value());
  CHECK(other.during->threads == 2);
  CHECK(other.during->default_dtype == at::kDouble);
  CHECK(other.during->is_deterministic);
  CHECK_FALSE(other.during->fills_memory);
  CHECK(other.during->has_plain_kernels);
  CHECK(other.outcome.parameters_hash != first.outcome.parameters_hash);

  const ObservedRun again = run_of(kNarrow);
  REQUIRE(again.during.has_value());
  CHECK(*again.during == *first.during);
  CHECK(again.outcome.parameters_hash == first.outcome.parameters_hash);
  CHECK(run_of(kWide).outcome.parameters_hash == other.outcome.parameters_hash);
}

TEST_CASE("a run catches signals, and the program around it gets its handlers back", "[train]") {
  struct sigaction old {};
  struct sigaction own {};
  own.sa_handler = [](int) {};
  sigemptyset(&own.sa_mask);
  ::sigaction(SIGTERM, &own, &old);
  const ObservedRun run = run_of(kNarrow);
  REQUIRE(run.during.has_value());
  CHECK(run.during->handlers[SIGTERM - 1] != own.sa_handler);
  CHECK(run.during->blocked[SIGTERM - 1]);
  struct sigaction now {};
  ::sigaction(SIGTERM, &old, &now);
  CHECK(now.sa_handler == own.sa_handler);
}

TEST_CASE("a run that fails restores the process too", "[train]") {
  const ObservedRun run = run_of(R"({"threads": {"compute": 2}, "train": {"precision": "fp64"},
    "hooks": [{"type": "fail_at", "options": {"event": "before_step", "step": 3}}]})");
  CHECK(run.outcome.code == ExitCode::kFailed);

  const auto process = test_process();
  const ProcessWide before;
  {
    RunRig rig(kWide);
    std::filesystem::create_directory(rig.run_dir());
    std::ofstream(rig.run_dir() / "notes.txt") << "mine";
    CHECK_THROWS_AS(run_training(rig.recipe(), rig.registry(), rig.process(), rig.request()),
                    Error);
  }
  CHECK(ProcessWide() == before);
}

TEST_CASE("a check restores the process", "[train]") {
  const auto process = test_process();
  const ProcessWide before;
  {
    RunRig rig(kWide);
    check_training(rig.recipe(), rig.registry(), rig.process(), {}, {});
  }
  CHECK(ProcessWide() == before);
}

}  // namespace tenon
