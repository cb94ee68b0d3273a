// SPDX-License-Identifier: Apache-2.0
//
// Calls into plugins that never return. No test waits longer than the limit that its recipe sets.
#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

std::string hanging_read(int sample) {
  return small_recipe(R"({"data": {"shuffle": false, "prefetch": 1, "timeout_seconds": 0.3,
    "train": {"options": {"hang_at_sample": )" +
                      std::to_string(sample) + "}}}}");
}

std::string hanging_hook(const std::string& event, int step) {
  return small_recipe(R"({"plugins": {"timeout_seconds": 0.3},
    "hooks": [{"type": "event_trace"}, {"type": "fail_at", "options": {"how": "hang", "event": ")" +
                      event + R"(", "step": )" + std::to_string(step) + "}}]}");
}

}  // namespace

TEST_CASE("a hanging read in a loader thread is named, and before the first step ends with 4",
          "[faults][watchdog]") {
  const HostRun run(hanging_read(0));
  INFO(run.result().err);
  CHECK(run.result().exit_code == 4);
  CHECK_THAT(run.result().err, contains_text("[plugin.stuck] dataset \"windows\""));
  CHECK_THAT(run.result().err, contains_text("read has not returned for"));
  CHECK_THAT(run.result().err, contains_text("before the first step"));
  CHECK_THAT(run.result().err, contains_text("data.timeout_seconds"));
  CHECK(run.summary()["error_id"] == "plugin.stuck");
  CHECK(run.summary()["steps"] == 0);
}

TEST_CASE("a read that hangs in the middle of a run ends it with 5, and a summary",
          "[faults][watchdog]") {
  const HostRun run(hanging_read(17));  // of the fifth batch
  INFO(run.result().err);
  CHECK(run.result().exit_code == 5);
  CHECK_THAT(run.result().err, contains_text("[plugin.stuck] dataset \"windows\""));
  CHECK(run.summary()["error_id"] == "plugin.stuck");
  CHECK(run.summary()["steps"] > 0);
  CHECK_THAT(run.file("log.txt"), contains_text("[plugin.stuck]"));
}

TEST_CASE("a hanging hook is named with its event, and no further hook is called",
          "[faults][watchdog]") {
  const HostRun before(hanging_hook("start", 0));
  INFO(before.result().err);
  CHECK(before.result().exit_code == 4);
  CHECK_THAT(before.result().err,
             contains_text("hook \"fail_at\" (plugin org.tenon.test.fail_at 0.1.0"));
  CHECK_THAT(before.result().err, contains_text("on_event at start has not returned for"));
  const HostRun after(hanging_hook("after_backward", 2));
  INFO(after.result().err);
  CHECK(after.result().exit_code == 5);
  CHECK_THAT(after.result().err, contains_text("on_event at after_backward has not returned for"));
  CHECK_THAT(after.result().err, contains_text("in step 2"));
  CHECK_THAT(after.result().err, contains_text("plugins.timeout_seconds"));
  CHECK_THAT(after.file("events.jsonl"), !contains_text("on_error"));
}

TEST_CASE("a limit of null is none, and a small one does not harm calls that return",
          "[faults][watchdog]") {
  const HostRun run(small_recipe(R"({"plugins": {"timeout_seconds": null},
    "data": {"timeout_seconds": null}})"));
  INFO(run.result().err);
  CHECK(run.result().exit_code == 0);
  const HostRun both(small_recipe(R"({"plugins": {"timeout_seconds": 20},
    "data": {"timeout_seconds": 20}})"));
  CHECK(both.result().exit_code == 0);
}

}  // namespace tenon
