// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/hook_proxy.hpp"

#include <algorithm>
#include <string>

#include "tests/plugins/fake_run.hpp"
#include "tests/plugins/made_component.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace {

tenon::HookProxy make_event_trace(const std::string& options = "{}") {
  return tenon::HookProxy(tenon::make_component("hook", "event_trace", options));
}

}  // namespace

TEST_CASE("event_trace writes a line for each event", "[plugins]") {
  const tenon::ScratchFolder folder;
  const auto hook = make_event_trace();
  CHECK(hook.info().events == TENON_ALL_EVENTS);
  tenon::FakeRun run(folder.path().string());
  run.fire(hook, TENON_EVENT_BEFORE_INIT);
  run.window_label = "2026 \"07\"";
  run.fire(hook, TENON_EVENT_BEFORE_STEP, 1);
  run.fire(hook, TENON_EVENT_AFTER_LOSS, 3, false);
  run.window_label = "";
  run.fire(hook, TENON_EVENT_END, 3);
  CHECK(tenon::file_text(folder.path() / "events.jsonl") ==
        R"({"event":"before_init","step":0,"epoch":0,"window":0,"microbatch":0,"is_train":true}
{"event":"before_step","step":1,"epoch":0,"window":0,"window_label":"2026 \"07\"","microbatch":0,"is_train":true}
{"event":"after_loss","step":3,"epoch":0,"window":0,"window_label":"2026 \"07\"","microbatch":0,"is_train":false}
{"event":"end","step":3,"epoch":0,"window":0,"microbatch":0,"is_train":true}
)");
}

TEST_CASE("event_trace has a name for every event", "[plugins]") {
  const tenon::ScratchFolder folder;
  const auto hook = make_event_trace();
  tenon::FakeRun run(folder.path().string());
  for (uint32_t event = 0; event < TENON_NUM_EVENTS; ++event) {
    run.fire(hook, event);
  }
  const std::string text = tenon::file_text(folder.path() / "events.jsonl");
  CHECK(std::count(text.begin(), text.end(), '\n') == TENON_NUM_EVENTS);
  CHECK_THAT(text, tenon::contains_text("\"before_optimizer_step\""));
  CHECK_THAT(text, tenon::contains_text("\"out_of_data\""));
}

TEST_CASE("event_trace writes the listed events only, and is complete after an error",
          "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string file = (folder.path() / "trace").string();
  const auto hook = make_event_trace(R"({"events": ["after_step"], "path": ")" + file + R"("})");
  tenon::FakeRun run("/nowhere");
  run.fire(hook, TENON_EVENT_START);
  run.fire(hook, TENON_EVENT_AFTER_STEP, 1);
  run.fire(hook, TENON_EVENT_ON_ERROR, 1);
  CHECK(tenon::file_text(file) ==
        R"({"event":"after_step","step":1,"epoch":0,"window":0,"microbatch":0,"is_train":true})"
        "\n");
}

TEST_CASE("event_trace refuses a name that is no event, and a file it cannot open", "[plugins]") {
  CHECK_FALSE(
      tenon::options_problem("hook", "event_trace", R"({"events": ["afterstep"]})").empty());
  const auto hook = make_event_trace();
  tenon::FakeRun run("/nowhere");
  CHECK_THAT(tenon::error_of([&] { run.fire(hook, TENON_EVENT_START); }),
             tenon::contains_text("cannot open /nowhere/events.jsonl"));
}
