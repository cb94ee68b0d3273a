// SPDX-License-Identifier: Apache-2.0
#include "host/train/step_profile.hpp"

#include <tenon/hook.h>

#include "host/journal/journal.hpp"
#include "host/tensor/trace_span.hpp"

#include <ATen/Functions.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {

TEST_CASE("a profile has the work of its steps, and nothing else", "[train]") {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "profile.json").string();
  StepProfile profile({.first = 2, .last = 3}, file, StepProfile::Devices::kCpu);
  for (uint64_t step = 1; step <= 4; ++step) {
    profile.begin_step(step);
    CHECK(is_tracing() == (step == 2 || step == 3));
    {
      const TraceSpan span("work of step", std::to_string(step));
      at::ones({4}).sum();
    }
    CHECK(profile.ends_with(step) == (step == 3));
    if (profile.ends_with(step)) {
      profile.finish();
    }
  }
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  CHECK_THAT(text.str(), contains_text("work of step 2"));
  CHECK_THAT(text.str(), contains_text("work of step 3"));
  CHECK_THAT(text.str(), !contains_text("work of step 1"));
  CHECK_THAT(text.str(), !contains_text("work of step 4"));
}

TEST_CASE("a run that ends early leaves the file of what it has, or none", "[train]") {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "profile.json").string();
  StepProfile started({.first = 1, .last = 9}, file, StepProfile::Devices::kCpu);
  started.begin_step(1);
  started.finish_run(4);
  CHECK(std::filesystem::file_size(file) > 0);
  const std::string other = (folder.path() / "other.json").string();
  StepProfile never({.first = 5, .last = 9}, other, StepProfile::Devices::kCpu);
  never.begin_step(4);
  never.finish_run(4);
  CHECK_FALSE(std::filesystem::exists(other));
}

TEST_CASE("a profile reads its steps and events from the journal", "[train]") {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "profile.json").string();
  StepProfile profile({.first = 2, .last = 2}, file, StepProfile::Devices::kCpu);
  Journal journal(1, 0);
  const auto subscription = journal.subscribe(profile, "profile");
  for (uint64_t step = 1; step <= 3; ++step) {
    const RunState state{.step = step};
    journal.add(StepBegan{state});
    CHECK(is_tracing() == (step == 2));
    const auto fire = [&](uint32_t event) {
      journal.add(EventBegan{event, step});
      at::ones({4}).sum();
      journal.add(EventEnded{event, step});
    };
    fire(TENON_EVENT_BEFORE_STEP);
    fire(TENON_EVENT_BEFORE_FORWARD);
    fire(TENON_EVENT_AFTER_FORWARD);
    fire(TENON_EVENT_AFTER_STEP);
    fire(TENON_EVENT_BEFORE_EVALUATE);  // still open when the profile ends
    journal.add(StepEnded{state});
    CHECK_FALSE(is_tracing());
  }
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  CHECK_THAT(text.str(), contains_text("\"step 2\""));
  CHECK_THAT(text.str(), contains_text("\"forward\""));
  CHECK_THAT(text.str(), contains_text("\"evaluate\""));
  CHECK_THAT(text.str(), !contains_text("step 1"));
  CHECK_THAT(text.str(), !contains_text("step 3"));
  CHECK(journal.num_failures() == 0);
}

}  // namespace tenon
